"""Apache Beam: one file per job; reads tables, applies a stage, writes shards."""
