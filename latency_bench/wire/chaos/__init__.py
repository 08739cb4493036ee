"""Clients that talk, break off, come back, send nonsense and read slowly; and what must hold for each of them."""
