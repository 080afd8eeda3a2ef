"""OSWorld's tasks: their files, their preparation and their programmatic check."""
