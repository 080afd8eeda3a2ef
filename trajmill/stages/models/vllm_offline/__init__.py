"""A Hugging Face model that vLLM runs in this process."""
