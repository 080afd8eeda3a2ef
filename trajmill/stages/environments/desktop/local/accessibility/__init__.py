"""The accessibility tree of a local desktop, read over AT-SPI."""
