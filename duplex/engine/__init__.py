"""Engines compute: one interface, and one file per way of running a model."""
