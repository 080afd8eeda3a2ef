"""Keeps the files of a warehouse, in a folder or in a bucket, behind one protocol."""
