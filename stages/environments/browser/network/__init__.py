"""The network of a browser context: which hosts it may reach, and which requests are pending."""
