"""Provenance of NumPy code, cell by cell."""
