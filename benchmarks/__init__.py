"""Measurements, compared within one run."""
