"""Cuts an answer that is still being written into clauses that can be spoken. Pure.

An early clause is spoken sooner, a long one sounds better: the first is taken at the first chance, and each of the
next ones may be longer, since by then there is audio to cover the wait.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import Enum, auto

_SENTENCE = ".!?…。！？"  # noqa: RUF001  full-width marks are meant
_PAUSE = ",;:—–"  # noqa: RUF001
_CLOSING = "\"'”’»)]}*_`"  # noqa: RUF001
"""May stand between a mark and the space after it."""

_ABBREVIATIONS = re.compile(
    "mr|mrs|ms|dr|prof|sr|jr|st|vs|fig|no|vol|approx|dept|est|inc|ltd|co|corp|mt|ave|blvd|gen|col|sgt|capt|lt|rev|hon"
    "|jan|feb|mar|apr|jun|jul|aug|sept?|oct|nov|dec"
)
_INITIALS = re.compile(r"(?:^|[^\w.])(?:[A-Za-z]\.)+$")
"""U.S. and J. K. and e.g. and p.m.: no end of a sentence that one could be sure of."""

_NUMBERED = re.compile(r"(?:^|\n)\s*\d{1,3}[.)]$")
"""The number of an item of a list belongs to the item."""

_BREAK_BEFORE = re.compile(
    "and|but|or|so|because|which|who|that|when|where|while|if|as|than|then|in|on|at|by|for|with|from|into|about|after"
    "|before|until|to"
)
_CLINGING = re.compile(
    "an?|the|this|that|these|those|my|your|his|her|its|our|their|of|to|in|on|at|by|for|with|from|into|about|and|but|or"
    "|is|are|was|were|be|been|very|more|most|no|not|i|you|he|she|it|we|they"
)
"""Words after which nobody pauses."""

_PAUSE_WORDS = (2, 4, 8, 12)
"""Fewest words of the first, second, third and any later clause that may end at a comma or the like."""

_MOST_WORDS = (5, 12, 20, 30)
"""Words after which a clause without any mark is cut between two words."""

_LONGEST_TOKEN = 300
"""Characters after which even a run without a space is cut."""

_RUN = re.compile(r"\S+")
_WIDE_END = re.compile(r"[^\W_]\S*?[。！？]+[”’」』）]*(?=[^\s。！？”’」』）])")  # noqa: RUF001
"""Scripts with full-width marks put no space after them."""


class Ending(Enum):
    """Why a clause ends where it does, which is how long a voice pauses there."""

    SENTENCE = auto()
    PAUSE = auto()
    """A comma or the like."""
    NONE = auto()
    """It had become too long."""
    LAST = auto()
    """The answer is over."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Clause:
    """Some text of the answer: its characters [start, end)."""

    text: str
    start: int
    end: int
    ending: Ending


class ClauseSplitter:
    """Takes pieces of text in order and gives clauses. Concatenated, the clauses are the text: nothing is lost, and
    where it is cut does not depend on how it was pieced.

    A clause ends after a mark (with the quotes and brackets that close after it) once the beginning of the next word
    shows that it does end there; the space between belongs to the next clause.
    """

    def __init__(self) -> None:
        self._text = ""
        self._start = 0
        self._number = 0
        self._scan_from(0)

    def _scan_from(self, position: int) -> None:
        self._scanned = position
        self._words: list[str] = []
        self._borders: list[int] = []

    def feed(self, piece: str) -> list[Clause]:
        """Take the next piece; the clauses that it completes."""
        self._text += piece
        clauses = []
        while (found := self._find_end()) is not None:
            clauses.append(self._take(*found))
        return clauses

    def finish(self) -> list[Clause]:
        """The text is complete: what is left, as one clause, or nothing."""
        return [self._take(len(self._text), Ending.LAST)] if self._text else []

    def _take(self, end: int, ending: Ending) -> Clause:
        clause = Clause(text=self._text[:end], start=self._start, end=self._start + end, ending=ending)
        self._text = self._text[end:]
        self._start += end
        self._number += 1
        self._scan_from(0)
        return clause

    def _find_end(self) -> tuple[int, Ending] | None:
        """Look at one run of characters after the other, each when the first character after its space is known."""
        while (run := _RUN.search(self._text, self._scanned)) is not None:
            wide = _WIDE_END.search(self._text, run.start(), min(run.end(), run.start() + _LONGEST_TOKEN))
            if wide is not None:
                return wide.end(), Ending.SENTENCE
            if run.end() - run.start() > _LONGEST_TOKEN:
                return run.start() + _LONGEST_TOKEN, Ending.NONE
            following = _RUN.search(self._text, run.end())
            if following is None:
                return None
            self._scanned = run.end()
            if any(character.isalnum() for character in run.group()):
                self._words.append(run.group().strip(_CLOSING + _PAUSE + _SENTENCE + "(").lower())
                self._borders.append(run.end())
            gap = self._text[run.end() : following.start()]
            ending = self._ending_at(run.end(), gap, following.group()[0]) if self._words else Ending.NONE
            if ending is not Ending.NONE:
                return run.end(), ending
            if len(self._words) >= _at(_MOST_WORDS, self._number) or self._waits_for(following.group()):
                return self._between_words(), Ending.NONE
        return None

    def _ending_at(self, end: int, gap: str, following: str) -> Ending:
        """Whether a clause may end here, where a run of characters does, and how."""
        head = self._text[:end]
        if _NUMBERED.search(head):
            return Ending.NONE
        if "\n" in gap:
            return Ending.SENTENCE
        bare = head.rstrip(_CLOSING)
        mark = bare[-1:]
        ends = bool(mark) and mark in _SENTENCE and not _is_abbreviation(bare)
        if ends and not following.islower():
            return Ending.SENTENCE
        pauses = ends or (mark and mark in _PAUSE) or bare.endswith(" -")
        enough = len(self._words) >= _at(_PAUSE_WORDS, self._number)
        return Ending.PAUSE if pauses and enough else Ending.NONE

    def _waits_for(self, following: str) -> bool:
        """Whether the first clause would have to wait for a number, which comes digit by digit, and need not."""
        count = len(self._words)
        begun = self._number == 0 and following[0].isdigit() and count >= _PAUSE_WORDS[0]
        return begun and any(not self._clings(place) for place in range(_PAUSE_WORDS[0], count + 1))

    def _between_words(self) -> int:
        """The best place for a cut without a mark, near the end of what has been looked at."""
        count = len(self._words)
        places = range(count, max(count - 4, 1) - 1, -1)
        for place in places:
            if place < count and _BREAK_BEFORE.fullmatch(self._words[place]) and not self._clings(place):
                return self._borders[place - 1]
        for place in places:
            if not self._clings(place):
                return self._borders[place - 1]
        return self._borders[-1]

    def _clings(self, place: int) -> bool:
        return _CLINGING.fullmatch(self._words[place - 1]) is not None


def _is_abbreviation(bare: str) -> bool:
    """Whether the period at the end of `bare` (if it is one) marks an abbreviation."""
    if not bare.endswith(".") or bare.endswith(".."):
        return False
    word = bare[:-1].rsplit(None, 1)[-1:]
    named = bool(word) and _ABBREVIATIONS.fullmatch(word[0].lstrip("(\"'").lower()) is not None
    return named or _INITIALS.search(bare) is not None


def _at(limits: tuple[int, ...], number: int) -> int:
    return limits[min(number, len(limits) - 1)]
