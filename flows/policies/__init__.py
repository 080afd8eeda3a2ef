"""The policy versions of a run: which one acts, which are added, promoted and rolled back."""
