"""Lays out the widgets of a page: gives a scene and an accessibility tree."""
