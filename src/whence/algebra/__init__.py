"""Witness shapes and provenance expressions; pure Python."""
