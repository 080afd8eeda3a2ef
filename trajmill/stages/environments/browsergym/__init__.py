"""BrowserGym tasks as environments, each in its own process."""
