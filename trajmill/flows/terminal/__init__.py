"""Formats what the command line prints: one trajectory, one calibration."""
