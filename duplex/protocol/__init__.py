"""Wire messages, as msgspec structs."""
