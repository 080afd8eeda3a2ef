"""Models that wrap another model: they make a row for each call, cache answers on disk, or keep weights loaded."""
