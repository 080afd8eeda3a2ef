"""Stores rows: shards, commits, releases, screens and DuckDB views. Knows nothing of stages."""
