"""Where rows live: shards, commits, releases, screens, DuckDB views. Knows nothing of stages."""
