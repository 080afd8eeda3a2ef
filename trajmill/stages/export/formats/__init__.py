"""Writes a release as a folder that a trainer reads; one module for each format."""
