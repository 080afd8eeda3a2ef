"""Tasks that a model proposes: a curriculum from human tasks (CODA 3.4), or from a start screen (paper 6.2)."""
