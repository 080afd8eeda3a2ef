"""Queries from the graphs of live apps, by the five steps of the paper (GUI-Owl 6.2), in any environment."""
