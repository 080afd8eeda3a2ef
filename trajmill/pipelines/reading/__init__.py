"""Reads committed rows as records for the pipelines: queries, episodes, verdicts, histories."""
