"""The simulated apps as a static web app, and as an environment in a real Chromium."""
