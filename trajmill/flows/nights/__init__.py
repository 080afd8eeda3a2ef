"""The flows that run unattended: nightly collecting, retraining and maintenance; and the notices of their trouble."""
