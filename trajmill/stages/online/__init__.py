"""Online training: serves episodes whose steps a trainer decides."""
