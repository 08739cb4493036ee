"""What travels between stages. Imports nothing of ours but its own parts, so that everything may import it.

A payload is immutable once put: whoever fetches it may read its arrays and must not write them.
Sample positions count from the first sample of the session's input, at the rate that is named beside them.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

import numpy as np
from numpy.typing import NDArray

from duplex.connector.kind import Kind as Kind
from duplex.connector.tensor import Actions as Actions
from duplex.connector.tensor import CodecCodes as CodecCodes
from duplex.connector.tensor import Frames as Frames
from duplex.connector.tensor import HiddenStates as HiddenStates
from duplex.connector.tensor import KVBlocks as KVBlocks
from duplex.connector.tensor import Latents as Latents
from duplex.connector.tensor import Tensor as Tensor


class MarkKind(StrEnum):
    """What a `Mark` says about the input up to its position."""

    PAUSE = "pause"
    """The user has just fallen silent; more speech may follow. Recognition may decode up to here now."""
    ASK = "ask"
    """Asks the listening stage whether the turn that ends here is complete."""
    END = "end"
    """The turn ends here; recognition gives its final text."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Pcm:
    """Mono signed 16-bit audio.

    Attributes:
        samples: int16 [n].
        rate_hz: samples per second.
        start: position of the first sample.
    """

    samples: NDArray[np.int16]
    rate_hz: int
    start: int = 0

    kind = Kind.PCM

    @property
    def nbytes(self) -> int:
        return self.samples.nbytes


@dataclass(frozen=True, slots=True, kw_only=True)
class Mark:
    """A position in the input that means something.

    Attributes:
        mark: what it means.
        start: first sample of the turn (PAUSE, ASK, END).
        end: the position itself: one past the last sample that counts.
    """

    mark: MarkKind
    start: int
    end: int

    kind = Kind.MARK
    nbytes = 24


@dataclass(frozen=True, slots=True, kw_only=True)
class Speech:
    """Speech probabilities of consecutive windows.

    Attributes:
        start: first sample of the first window.
        window: samples per window.
        probabilities: one number in [0, 1] per window.
        levels: loudness in dBFS of consecutive frames, as many in each window as in any other; empty where it was not
            measured.
    """

    start: int
    window: int
    probabilities: tuple[float, ...]
    levels: tuple[float, ...] = ()

    kind = Kind.SPEECH

    @property
    def nbytes(self) -> int:
        return 8 * (len(self.probabilities) + len(self.levels))


@dataclass(frozen=True, slots=True, kw_only=True)
class EndOfTurn:
    """Answer to an ASK mark.

    Attributes:
        end: the position that was asked about.
        probability: that the turn is complete, in [0, 1].
    """

    end: int
    probability: float

    kind = Kind.END_OF_TURN
    nbytes = 16


@dataclass(frozen=True, slots=True, kw_only=True)
class Transcript:
    """Words recognised in the input.

    Attributes:
        text: all words since the start of the turn (a later transcript replaces an earlier one).
        end: position that recognition has come to.
        final: True for the last one of its turn.
    """

    text: str
    end: int
    final: bool

    kind = Kind.TRANSCRIPT

    @property
    def nbytes(self) -> int:
        return len(self.text)


@dataclass(frozen=True, slots=True, kw_only=True)
class Message:
    """One message of a prompt: `role` is system, user or assistant."""

    role: str
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Tool:
    """A function that a language model may ask to be called. `parameters`: a JSON Schema of an object, as JSON text."""

    name: str
    description: str
    parameters: str

    @property
    def nbytes(self) -> int:
        return len(self.name) + len(self.description) + len(self.parameters)


@dataclass(frozen=True, slots=True, kw_only=True)
class Prompt:
    """Everything a language model needs for one answer.

    Attributes:
        messages: oldest first; the last one is what is to be answered.
        complete: whether it is all there. Where it is not, its last message is still being said: the prompt is only
            read into the cache, ahead of the one that will be answered, and judged (`Completeness`).
        max_tokens: upper bound of the answer, in tokens.
        temperature: 0 is greedy.
        tools: what may be called; a model that cannot call any answers in words.
        may_cut: whether what is too long for the model may be cut; else it fails.
    """

    messages: tuple[Message, ...]
    max_tokens: int
    temperature: float
    complete: bool = True
    tools: tuple[Tool, ...] = ()
    may_cut: bool = True

    kind = Kind.PROMPT

    @property
    def nbytes(self) -> int:
        return sum(len(message.text) for message in self.messages) + sum(tool.nbytes for tool in self.tools)


@dataclass(frozen=True, slots=True, kw_only=True)
class Completeness:
    """What a language model thinks of a prompt that is not complete.

    Attributes:
        probability: that nothing follows the words of its last message, in [0, 1]: that of the token which ends it.
    """

    probability: float

    kind = Kind.COMPLETENESS
    nbytes = 8


@dataclass(frozen=True, slots=True, kw_only=True)
class Text:
    """One piece of generated text; concatenated in order the pieces are the answer.

    Attributes:
        text: the piece.
        start: characters of the answer before this piece.
    """

    text: str
    start: int

    kind = Kind.TEXT

    @property
    def nbytes(self) -> int:
        return len(self.text)


@dataclass(frozen=True, slots=True, kw_only=True)
class Spectrum:
    """Acoustic frames of one clause, as an acoustic model predicts them.

    Attributes:
        parts: five float32 [bins, frames] arrays: log harmonic magnitude, harmonic phase, log noise
            magnitude, log free magnitude, free phase.
        f0: float32 [frames], Hz.
        text_start, text_end: the characters of the answer that this clause speaks.
    """

    parts: tuple[NDArray[np.float32], ...]
    f0: NDArray[np.float32]
    text_start: int
    text_end: int

    kind = Kind.SPECTRUM

    @property
    def nbytes(self) -> int:
        return sum(part.nbytes for part in self.parts) + self.f0.nbytes


@dataclass(frozen=True, slots=True, kw_only=True)
class Voiced:
    """Audio that speaks a known piece of the answer.

    Attributes:
        samples: int16 [n].
        rate_hz: samples per second.
        text_end: characters of the answer spoken once this chunk has been played to its end.
    """

    samples: NDArray[np.int16]
    rate_hz: int
    text_end: int

    kind = Kind.VOICED

    @property
    def nbytes(self) -> int:
        return self.samples.nbytes


Payload = (
    Pcm
    | Mark
    | Speech
    | EndOfTurn
    | Transcript
    | Prompt
    | Completeness
    | Text
    | Spectrum
    | Voiced
    | HiddenStates
    | CodecCodes
    | KVBlocks
    | Latents
    | Frames
    | Actions
)
