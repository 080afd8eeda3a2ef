"""Queries of the annotated tasks of app files (`source = dag`)."""
