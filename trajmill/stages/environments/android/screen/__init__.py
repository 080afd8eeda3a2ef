"""Reads the screen of a device: screenshot and accessibility tree."""
