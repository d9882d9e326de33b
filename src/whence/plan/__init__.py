"""whence's own description of a pipeline: operators, schemas, paths, rendering, JSON."""
