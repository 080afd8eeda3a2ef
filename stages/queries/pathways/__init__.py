"""Operational pathways of running programs by deep-search chains, and queries made of them (paper 6.2, computers)."""
