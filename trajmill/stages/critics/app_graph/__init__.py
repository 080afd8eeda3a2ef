"""Critics that judge by the graph of a live app, without a model; what the graph does not tell stays unjudged."""
