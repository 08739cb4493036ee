"""The names of the stages that a conversation needs. A model's graph declares stages under these names."""

from __future__ import annotations

LISTEN = "listen"
"""Session lifetime: audio in, speech probabilities out."""

ENDPOINT = "endpoint"
"""Session lifetime: audio and questions in, end-of-turn probabilities out."""

HEAR = "hear"
"""Per turn: audio in, the user's words out."""

THINK = "think"
"""Per turn: a prompt in, text out."""

TALK = "talk"
"""Per turn: text in, acoustic frames out."""

CODE2WAV = "code2wav"
"""Per turn: acoustic frames in, audio out."""

LISTENING = (LISTEN, ENDPOINT)
HEARING = (HEAR,)
WRITING = (THINK,)
SPEAKING = (THINK, TALK, CODE2WAV)
