"""The native protocol between sockets and sessions."""
