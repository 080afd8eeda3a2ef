"""OSWorld's own code (`desktop-env`) in a process of another Python environment."""
