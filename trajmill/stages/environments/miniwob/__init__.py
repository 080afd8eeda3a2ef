"""MiniWoB++: the pages of the `miniwob` wheel in a real browser."""
