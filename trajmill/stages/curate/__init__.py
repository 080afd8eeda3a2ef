"""Filters training data, weighs it, and checks it for leaks."""
