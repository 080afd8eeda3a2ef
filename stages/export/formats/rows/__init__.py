"""The rows of a trainer's files: one step in a family's words, its columns, and the writers of files."""
