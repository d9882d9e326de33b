"""Sealing: witnesses become nodes and edges that are named by hashes, computed by Spark."""
