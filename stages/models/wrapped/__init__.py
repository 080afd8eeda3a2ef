"""Models around a model: a row for each call, answers kept on disk, weights kept loaded."""
