"""Reads a prompt and a screen for the embedded policy: words, candidates and features."""
