"""The default voice as a model family."""

from __future__ import annotations

from collections.abc import Collection

from duplex.models.family import Pipeline, Resources
from duplex.models.voice.graph import VOICE
from duplex.models.voice.pipeline import INSTRUCTIONS, TRANSCRIBER, VOICES, VoicePipeline


class VoiceFamily:
    """See `duplex.models.family.Family`."""

    name = VOICE.name
    graph = VOICE
    instructions = INSTRUCTIONS
    voices = VOICES
    transcriber = TRANSCRIBER

    def build(self, stages: Collection[str], resources: Resources) -> Pipeline:
        return VoicePipeline(stages=stages, resources=resources)


FAMILY = VoiceFamily()
"""Named by the entry point."""
