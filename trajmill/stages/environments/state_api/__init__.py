"""Web applications whose state a test server sets, reads and compares over HTTP."""
