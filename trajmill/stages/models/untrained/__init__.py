"""Makes an untrained vision-language model that is small enough to be trained on a laptop."""
