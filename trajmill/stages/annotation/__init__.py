"""Annotates graphs of apps with models: titles, descriptions, what elements do, names of slots (GUI-Owl 6.2)."""
