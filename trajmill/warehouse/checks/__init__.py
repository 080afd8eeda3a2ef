"""Notices lost and damaged files, and names them."""
