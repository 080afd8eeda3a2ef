"""Work on a warehouse that grows old."""
