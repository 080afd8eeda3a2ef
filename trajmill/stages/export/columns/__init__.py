"""Columns of a release's files: content blocks, images and lists in Arrow."""
