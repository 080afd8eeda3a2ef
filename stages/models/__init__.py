"""Models behind roles: one protocol, many servers."""
