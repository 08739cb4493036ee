"""The figures of `talk` and `sessions` as pictures."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import median
from typing import Any

from duplex.client.waterfall import Row, rows
from duplex.errors import TalkError
from latency_bench.wire.barge_in import Interruption
from latency_bench.wire.turns import Spoken

BLUE, GREY = "#3b6ea5", "#8c8c8c"


def plot(path: Path, *, turns: Sequence[Spoken], interruptions: Sequence[Interruption], title: str) -> None:
    """Write a PNG of `talk`: the waterfall of the turn in the middle, how voice to voice and barge-in are spread.

    Raises:
        TalkError: matplotlib is not installed, or the file cannot be written.
    """
    figure = _figure()
    grid = figure.add_gridspec(2, 2, height_ratios=(3, 2))
    _waterfall(figure.add_subplot(grid[0, :]), turns, title)
    timed = [ms for spoken in turns if (ms := spoken.voice_to_voice_ms) is not None]
    stops = [trial.stop_ms for trial in interruptions if not trial.failure and trial.stop_ms is not None]
    for column, (values, name) in enumerate(((timed, "voice to voice"), (stops, "barge-in"))):
        spread = figure.add_subplot(grid[1, column])
        spread.hist(values, bins=15, color=BLUE)
        spread.set_title(f"{name}, {len(values)} trials")
        spread.set_xlabel("ms")
    _save(figure, path)


def plot_sessions(
    path: Path, *, on: Sequence[Spoken], off: Sequence[Spoken], costs: Mapping[str, float], title: str
) -> None:
    """Write a PNG of `sessions`: the waterfall of the turn in the middle, the spread of voice to voice, costs.

    Args:
        on, off: turns with provisional turns, and without.
        costs: percent of a core, by what costs it.

    Raises:
        TalkError: matplotlib is not installed, or the file cannot be written.
    """
    figure = _figure()
    grid = figure.add_gridspec(2, 2, height_ratios=(3, 2))
    _waterfall(figure.add_subplot(grid[0, :]), on, title)
    spread = figure.add_subplot(grid[1, 0])
    for turns, name, colour in ((off, "without provisional turns", GREY), (on, "with", BLUE)):
        timed = [ms for spoken in turns if (ms := spoken.voice_to_voice_ms) is not None]
        label = f"{name}, median {median(timed):.0f} ms" if timed else name
        spread.hist(timed, bins=range(0, 1600, 50), color=colour, alpha=0.75, label=label)
    spread.set_xlabel("ms voice to voice")
    spread.set_ylabel("turns")
    spread.legend(fontsize=8)
    bars = figure.add_subplot(grid[1, 1])
    bars.barh(range(len(costs)), list(costs.values()), color=BLUE)
    bars.set_yticks(range(len(costs)), list(costs), fontsize=8)
    bars.invert_yaxis()
    bars.set_xlabel("% of a core")
    _save(figure, path)


def _figure() -> Any:
    try:
        from matplotlib.backends.backend_agg import FigureCanvasAgg
        from matplotlib.figure import Figure
    except ImportError:
        raise TalkError("--plot needs matplotlib; install it with `pip install matplotlib`") from None
    figure = Figure(figsize=(11, 7), layout="constrained")
    FigureCanvasAgg(figure)
    return figure


def _waterfall(axes: Any, turns: Sequence[Spoken], title: str) -> None:
    timed = [(ms, spoken) for spoken in turns if (ms := spoken.voice_to_voice_ms) is not None]
    if timed:
        middle = median(ms for ms, _ in timed)
        ms, spoken = min(timed, key=lambda pair: abs(pair[0] - middle))
        left, right = -300.0, ms * 1.2 + 50.0
        bars = [row for row in rows(spoken.turn)[::-1] if (row.first_ms or row.end_ms) <= right]
        for height, row in enumerate(bars):
            for start, end, colour in _spans(row):
                axes.barh(height, max(end - start, 4), left=start, color=colour)
        axes.set_yticks(range(len(bars)), [row.name for row in bars])
        axes.set_xlim(left, right)
        axes.axvline(0, color="black", linewidth=1)
        axes.axvline(ms, color="crimson", linewidth=1)
        axes.set_title(f"{spoken.clip}: {ms:.0f} ms voice to voice, the median turn\n{title}", fontsize=10)
    axes.set_xlabel("ms after the last speech sample was sent (light: works, dark: gives)")


def _save(figure: Any, path: Path) -> None:
    try:
        figure.savefig(path, dpi=110)
    except OSError as error:
        raise TalkError(f"cannot write {path} ({error.strerror}); choose another place with --plot") from None


def _spans(row: Row) -> list[tuple[float, float, str]]:
    if row.first_ms is None:
        return [(row.end_ms, row.end_ms, "#c44e52" if row.name.startswith(">") else GREY)]
    start_ms = row.first_ms if row.start_ms is None else row.start_ms
    return [(start_ms, row.first_ms, "#a8c4e0"), (row.first_ms, row.end_ms, BLUE)]
