"""Sealing: witnesses become nodes and edges that are named by hashes, in SQL.

The same SQL runs in DuckDB, for what is small, and on Spark; `formulas` has the few words in which
the two differ, `work` what is asked of either.
"""
