"""The `talk` stage: the answer's text in, spectra of its clauses out."""

from __future__ import annotations

from pathlib import Path

from duplex.connector.payload import Payload, Spectrum, Text
from duplex.engine.base import StageRequest
from duplex.engine.worker import Emit, Usage, Worker
from duplex.errors import StageError, StateError
from duplex.models.hibari.acoustic import Acoustic
from duplex.models.hibari.phonemes import Phonemizer
from duplex.models.voice.clauses import Clause, ClauseSplitter, Ending

_WARM_UP = "Well, let me see how long this takes."

_LEAD_S = 0.0125
"""Silence kept before a clause: the network predicts 300 ms, all of which would be waited for."""

_PAUSE_S = {Ending.SENTENCE: 0.35, Ending.PAUSE: 0.1, Ending.NONE: 0.0, Ending.LAST: 0.1}
"""Silence kept after a clause, at the voice's own pace. The voice itself pauses 130 to 180 ms at a comma, of which what
dies away after the last sound is 40; after a whole sentence it is silent for 300 to 500 ms."""


class TalkStage:
    """Loads the acoustic network once and makes a worker for each turn.

    Args:
        acoustic: path of ``hibari/acoustic.onnx``.
    """

    def __init__(self, *, acoustic: Path) -> None:
        self._path = acoustic
        self._phonemizer: Phonemizer | None = None
        self._acoustic: Acoustic | None = None

    def load(self) -> None:
        """Raises ModelStoreError where the file cannot be read."""
        self._phonemizer = Phonemizer()
        self._acoustic = Acoustic(self._path)
        for symbols in self._phonemizer(_WARM_UP):
            self._acoustic(symbols, speed=1.0)

    def __call__(self, request: StageRequest) -> Worker:
        if self._phonemizer is None or self._acoustic is None:
            raise StateError(f"{request.stage}: used before it was loaded")
        return TalkWorker(
            stage=request.stage,
            phonemizer=self._phonemizer,
            acoustic=self._acoustic,
            speed=request.options.speed,
        )


class TalkWorker:
    """`Text` in, one `Spectrum` a clause out.

    Text without anything to say (an emoji, a rule of dashes, a script that the voice cannot read) belongs to the clause
    after it; at the end of the answer it is left out.
    """

    def __init__(self, *, stage: str, phonemizer: Phonemizer, acoustic: Acoustic, speed: float) -> None:
        if not 0.25 <= speed <= 4.0:
            raise StageError(f"speed {speed} is outside 0.25 to 4: choose one inside", stage=stage)
        self._phonemizer = phonemizer
        self._acoustic = acoustic
        self._speed = speed
        self._splitter = ClauseSplitter()
        self._received = 0
        self._spoken = 0
        """Characters that the clauses emitted so far speak."""

    def feed(self, payload: Payload, emit: Emit) -> None:
        """Take the next piece of text and speak the clauses that it completes.

        Raises:
            StateError: it is no text, or does not follow on what came before.
        """
        if not isinstance(payload, Text) or payload.start != self._received:
            raise StateError(f"talking takes text, and the next piece begins at {self._received}")
        self._received += len(payload.text)
        self._speak(self._splitter.feed(payload.text), emit)

    def finish(self, emit: Emit) -> Usage:
        self._speak(self._splitter.finish(), emit)
        return Usage()

    def _speak(self, clauses: list[Clause], emit: Emit) -> None:
        for clause in clauses:
            runs = self._phonemizer(clause.text)
            start, length = self._spoken, clause.end - self._spoken
            for number, symbols in enumerate(runs, start=1):
                last = number == len(runs)
                pause_s = _PAUSE_S[clause.ending if last else Ending.NONE] / self._speed
                frames = self._acoustic(symbols, speed=self._speed).trimmed(lead_s=_LEAD_S, tail_s=pause_s)
                end = start + length * number // len(runs)
                spectrum = Spectrum(parts=frames.parts, f0=frames.f0, text_start=self._spoken, text_end=end)
                self._spoken = end
                if not emit(spectrum):
                    return

    def close(self) -> None:
        """Nothing is held."""
