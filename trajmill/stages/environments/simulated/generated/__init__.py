"""Makes new app files from a grammar of domains, features, widgets, wordings and layouts."""
