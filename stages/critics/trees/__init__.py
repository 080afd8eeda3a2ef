"""What accessibility trees say: how a screen stands, which element an action touched, what came of a step."""
