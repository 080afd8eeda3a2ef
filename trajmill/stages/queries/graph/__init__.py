"""Queries sampled from navigation graphs (`source = dag`): sample, describe, write, check, walk (paper 6.2)."""
