"""Executors: what does the shards of a stage."""
