"""The goal of a query, its check, and the annotated path that reaches it."""
