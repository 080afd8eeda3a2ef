"""Where rows live: shards, commits, releases, screens, DuckDB views."""
