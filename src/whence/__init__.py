"""whence: where did this row come from? Provenance for PySpark pipelines, unchanged."""
