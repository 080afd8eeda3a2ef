"""How good a judge is: its agreement with labels, per ingredient, and judges that err on purpose."""
