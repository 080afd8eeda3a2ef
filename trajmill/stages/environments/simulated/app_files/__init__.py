"""App and errand files: their records, a reader that keeps line numbers, and checks."""
