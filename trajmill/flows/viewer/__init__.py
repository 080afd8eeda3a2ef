"""The viewer: a local web page over a warehouse, for people who look at runs, trajectories and judges."""
