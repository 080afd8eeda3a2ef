"""Drawing of a scene: shapes, colours and the PNG."""
