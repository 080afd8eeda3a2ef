"""Explores a running app: tries its elements, and makes its graph from what they did (paper 6.2, computers)."""
