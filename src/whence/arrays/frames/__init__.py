"""Functions over pandas frames, followed cell by cell."""
