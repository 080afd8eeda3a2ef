"""The rows of a trainer's files: a step in a family's dialect, its columns, and the writers of files."""
