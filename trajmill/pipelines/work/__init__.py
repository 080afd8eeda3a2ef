"""How work is named and divided: what travels through a pipeline is the name of a range of a staged list."""
