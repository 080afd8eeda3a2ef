"""Makes the folder of a vision-language model that knows nothing yet and is small enough to be trained on a laptop."""
