"""Measures a running server from outside."""
