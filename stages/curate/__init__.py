"""What training data must pass: filters, re-weighting, leakage."""
