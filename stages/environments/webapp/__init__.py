"""The apps of the simulated phone and desktop as a static web app, and as an environment in a real Chromium."""
