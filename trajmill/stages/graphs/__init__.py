"""Navigation graphs of apps: pages, elements, slots and transitions, in one format for all environments (paper 6.2)."""
