"""Reads the steps of a release as examples of a family, for `export`."""
