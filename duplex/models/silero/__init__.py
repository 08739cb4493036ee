"""Silero VAD: the probability of speech, 32 ms at a time."""
