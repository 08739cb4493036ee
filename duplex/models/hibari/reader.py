"""The grapheme-to-phoneme code of the hibari package, with its tagger in a quarter of the memory.

The package (0.2.1, pinned) keeps 80,000 dictionaries of three or four weights each, 61 MB. Here each is one `bytes`.
The tags are the same but where the package's rounding decides between equals; a test holds both against each other.
"""

from __future__ import annotations

import gzip
import json
import struct
from importlib import resources
from typing import Any

from hibari.g2p import G2P
from hibari.g2p.lexicon import Lexicon
from hibari.g2p.tagger import Tagger
from hibari.g2p.tokenize import Tokenizer

_WEIGHT = struct.Struct("<Bh")
"""Number of the tag, and its weight in tenths: the file's weights have one decimal and are below 100."""


class PackedTagger(Tagger):  # type: ignore[misc]  # the package has no types
    """The package's perceptron tagger on packed weights."""

    def __init__(self) -> None:
        self._numbers: dict[str, int] = {}
        # Packed while the file is read: the dictionaries would leave their memory in pieces.
        super().__init__(json.loads(_asset("tagger.json.gz"), object_pairs_hook=self._pack))
        self._names: list[str] = [*self._numbers, *(tag for tag in self.tags if tag not in self._numbers)]

    def _pack(self, pairs: list[tuple[str, Any]]) -> object:
        if not pairs or not isinstance(pairs[0][1], float):
            return dict(pairs)
        numbers = self._numbers
        return b"".join(
            _WEIGHT.pack(numbers.setdefault(tag, len(numbers)), round(10 * weight)) for tag, weight in pairs
        )

    def predict(self, feats: tuple[str, ...]) -> str:
        """The tag with the greatest sum of weights; of equal ones the last in the alphabet, as in the package."""
        rows = [row for row in map(self.weights.get, feats) if row is not None]
        if not rows:
            return "NN"
        scores = [0] * len(self._names)
        for row in rows:
            for tag, weight in _WEIGHT.iter_unpack(row):
                scores[tag] += weight
        _, best = max(zip(scores, self._names, strict=True))
        return best


class Reader(G2P):  # type: ignore[misc]  # the package has no types
    """American English text to phonemes, as `hibari.g2p.G2P`, whose constructor is not called."""

    def __init__(self) -> None:
        gold, silver = (json.loads(_asset(f"lexicon_us_{kind}.json.gz")) for kind in ("gold", "silver"))
        self.lexicon = Lexicon(gold, silver, False)
        self.tokenizer = Tokenizer(json.loads(_asset("tokenizer_exceptions.json")))
        self.tagger = PackedTagger()
        self._oov = None
        self.unk = ""
        self.british = False


def _asset(name: str) -> str:
    data = resources.files("hibari").joinpath("assets", name).read_bytes()
    return (gzip.decompress(data) if name.endswith(".gz") else data).decode()
