"""Shared by the recipes that train a model in Hugging Face's layout on replies of a release."""
