"""What was found of the ends of turns, judged."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from latency_bench.clips import GROUPS
from latency_bench.figures import median, percentile
from latency_bench.table import Row

SENTENCES_GROUP = "sentences"
ALL_GROUPS = (SENTENCES_GROUP, *GROUPS)
WHOLE = (SENTENCES_GROUP, "turns")
"""Nobody has put a pause into these: they have bars."""

SOUND_ALONE = "by sound alone"
"""As with `--provisional off`: no words are known in a pause."""
FIRST = "words, first message"
AFTER_HISTORY = "words, after a history"
WAYS = (SOUND_ALONE, FIRST, AFTER_HISTORY)

CUT_PERCENT = 5.0
SILENCE_MS = 350.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Trial:
    """What became of one take of an utterance.

    Attributes:
        group, utterance, seed: which take.
        way: one of `WAYS`.
        silence_ms: from its last audible sample to the end of its turn, negative where that came before; None where
            the turn did not end.
        pauses: of the turn, the one that ended it among them.
    """

    group: str
    utterance: str
    seed: int
    way: str
    silence_ms: float | None
    pauses: int

    @property
    def cut(self) -> bool:
        """Whether the turn was ended inside the utterance."""
        return self.silence_ms is not None and self.silence_ms < 0


def rows(trials: Sequence[Trial]) -> list[Row]:
    """The figures and their bars, by group and way."""
    return [row for group in ALL_GROUPS for way in WAYS for row in _rows(trials, group, way)]


def _rows(trials: Sequence[Trial], group: str, way: str) -> Iterator[Row]:
    found = _of(trials, group, way)
    judged = _judged(group, way)
    sound_alone = _cut_percent(_of(trials, group, SOUND_ALONE))
    most = CUT_PERCENT if sound_alone is None else min(CUT_PERCENT, sound_alone)
    silences = [ms for trial in found if not trial.cut and (ms := trial.silence_ms) is not None]
    yield Row(
        figure=f"{group}: ended inside, {way}",
        value=_cut_percent(found),
        unit="%",
        bar=most if judged else None,
        note=f"{sum(trial.cut for trial in found)} of {len(found)} turns"
        + (f"; the bar is the least of {CUT_PERCENT:g} % and what sound alone cuts" if judged else ""),
    )
    fast = judged and group == "turns"
    yield Row(
        figure=f"{group}: silence p50, {way}",
        value=median(silences),
        unit="ms",
        bar=SILENCE_MS if fast else None,
        note=f"last audible sample to the end, {len(silences)} turns",
    )
    yield Row(figure=f"{group}: silence p90, {way}", value=percentile(silences, 0.9), unit="ms")
    pauses = sum(trial.pauses for trial in found) / len(found) if found else None
    yield Row(figure=f"{group}: pauses per turn, {way}", value=pauses, unit="")


def _judged(group: str, way: str) -> bool:
    return group in WHOLE and way != SOUND_ALONE


def _of(trials: Sequence[Trial], group: str, way: str) -> list[Trial]:
    return [trial for trial in trials if (trial.group, trial.way) == (group, way)]


def _cut_percent(trials: Sequence[Trial]) -> float | None:
    return 100 * sum(trial.cut for trial in trials) / len(trials) if trials else None


def failures(trials: Sequence[Trial]) -> list[str]:
    """One sentence for each utterance that should have ended well in some way, and did not."""
    taken: dict[tuple[str, str, str], list[Trial]] = {}
    for trial in trials:
        if _judged(trial.group, trial.way) or trial.silence_ms is None:
            taken.setdefault((trial.group, trial.way, trial.utterance), []).append(trial)
    found = []
    for (group, way, utterance), takes in taken.items():
        early = [-ms for trial in takes if (ms := trial.silence_ms) is not None and ms < 0]
        endless = sum(trial.silence_ms is None for trial in takes)
        if early:
            found.append(
                f"{group}, {way}: {utterance} was cut in {len(early)} of {len(takes)} takes, up to {max(early):.0f} ms "
                "before its last sound"
            )
        if endless:
            found.append(f"{group}, {way}: {utterance} did not end in {endless} of {len(takes)} takes")
    return found
