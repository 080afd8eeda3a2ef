"""Recipes: how a release becomes a new policy version."""
