"""App and errand files: their records, the reader that keeps line numbers, and the checks."""
