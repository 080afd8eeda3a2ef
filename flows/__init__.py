"""Prefect: when and in which order; the CLI; configuration; reports."""
