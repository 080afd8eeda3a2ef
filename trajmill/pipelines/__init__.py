"""Apache Beam jobs, one per file: each reads tables, calls functions of `stages` and writes shards."""
