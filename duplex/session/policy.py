"""When the user's turn is over: the figures that turn detection depends on."""

from __future__ import annotations

from dataclasses import dataclass

from duplex.session.settings import SemanticVad, ServerVad, TurnDetection


@dataclass(frozen=True, slots=True, kw_only=True)
class Enough:
    """When a silence is long enough: the turn sounds complete, its words are complete, and it is at least so long.

    Attributes:
        sound: probability by the sound (`EndOfTurn`), at least.
        words: probability by the words (`Completeness`), at least; None where nobody has judged them.
        silence_ms: the silence.
    """

    sound: float
    words: float | None
    silence_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class DetectorPolicy:
    """The figures that turn detection depends on, in milliseconds.

    Silence is what follows the last loud frame (`loudness`), but for `pause_ms` and `silence_ms`, which follow the last
    window that was speech.

    Attributes:
        threshold: probability from which a window is speech.
        onset_ms: speech needed before it counts (one noisy window must not interrupt anybody).
        pause_ms: silence from which recognition may already decode.
        silence_ms: silence that ends the turn without asking; None asks instead.
        ask_ms: silences at which to ask; `ask_again_ms`: more silence before each further question.
        sure: an answer from which on nothing more is asked.
        likely: an answer to the turn may begin from this probability on.
        kept: of the answers to one pause so many count, the newest, by their mean: each for itself is uncertain, and
            another one with every few frames more of silence. Once there are so many no open question is waited for.
        enough: what ends the turn. A pause inside a sentence
            often sounds complete, and its words often are, but seldom both. The figures were chosen on fifty synthetic
            sentences beside the committed clips, and are the shortest that spare most of their pauses.
        max_silence_ms: silence that ends the turn whatever the answers are.
        max_turn_ms: length that ends it.
    """

    threshold: float = 0.5
    onset_ms: int = 64
    pause_ms: int = 32
    silence_ms: int | None = None
    ask_ms: tuple[int, ...] = (96, 144)
    ask_again_ms: int = 200
    sure: float = 0.985
    likely: float = 0.7
    kept: int = 2
    enough: tuple[Enough, ...] = (
        Enough(sound=0.975, words=0.7, silence_ms=256),
        Enough(sound=0.972, words=0.7, silence_ms=288),
        Enough(sound=0.986, words=None, silence_ms=304),
        Enough(sound=0.98, words=0.15, silence_ms=336),
        Enough(sound=0.98, words=0.04, silence_ms=368),
        Enough(sound=0.95, words=0.15, silence_ms=416),
        Enough(sound=0.9, words=0.6, silence_ms=416),
        Enough(sound=0.986, words=0.01, silence_ms=432),
        Enough(sound=0.95, words=None, silence_ms=432),
        Enough(sound=0.7, words=0.6, silence_ms=480),
        Enough(sound=0.5, words=0.01, silence_ms=560),
        Enough(sound=0.5, words=None, silence_ms=560),
        Enough(sound=0.5, words=0.0, silence_ms=800),
        Enough(sound=0.1, words=0.1, silence_ms=1200),
    )
    max_silence_ms: int = 4000
    max_turn_ms: int = 60_000

    @classmethod
    def of(cls, detection: TurnDetection, *, max_turn_s: float) -> DetectorPolicy:
        """The policy that a client's settings ask for."""
        max_turn_ms = round(1000 * max_turn_s)
        match detection:
            case ServerVad(threshold=threshold, silence_ms=silence_ms):
                return cls(threshold=threshold, silence_ms=silence_ms, max_turn_ms=max_turn_ms)
            case SemanticVad():
                return cls(max_silence_ms=detection.max_silence_ms, max_turn_ms=max_turn_ms)
