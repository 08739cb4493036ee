"""The `hear` stage: the words of one turn, recognised while they are spoken and once more when they end."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from duplex.connector.payload import Kind, Mark, MarkKind, Payload, Pcm, Transcript
from duplex.engine.base import StageRequest
from duplex.engine.worker import Emit, Usage, Waiting, Worker
from duplex.errors import StageError, StateError
from duplex.models.moonshine.recognizer import NOTHING, RATE_HZ, Heard, Moonshine
from duplex.models.voice.quiet import quietest_cut, speech_span
from duplex.models.voice.tape import AudioTape

_SEGMENT = 20 * RATE_HZ
"""Longest stretch decoded at once; the encoder's time and memory grow with the square of it."""
_SEGMENT_CUT = 13 * RATE_HZ
"""A segment that has become too long is cut at its quietest point after this."""
_PIECE = RATE_HZ
_PARTIAL = RATE_HZ // 2
"""New audio that makes a decode between pauses worth its time."""
_REPORT = 5 * RATE_HZ
"""Audio after which a transcript is given even where its words are the same, to say how far recognition has come."""
_TAIL = RATE_HZ // 10
"""Audio after the position of a mark that still belongs to the last word."""


class HearStage:
    """Loads the recogniser once and makes a worker for each turn.

    Args:
        encoder, decoder, tokenizer: paths of ``moonshine/encoder.ort``, ``decoder.ort`` and ``tokenizer.json``.
    """

    def __init__(self, *, encoder: Path, decoder: Path, tokenizer: Path) -> None:
        self._paths = (encoder, decoder, tokenizer)
        self._recognizer: Moonshine | None = None

    def load(self) -> None:
        """Raises ModelStoreError where a file cannot be read."""
        encoder, decoder, tokenizer = self._paths
        self._recognizer = Moonshine(encoder=encoder, decoder=decoder, tokenizer=tokenizer)

    def __call__(self, request: StageRequest) -> Worker:
        if self._recognizer is None:
            raise StateError(f"{request.stage}: used before it was loaded")
        return HearWorker(stage=request.stage, recognizer=self._recognizer)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Decoded:
    """What the audio [start, end) was heard as."""

    start: int
    end: int
    heard: Heard


class HearWorker:
    """Audio and marks in, `Transcript` out.

    feed(`Pcm` at 16 kHz) stores. A turn of any length is heard: at 20 s the words up to a pause are settled, and their
    audio is let go. feed(`Mark` PAUSE) decodes up to the mark and keeps the result, which feed(`Mark` END) with
    the same positions gives out as the final transcript without decoding again. finish() without an END ends the turn
    where the audio ends. Between the marks, whenever a second of new audio is there and nothing else to do, a decode
    shows the words so far, and is the next decode's draft. Audio without speech is heard as "".
    """

    def __init__(self, *, stage: str, recognizer: Moonshine) -> None:
        self._stage = stage
        self._recognizer = recognizer
        self._tape = AudioTape(capacity=_SEGMENT + _PIECE)
        self._settled: list[str] = []
        self._settled_to = 0
        self._latest = _Decoded(start=0, end=0, heard=NOTHING)
        self._paused: _Decoded | None = None
        self._shown = ""
        self._reported = 0
        self._cancelled = False
        self._final = False

    def feed(self, payload: Payload, emit: Emit) -> None:
        match payload:
            case _ if self._final:
                pass
            case Pcm(rate_hz=rate_hz) if rate_hz == RATE_HZ:
                # Piece by piece, so that a long chunk never holds more than a segment and a piece.
                for offset in range(0, len(payload.samples), _PIECE):
                    self._tape.append(payload.samples[offset : offset + _PIECE], payload.start + offset)
                    self._settle()
                if self._tape.end - self._reported >= _REPORT:
                    self._reported = self._tape.end
                    emit(Transcript(text=self._shown, end=self._tape.end, final=False))
            case Mark(mark=MarkKind.PAUSE):
                if self._resume(payload) is None and (decoded := self._decode(payload.start, payload.end, self._stop)):
                    self._paused = decoded
                    self._show(emit, decoded, final=False, again=True)
            case Mark(mark=MarkKind.END):
                if decoded := self._resume(payload) or self._decode(payload.start, payload.end, self._stop):
                    self._show(emit, decoded, final=True)
            case Mark():
                pass
            case _:
                raise StageError(f"takes audio at {RATE_HZ} Hz and marks, not {payload.kind}", stage=self._stage)

    def idle(self, emit: Emit, waiting: Waiting) -> None:
        """Decode what has been said so far, unless a mark is on its way."""
        fresh = max(self._latest.end, self._settled_to, self._tape.start)
        if (
            self._final
            or self._tape.end - fresh < _PARTIAL
            or speech_span(self._tape.read(fresh, self._tape.end)) is None
        ):
            return
        decoded = self._decode(0, self._tape.end, lambda: self._cancelled or waiting(Kind.MARK))
        if decoded is not None:
            self._show(emit, decoded, final=False)

    def finish(self, emit: Emit) -> Usage:
        if not self._final and (decoded := self._decode(0, self._tape.end, self._stop)):
            self._show(emit, decoded, final=True)
        return Usage()

    def cancel(self) -> None:
        """Stops a decode before its next token."""
        self._cancelled = True

    def close(self) -> None:
        """Nothing is held but memory."""

    def _stop(self) -> bool:
        return self._cancelled

    def _resume(self, mark: Mark) -> _Decoded | None:
        """The result of an earlier pause, where it already covers the turn up to this mark."""
        if self._paused is None or self._paused.start != max(mark.start, self._settled_to):
            return None
        return self._paused if mark.end <= self._paused.end else None

    def _settle(self) -> None:
        """Once there is a whole segment, recognise it up to a pause for good, and let its audio go."""
        start = max(self._settled_to, self._tape.start)
        if self._tape.end - start < _SEGMENT:
            return
        cut = start + quietest_cut(self._tape.read(start, self._tape.end), _SEGMENT_CUT, _SEGMENT)
        decoded = self._decode(start, cut - _TAIL, self._stop)
        if decoded is None:
            return
        if decoded.heard.text:
            self._settled.append(decoded.heard.text)
        self._settled_to = cut
        self._tape.forget_before(cut)

    def _decode(self, start: int, end: int, stop: Callable[[], bool]) -> _Decoded | None:
        """Recognise [start, end) and a little after, as far as it is not settled; None where `stop` said so."""
        start = max(start, self._settled_to)
        samples = self._tape.read(start, end + _TAIL)
        span = speech_span(samples)
        if span is None:
            heard: Heard | None = NOTHING
        else:
            # Not the last token: it is where the audio broke off.
            draft = self._latest.heard.tokens[:-1] if self._latest.end > self._settled_to else ()
            heard = self._recognizer.hear(samples[slice(*span)], draft=draft, stop=stop)
        if heard is None:
            return None
        self._latest = _Decoded(start=start, end=end, heard=heard)
        return self._latest

    def _show(self, emit: Emit, decoded: _Decoded, *, final: bool, again: bool = False) -> None:
        """Give out the words; the same ones once more only where they are the last, or where `again` says so."""
        text = " ".join((*self._settled, decoded.heard.text)).strip()
        if final or again or text != self._shown:
            self._shown = text
            self._final = final
            self._reported = max(self._reported, decoded.end)
            emit(Transcript(text=text, end=decoded.end, final=final))
