"""A Hugging Face model that transformers runs in this process."""
