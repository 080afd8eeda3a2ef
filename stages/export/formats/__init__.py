"""Releases as the folders that trainers read, one module per format."""
