"""The only package that imports pyspark: reads plans, instruments them, runs them."""
