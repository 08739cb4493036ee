"""What speaks to a server from outside."""
