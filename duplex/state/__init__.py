"""Typed session state: who holds what, where, at which version, and what it may cost."""
