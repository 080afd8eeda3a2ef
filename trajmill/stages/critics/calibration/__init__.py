"""Measures how good a judge is: its agreement with labels, per ingredient; and judges with intentional errors."""
