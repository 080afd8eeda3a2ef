"""Writes a release as a folder that a trainer reads."""
