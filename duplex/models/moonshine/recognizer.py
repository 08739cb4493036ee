"""Greedy recognition of one stretch of speech."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from tokenizers import Tokenizer

from duplex.audio.pcm import Samples, to_float
from duplex.engine.onnx import OnnxSession
from duplex.errors import ModelStoreError

RATE_HZ = 16_000

MAX_TOKENS_PER_S = 6.5
"""More than anyone says: the bound that the model's authors set against runaway output."""

_BEGIN = 1
_END = 2
_LAYERS = 6
_HEADS = 8
_HEAD_DIM = 36
_STRIDE = 384
"""Samples per encoder position."""
_SHORTEST = RATE_HZ // 4
"""Shorter audio is padded: the encoder's convolutions need some, and words need more."""

_CACHES = tuple(
    f"past_key_values.{layer}.{side}.{part}"
    for layer in range(_LAYERS)
    for side in ("decoder", "encoder")
    for part in ("key", "value")
)
_GROWING = tuple(name for name in _CACHES if ".decoder." in name)
_STEP_OUTPUTS = ("logits", *(name.replace("past_key_values", "present") for name in _GROWING))
_EMPTY = np.zeros((1, _HEADS, 0, _HEAD_DIM), dtype=np.float32)
_FRESH = np.array([False])
_CACHED = np.array([True])

_QUOTES = "\"' "
"""Now and then it takes what it hears for direct speech, and puts it in quotes that nobody has spoken."""

_LOOP_PERIOD = 8
_LOOP_TIMES = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class Heard:
    """What was recognised: the text, and the tokens that may serve as the draft of the next decode."""

    text: str
    tokens: tuple[int, ...]


NOTHING = Heard(text="", tokens=())


def never() -> bool:
    """A `stop` that lets a decode run to its end."""
    return False


class Moonshine:
    """The model, loaded once and used from any thread.

    Time and memory of the encoder grow with the square of the length: 18 ms for 4 s, 160 ms for 20 s, 1.9 s and
    550 MB for 60 s. Callers cut long speech.

    Args:
        encoder, decoder: ``moonshine/encoder.ort`` and ``moonshine/decoder.ort`` (tiny, English).
        tokenizer: ``moonshine/tokenizer.json``.

    Raises:
        ModelStoreError: a file cannot be read.
    """

    def __init__(self, *, encoder: Path, decoder: Path, tokenizer: Path) -> None:
        self._encoder = OnnxSession(encoder)
        self._decoder = OnnxSession(decoder, arena=True)
        if not tokenizer.is_file():
            raise ModelStoreError(f"the tokenizer {tokenizer} is absent: run `duplex models fetch`")
        try:
            json.loads(tokenizer.read_bytes())  # The package says of a damaged file only that parsing has failed.
        except (OSError, ValueError) as fault:
            raise ModelStoreError(
                f"the tokenizer {tokenizer} cannot be read: run `duplex models verify`, and fetch it anew if it is "
                "wrong"
            ) from fault
        self._tokenizer = Tokenizer.from_file(str(tokenizer))
        self.hear(np.zeros(RATE_HZ, dtype=np.int16))

    def hear(self, samples: Samples, *, draft: Sequence[int] = (), stop: Callable[[], bool] = never) -> Heard | None:
        """Recognise speech from which silence has been trimmed.

        Args:
            samples: int16 [n] at 16 kHz.
            draft: tokens of an earlier decode of the beginning of these samples. They are checked all at once, and
                those that still hold need no step of their own (measured: half the time for 10 s of speech). The
                result is that of a decode without a draft, but for close calls that the rounding of quantised
                weights tips.
            stop: asked before the encoder and before each token.

        Returns:
            What was heard, or None where `stop` said so.
        """
        if stop():
            return None
        audio = to_float(samples)
        if len(audio) < _SHORTEST:
            audio = np.concatenate((audio, np.zeros(_SHORTEST - len(audio), dtype=np.float32)))
        audio = audio[None]
        mask = np.ones(audio.shape, dtype=np.int64)
        (hidden,) = self._encoder.run({"input_values": audio, "attention_mask": mask})
        limit = int(len(samples) / RATE_HZ * MAX_TOKENS_PER_S) + 3
        tokens = self._decode(hidden, draft=tuple(draft)[:limit], limit=limit, stop=stop)
        if tokens is None:
            return None
        text: str = self._tokenizer.decode(list(tokens), skip_special_tokens=True)
        return Heard(text=" ".join(text.split()).strip(_QUOTES), tokens=tokens)

    def _decode(
        self, hidden: NDArray[np.float32], *, draft: tuple[int, ...], limit: int, stop: Callable[[], bool]
    ) -> tuple[int, ...] | None:
        if stop():
            return None
        positions = hidden.shape[1]
        caches: dict[str, NDArray[np.float32]] = dict.fromkeys(_CACHES, _EMPTY)
        shared = {
            "encoder_hidden_states": hidden,
            # In samples: the graph takes every 384th.
            "encoder_attention_mask": np.ones((1, (positions - 1) * _STRIDE + 1), dtype=np.int64),
        }
        prompt = np.array([(_BEGIN, *draft)], dtype=np.int64)
        logits, *present = self._decoder.run({**shared, **caches, "input_ids": prompt, "use_cache_branch": _FRESH})
        caches = dict(zip(_CACHES, present, strict=True))
        best = [int(token) for token in logits[0].argmax(axis=-1)]
        kept = 0
        while kept < len(draft) and best[kept] == draft[kept]:
            kept += 1
        if kept < len(draft):
            for name in _GROWING:
                caches[name] = np.ascontiguousarray(caches[name][:, :, : kept + 1])
        tokens = list(draft[:kept])
        token = best[kept]
        while token != _END and len(tokens) < limit:
            tokens.append(token)
            if (whole := _before_loop(tokens)) is not None:
                return tuple(tokens[:whole])
            if stop():
                return None
            step = np.array([[token]], dtype=np.int64)
            logits, *present = self._decoder.run(
                {**shared, **caches, "input_ids": step, "use_cache_branch": _CACHED}, _STEP_OUTPUTS
            )
            caches.update(zip(_GROWING, present, strict=True))
            token = int(logits[0, -1].argmax())
        return tuple(tokens)


def _before_loop(tokens: Sequence[int]) -> int | None:
    """How many tokens are left once a loop at the end is cut to one round, or None where there is no loop.

    A greedy decoder that repeats itself four times will not stop by itself; people repeat a word three times at most.
    """
    for period in range(1, _LOOP_PERIOD + 1):
        span = period * _LOOP_TIMES
        if len(tokens) >= span and list(tokens[-span:-period]) == list(tokens[-span + period :]):
            return len(tokens) - span + period
    return None
