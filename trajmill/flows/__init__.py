"""Prefect: when and in which order; the command line; configuration; reports."""
