"""The committed set of utterances that every figure about conversations is measured with."""

from __future__ import annotations

from pathlib import Path

import msgspec

from duplex.audio.pcm import Samples
from duplex.audio.resample import resample
from duplex.audio.wav import read_wav

FOLDER = Path(__file__).parent
MANIFEST = FOLDER / "manifest.json"
GROUPS = ("turns", "inner_pauses", "hesitations")


class Pause(msgspec.Struct, frozen=True, kw_only=True):
    """Silence in the middle of an utterance: where it begins, and how long it is."""

    at_ms: int
    length_ms: int


class Clip(msgspec.Struct, frozen=True, kw_only=True):
    """One utterance, as the manifest tells it.

    Attributes:
        file: name of a 16 kHz mono 16-bit WAV in this folder.
        group: ``turns`` (one spoken turn each), ``inner_pauses`` (one sentence with a short pause put into it), or
            ``hesitations`` (with one of 400 to 800 ms, where a speaker looks for the next word).
        text: the words, for error rates.
        voice: who speaks.
        speed: of synthetic speech; 1.0 for a person.
        seed: of the synthesis and its noise; 0 for a person.
        ending: ``rising``, ``falling`` or ``level``: how the text asks to be spoken (a question, a statement, neither).
        noise: what was added; empty for nothing.
        snr_db: speech to added noise; None where none was added.
        noise_dbfs: level of the added noise, for a microphone to go on with; None where none was added.
        pauses: silences put in, or cut down to this length.
        length_ms: of the file.
        source, licence: where the sound comes from.
        sha256: of the file.
    """

    file: str
    group: str
    text: str
    voice: str
    speed: float
    seed: int
    ending: str
    noise: str
    snr_db: float | None
    noise_dbfs: float | None
    pauses: tuple[Pause, ...]
    length_ms: int
    source: str
    licence: str
    sha256: str

    def samples(self, rate_hz: int) -> Samples:
        """The sound at `rate_hz`, int16 [n]."""
        samples, from_hz = read_wav(FOLDER / self.file)
        return resample(samples, from_hz=from_hz, to_hz=rate_hz)


def load(group: str | None = None) -> list[Clip]:
    """All clips, or those of one group, in the order of the manifest."""
    clips = msgspec.json.decode(MANIFEST.read_bytes(), type=list[Clip])
    return [clip for clip in clips if group is None or clip.group == group]
