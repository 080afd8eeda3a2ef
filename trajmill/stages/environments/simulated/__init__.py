"""A simulated phone and desktop: apps described by YAML, drawn by Pillow, with an accessibility tree."""
