"""Queries from the graphs of apps, explored or written by hand, in any environment (`source = graph`)."""
