"""Where pipelines run: the Beam runner, what travels to its workers, and the watch over a job on other machines."""
