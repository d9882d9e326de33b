"""Spark's JVM: values, expressions and plans in it, and what its failures mean."""
