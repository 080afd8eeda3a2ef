"""The nouns: typed records, action spaces, coordinate spaces, Arrow schemas, typed errors."""

SCHEMA_VERSION = 1
"""Version of every record and table in this package; a warehouse of a newer version is refused."""
