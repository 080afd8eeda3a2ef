"""BrowserGym tasks as environments, each in a process of its own."""
