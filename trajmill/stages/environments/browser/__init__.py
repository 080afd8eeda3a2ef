"""A real headless Chromium, driven through Playwright."""
