"""The goal of a query, whether it is reached, and the annotated path that reaches it."""
