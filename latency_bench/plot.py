"""The figures of `talk` as a picture."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from statistics import median

from duplex.client.waterfall import Row, rows
from duplex.errors import TalkError
from latency_bench.wire.barge_in import Interruption
from latency_bench.wire.turns import Spoken


def plot(path: Path, *, turns: Sequence[Spoken], interruptions: Sequence[Interruption], title: str) -> None:
    """Write a PNG: the waterfall of the turn in the middle, and how voice to voice and barge-in are spread.

    Raises:
        TalkError: matplotlib is not installed, or the file cannot be written.
    """
    try:
        from matplotlib.backends.backend_agg import FigureCanvasAgg
        from matplotlib.figure import Figure
    except ImportError:
        raise TalkError("--plot needs matplotlib; install it with `pip install matplotlib`") from None
    figure = Figure(figsize=(11, 7), layout="constrained")
    FigureCanvasAgg(figure)
    grid = figure.add_gridspec(2, 2, height_ratios=(3, 2))
    waterfall = figure.add_subplot(grid[0, :])
    timed = [(ms, spoken) for spoken in turns if (ms := spoken.voice_to_voice_ms) is not None]
    if timed:
        middle = median(ms for ms, _ in timed)
        ms, spoken = min(timed, key=lambda pair: abs(pair[0] - middle))
        left, right = -300.0, ms * 1.2 + 50.0
        bars = [row for row in rows(spoken.turn)[::-1] if (row.first_ms or row.end_ms) <= right]
        for height, row in enumerate(bars):
            for start, end, colour in _spans(row):
                waterfall.barh(height, max(end - start, 4), left=start, color=colour)
        waterfall.set_yticks(range(len(bars)), [row.name for row in bars])
        waterfall.set_xlim(left, right)
        waterfall.axvline(0, color="black", linewidth=1)
        waterfall.axvline(ms, color="crimson", linewidth=1)
        waterfall.set_title(f"{spoken.clip}: {ms:.0f} ms voice to voice, the median turn\n{title}", fontsize=10)
    waterfall.set_xlabel("ms after the last speech sample was sent (light: works, dark: gives)")
    stops = [trial.stop_ms for trial in interruptions if not trial.failure and trial.stop_ms is not None]
    for column, (values, name) in enumerate((([ms for ms, _ in timed], "voice to voice"), (stops, "barge-in"))):
        spread = figure.add_subplot(grid[1, column])
        spread.hist(values, bins=15, color="#3b6ea5")
        spread.set_title(f"{name}, {len(values)} trials")
        spread.set_xlabel("ms")
    try:
        figure.savefig(path, dpi=110)
    except OSError as error:
        raise TalkError(f"cannot write {path} ({error.strerror}); choose another place with --plot") from None


def _spans(row: Row) -> list[tuple[float, float, str]]:
    if row.first_ms is None:
        return [(row.end_ms, row.end_ms, "#c44e52" if row.name.startswith(">") else "#8c8c8c")]
    start_ms = row.first_ms if row.start_ms is None else row.start_ms
    return [(start_ms, row.first_ms, "#a8c4e0"), (row.first_ms, row.end_ms, "#3b6ea5")]
