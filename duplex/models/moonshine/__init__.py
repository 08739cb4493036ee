"""Moonshine: English speech to text, one utterance at a time."""
