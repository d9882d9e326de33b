"""Backward and forward answers, read from an archive with DuckDB."""
