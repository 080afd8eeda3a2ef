"""Derives further kinds of data, and takes them into releases."""
