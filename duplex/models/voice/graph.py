"""The stages of a spoken conversation, as `voice.toml` declares them."""

from __future__ import annotations

from importlib import resources

from duplex.orchestrator.graphfile import read

VOICE = read(resources.files(__package__) / "voice.toml")
"""The default graph."""
