"""Codecs between the texts that models write and the one internal action space."""
