"""Critics that ask models: a vision-language model for each step and each channel, screens and steps in words."""
