"""Makes the clips: synthesis and cutting, both without chance."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from pathlib import Path

import msgspec
import numpy as np
from numpy.typing import NDArray

from duplex.audio.pcm import AUDIBLE_DBFS, Samples, first_audible, last_audible, to_float, to_int16
from duplex.audio.resample import resample
from duplex.audio.wav import read_wav, write_wav
from latency_bench.clips import GROUPS, MANIFEST, Clip, Pause
from latency_bench.clips.script import (
    CUTS,
    HESITATIONS,
    LINES,
    PAUSE,
    RECORDING_FILE,
    RECORDING_WHEEL,
    ROOM_S,
    Cut,
    Line,
)

Sound = NDArray[np.float32]
RATE_HZ = 16_000
WINDOW = RATE_HZ // 100
SPEECH_DBFS = -22.0
LEAD_MS = 20
TAIL_MS = 40
"""Kept before the first and after the last audible window: soft consonants live there. No more than 50 ms of tail."""


def make(folder: Path, *, recording: Path) -> list[Clip]:
    """Write every clip and the manifest into `folder`; returns what was made.

    Args:
        recording: the human recording (`RECORDING_FILE` of the wheel `RECORDING_WHEEL`).
    """
    voice = speaker()
    clips = [_speak(folder, line, seed, voice) for seed, line in enumerate((*LINES, *HESITATIONS), 1)]
    spoken, rate_hz = read_wav(recording)
    if rate_hz != RATE_HZ:
        raise ValueError(f"{recording} has {rate_hz} Hz instead of {RATE_HZ}; take {RECORDING_FILE}")
    clips += [_cut(folder, cut, to_float(spoken)) for cut in CUTS]
    clips.sort(key=lambda clip: GROUPS.index(clip.group))
    encoded = msgspec.json.format(msgspec.json.encode(clips), indent=1)
    (folder / MANIFEST.name).write_bytes(encoded + b"\n")
    return clips


def speaker() -> Callable[..., Sound]:
    """The voice of the synthetic clips: the same words, speed and seed are the same samples each time."""
    from hibari import Hibari

    voice: Callable[..., Sound] = Hibari(threads=1)
    return voice


def say(words: str, *, speed: float, seed: int, voice: Callable[..., Sound]) -> Sound:
    """Have `voice` speak, at the level of all clips and trimmed as they are; float32 [n] at `RATE_HZ`."""
    spoken = voice(words, speed=speed, seed=seed)
    return _trim(_level(to_float(resample(to_int16(spoken), from_hz=24_000, to_hz=RATE_HZ))))


def _speak(folder: Path, line: Line, seed: int, voice: Callable[..., Sound]) -> Clip:
    # The sentence is spoken as a whole, so that its melody goes on over the pause that is put in afterwards.
    speech, pauses = _pause(say(line.words, speed=line.speed, seed=seed, voice=voice), line)
    noise_dbfs = None if line.snr_db is None else SPEECH_DBFS - line.snr_db
    if noise_dbfs is not None:
        speech = speech + pink_noise(len(speech), noise_dbfs, seed)
    return _save(
        folder,
        Clip(
            file=f"{line.name}.wav",
            group=line.group,
            text=line.words,
            voice="hibari heart",
            speed=line.speed,
            seed=seed,
            ending=line.ending,
            noise="pink" if line.snr_db is not None else "",
            snr_db=line.snr_db,
            noise_dbfs=noise_dbfs,
            pauses=pauses,
            length_ms=0,
            source="synthesised with hibari-tts==0.2.1",
            licence="Apache-2.0",
            sha256="",
        ),
        speech,
    )


def _cut(folder: Path, cut: Cut, recording: Sound) -> Clip:
    phrases = [recording[round(start * RATE_HZ) : round(end * RATE_HZ)] for start, end in cut.phrases_s]
    # A pause is the recording's own room: digital silence between two phrases is heard as a hole.
    room = recording[round(ROOM_S * RATE_HZ) :][: RATE_HZ * cut.pause_ms // 1000]
    # To the common level first: what counts as audible is a matter of level.
    joined, pauses = _join(phrases, room)
    gain = _gain(joined)
    joined, pauses = _join([_trim(phrase * gain) for phrase in phrases], room * gain)
    return _save(
        folder,
        Clip(
            file=f"{cut.name}.wav",
            group="turns",
            text=cut.text,
            voice="a man, recorded",
            speed=1.0,
            seed=0,
            ending="falling",
            noise="",
            snr_db=None,
            noise_dbfs=None,
            pauses=pauses,
            length_ms=0,
            source=f"cut from {RECORDING_FILE} of {RECORDING_WHEEL}, pauses shortened",
            licence="MIT",
            sha256="",
        ),
        joined,
    )


def _pause(speech: Sound, line: Line) -> tuple[Sound, tuple[Pause, ...]]:
    """Put the line's pauses where its marks stand: into the longest quiet stretch near each."""
    marks = [index for index, character in enumerate(line.text) if character == PAUSE]
    if not marks:
        return speech, ()
    power = np.square(speech[: len(speech) // WINDOW * WINDOW]).reshape(-1, WINDOW).mean(axis=1)
    pieces, start = [], 0
    for mark in marks:
        middle = round(len(power) * mark / len(line.text))
        reach = len(power) // 7
        first, last = max(start + 1, middle - reach), min(len(power) - 1, middle + reach)
        quiet = _quietest(power[first:last])
        pieces.append(_fade(speech[start * WINDOW : (first + quiet.start) * WINDOW]))
        start = first + quiet.stop
    pieces.append(_fade(speech[start * WINDOW :]))
    return _join(pieces, np.zeros(RATE_HZ * line.pause_ms // 1000, np.float32))


def _quietest(power: NDArray[np.float32]) -> slice:
    """The longest run of windows that are not audible; the quietest window alone where all are."""
    silent = np.concatenate([[0], power < 10 ** (AUDIBLE_DBFS / 10), [0]]).astype(np.int8)
    edges = np.flatnonzero(np.diff(silent))
    runs = list(zip(edges[::2].tolist(), edges[1::2].tolist(), strict=True))
    if not runs:
        quietest = int(power.argmin())
        return slice(quietest, quietest + 1)
    return slice(*max(runs, key=lambda run: run[1] - run[0]))


def _join(pieces: list[Sound], silence: Sound) -> tuple[Sound, tuple[Pause, ...]]:
    parts, pauses, length = [pieces[0]], [], len(pieces[0])
    for piece in pieces[1:]:
        pauses.append(Pause(at_ms=length * 1000 // RATE_HZ, length_ms=len(silence) * 1000 // RATE_HZ))
        parts += [silence, piece]
        length += len(silence) + len(piece)
    return np.concatenate(parts), tuple(pauses)


def _gain(sound: Sound) -> np.float32:
    """What brings the words to `SPEECH_DBFS`."""
    # Of the louder half of all 10 ms windows: pauses do not make the words louder.
    windows = np.square(sound[: len(sound) // 160 * 160]).reshape(-1, 160).mean(axis=1)
    loud = np.sort(windows)[len(windows) // 2 :].mean()
    return np.float32(10 ** (SPEECH_DBFS / 20) / np.sqrt(loud))


def _level(sound: Sound) -> Sound:
    leveled = sound * _gain(sound)
    peak = float(np.abs(leveled).max())
    return leveled / np.float32(max(1.0, peak / 0.98))


def _trim(sound: Sound) -> Sound:
    samples = to_int16(sound)
    start, end = first_audible(samples, RATE_HZ), last_audible(samples, RATE_HZ)
    if start is None or end is None:
        raise ValueError("a piece of a clip is silent; change its text or its place in the recording")
    return _fade(sound[max(0, start - RATE_HZ * LEAD_MS // 1000) : end + RATE_HZ * TAIL_MS // 1000])


def _fade(sound: Sound) -> Sound:
    ramp = np.linspace(0, 1, RATE_HZ // 200, dtype=np.float32)
    faded = sound.copy()
    faded[: len(ramp)] *= ramp
    faded[-len(ramp) :] *= ramp[::-1]
    return faded


def pink_noise(length: int, level_dbfs: float, seed: int) -> Sound:
    """Noise whose power falls with frequency, as that of rooms does; float32 [length] at `level_dbfs`."""
    spectrum = np.fft.rfft(np.random.default_rng(seed).standard_normal(length))
    spectrum /= np.sqrt(np.maximum(np.arange(len(spectrum)), 50 * length / RATE_HZ))  # flat below 50 Hz
    noise = np.fft.irfft(spectrum, length)
    gain = 10 ** (level_dbfs / 20) / float(np.sqrt(np.mean(noise**2)))
    return (noise * gain).astype(np.float32)


def _save(folder: Path, clip: Clip, sound: Sound) -> Clip:
    samples: Samples = to_int16(sound)
    end = last_audible(samples, RATE_HZ) or 0
    samples = samples[: end + RATE_HZ * TAIL_MS // 1000]
    write_wav(folder / clip.file, samples, RATE_HZ)
    digest = hashlib.sha256((folder / clip.file).read_bytes()).hexdigest()
    return msgspec.structs.replace(clip, length_ms=len(samples) * 1000 // RATE_HZ, sha256=digest)
