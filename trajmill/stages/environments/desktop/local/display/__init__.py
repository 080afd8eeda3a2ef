"""The X display of a local desktop: pixels, windows, mouse and keyboard."""
