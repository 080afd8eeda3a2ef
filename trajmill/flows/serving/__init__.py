"""Model servers: started, checked, given adapters, and stopped."""
