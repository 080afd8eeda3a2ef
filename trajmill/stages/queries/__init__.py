"""Sources of queries: navigation graphs, pathways of programs, atomic operations, proposals of a model."""
