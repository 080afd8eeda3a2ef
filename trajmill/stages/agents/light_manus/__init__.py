"""LightManus: tasks across devices (paper NaturalGAIA, 4.1)."""
