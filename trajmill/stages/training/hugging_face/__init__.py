"""What the recipes share that train a model in Hugging Face's layout on the replies of a release."""
