"""Critics that know the annotations of a navigation graph: they read accessibility trees, no pixel and no model."""
