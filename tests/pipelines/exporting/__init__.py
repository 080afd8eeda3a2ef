"""Tests of how work is named and divided."""
