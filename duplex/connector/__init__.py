"""Typed roads between stages: payloads travel here, handles travel through control."""
