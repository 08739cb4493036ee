"""Measures a running server from outside, and parts of it alone."""
