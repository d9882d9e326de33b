"""Where runs live: Parquet files and a SQL catalog."""
