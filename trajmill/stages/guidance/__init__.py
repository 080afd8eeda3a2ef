"""Query-specific guidance for queries that failed."""
