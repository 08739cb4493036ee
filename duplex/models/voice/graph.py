"""The stages of a spoken conversation, and what flows between them.

    microphone -> listen ---- speech probabilities ----.
            '---> endpoint -- is the turn complete? ---+--> session --> prompt --> think --> talk --> code2wav --> ear
            '---> hear ------ the user's words --------'                 text'---> session

The loads are what nine of ten stretches of 10 s of a conversation took at most, on two cores that had other work as
well: a turn of the user and an answer of a sentence or two in each.

`hear` does not feed `think` directly: what was heard becomes history first, and only the session knows the history
that the prompt is made of. `think`, `talk` and `code2wav` are submitted together, before the words are known.
"""

from __future__ import annotations

from duplex.connector.payload import Kind
from duplex.orchestrator.graph import Edge, StageGraph, StageSpec

VOICE = StageGraph(
    name="voice",
    stages=[
        StageSpec(
            name="listen",
            lifetime="session",
            accepts=frozenset({Kind.PCM}),
            gives=frozenset({Kind.SPEECH}),
            final_output=True,
            load=0.025,
        ),
        StageSpec(
            name="endpoint",
            lifetime="session",
            accepts=frozenset({Kind.PCM, Kind.MARK}),
            gives=frozenset({Kind.END_OF_TURN}),
            final_output=True,
            load=0.02,
            state_bytes=320_000,
        ),
        StageSpec(
            name="hear",
            lifetime="turn",
            accepts=frozenset({Kind.PCM, Kind.MARK}),
            gives=frozenset({Kind.TRANSCRIPT}),
            final_output=True,
            load=0.03,
            state_bytes=672_000,
        ),
        StageSpec(
            name="think",
            lifetime="turn",
            accepts=frozenset({Kind.PROMPT}),
            gives=frozenset({Kind.TEXT, Kind.COMPLETENESS}),
            final_output=True,
            load=0.2,
        ),
        StageSpec(
            name="talk",
            lifetime="turn",
            accepts=frozenset({Kind.TEXT}),
            gives=frozenset({Kind.SPECTRUM}),
            load=0.04,
        ),
        StageSpec(
            name="code2wav",
            lifetime="turn",
            accepts=frozenset({Kind.SPECTRUM}),
            gives=frozenset({Kind.VOICED}),
            final_output=True,
            load=0.015,
        ),
    ],
    edges=[
        Edge(source="think", target="talk", kind=Kind.TEXT),
        Edge(source="talk", target="code2wav", kind=Kind.SPECTRUM),
    ],
)
"""The default graph."""
