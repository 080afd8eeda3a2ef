"""What models in this process share: their folder, their chat template, their pictures, their sampling."""
