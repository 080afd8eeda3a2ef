"""Finds the pathways of running programs by deep search, and makes queries from them (paper 6.2, computers)."""
