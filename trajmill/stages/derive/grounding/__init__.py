"""Grounding data: where on the screen is what an instruction speaks of (paper 2.2.2)."""
