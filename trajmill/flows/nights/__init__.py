"""The flows that run unattended: nightly collecting and retraining, and what they tell people."""
