"""Text to the acoustic network's symbols, by the grapheme-to-phoneme code of the hibari package."""

from __future__ import annotations

import json
import re
import unicodedata
from importlib import resources

from duplex.models.hibari.reader import Reader

MOST = 400
"""Symbols that the network was made for at one time."""

_FAULTS = (ArithmeticError, AttributeError, LookupError, RuntimeError, TypeError, ValueError)
"""What the package has been seen to raise for odd text, and its like."""

_LINK = re.compile(r"\[([^\]\n]*)\]\([^)\n]*\)")
_LINE_MARK = re.compile(r"(?m)^\s*(?:#{1,6}|[-*+•>])\s+")
_UNSPOKEN = re.compile(r"[*_`~|#\\^<>{}\[\]]+")
_LONG_NUMBER = re.compile(r"(\d{3})(?=\d)")
_DIGITS = re.compile(r"\d{13,}")
_REPEATED = re.compile(r"([^\w\s])\1{2,}")
_SPACE = re.compile(r"\s+")


def speakable(text: str) -> str:
    """`text` as one line without what nobody says: markup, emoji, control characters; long numbers in groups."""
    text = _LINK.sub(r"\1", text)
    text = _LINE_MARK.sub("", text)
    text = _UNSPOKEN.sub(" ", text)
    text = "".join(character if _is_spoken(character) else " " for character in text)
    text = _REPEATED.sub(r"\1", text)
    text = _DIGITS.sub(lambda number: _LONG_NUMBER.sub(r"\1 ", number.group()), text)
    return _SPACE.sub(" ", text).strip()


def _is_spoken(character: str) -> bool:
    if character.isascii():
        return character.isprintable() or character.isspace()
    # Letters, marks, numbers, punctuation, currency and mathematics; no pictures, joiners, private or unassigned ones.
    category = unicodedata.category(character)
    return category[0] in "LNPZ" or category in ("Mn", "Mc", "Sc", "Sm")


class Phonemizer:
    """American English; loaded once (a quarter of a second, 60 MB), then read-only and fit for any thread."""

    def __init__(self) -> None:
        self._g2p = Reader()
        vocabulary = resources.files("hibari").joinpath("assets", "vocab.json").read_text(encoding="utf-8")
        self._ids: dict[str, int] = json.loads(vocabulary)
        self("Warm up, Xylqua.")  # loads the network for unknown words

    def __call__(self, text: str) -> list[list[int]]:
        """The symbols of one clause, in runs of at most `MOST`, each padded with a 0 at both ends.

        Never fails: what cannot be read is left out. Text without anything to say gives an empty list.
        """
        symbols = self._read(speakable(text))
        if not any(character.isalpha() for character in symbols):
            return []
        return [[0, *(self._ids[each] for each in run if each in self._ids), 0] for run in _runs(symbols)]

    def _read(self, text: str) -> str:
        try:
            return str(self._g2p(text))
        except _FAULTS:
            # One word is at fault; the others are still worth hearing, if with a little less of their context.
            return " ".join(filter(None, map(self._read_word, text.split())))

    def _read_word(self, word: str) -> str:
        try:
            return str(self._g2p(word))
        except _FAULTS:
            return ""


def _runs(symbols: str) -> list[str]:
    """`symbols` cut at spaces, or anywhere where there is none, into runs of at most `MOST`."""
    runs = []
    while len(symbols) > MOST:
        end = symbols.rfind(" ", 1, MOST + 1)
        end = MOST if end < 0 else end
        runs.append(symbols[:end])
        symbols = symbols[end:].lstrip()
    return [*runs, symbols] if symbols else runs
