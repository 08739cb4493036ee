"""What a benchmark found: rows against bars, printed and as JSON."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import Any


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One figure.

    Attributes:
        figure: what was measured.
        value: None where it could not be measured; a bar does not hold then.
        unit: of value and bar.
        bar: the most that the value may be; None for a figure that is only reported.
        note: under which settings, and what else must be known to read it.
        skipped: not measured on purpose, for the reason in the note: neither holds nor fails.
    """

    figure: str
    value: float | None
    unit: str
    bar: float | None = None
    note: str = ""
    skipped: bool = False

    @property
    def holds(self) -> bool | None:
        """Whether the value keeps its bar; None where there is nothing to hold."""
        if self.bar is None or self.skipped:
            return None
        return self.value is not None and self.value <= self.bar


@dataclass(slots=True, kw_only=True)
class Report:
    """Everything that one run of a benchmark found.

    Attributes:
        benchmark: its name.
        date: ISO 8601, UTC.
        machine: see `machine.describe`.
        settings: what the server and the clients were told.
        rows: the figures.
        failures: one sentence for each single trial that gave no figure.
        failed: what these are.
        samples: the single values behind the figures.
    """

    benchmark: str
    date: str
    machine: dict[str, Any]
    settings: dict[str, Any]
    rows: list[Row] = field(default_factory=list)
    failures: list[str] = field(default_factory=list)
    failed: str = "trials without a figure"
    samples: dict[str, Any] = field(default_factory=dict)

    @property
    def holds(self) -> bool:
        """Whether all bars hold that were to be measured, and there was at least one."""
        judged = [row.holds for row in self.rows if row.holds is not None]
        return bool(judged) and all(judged)

    def as_json(self) -> dict[str, Any]:
        return {
            "benchmark": self.benchmark,
            "date": self.date,
            "holds": self.holds,
            "machine": self.machine,
            "settings": self.settings,
            "rows": [{**asdict(row), "holds": row.holds} for row in self.rows],
            "failures": self.failures,
            "samples": self.samples,
        }

    def as_text(self) -> str:
        """A table, the failures below it."""
        head = ("figure", "value", "unit", "bar", "holds", "note")
        body = [head, *(_cells(row) for row in self.rows)]
        widths = [max(len(cells[column]) for cells in body) for column in range(len(head))]
        right = (False, True, False, True, False, False)
        lines = [f"{self.benchmark}, {self.date}"]
        lines += [f"  {name}: {value}" for name, value in {**self.machine, **self.settings}.items()]
        lines.append("")
        for number, cells in enumerate(body):
            padded = [
                cell.rjust(width) if flush else cell.ljust(width)
                for cell, width, flush in zip(cells, widths, right, strict=True)
            ]
            lines.append("  ".join(padded).rstrip())
            if number == 0:
                lines.append("  ".join("-" * width for width in widths))
        if self.failures:
            lines += ["", f"{len(self.failures)} {self.failed}:", *(f"  {text}" for text in self.failures)]
        verdict = "all bars hold" if self.holds else "NOT all bars hold"
        return "\n".join([*lines, "", verdict])


def _cells(row: Row) -> tuple[str, ...]:
    value = "-" if row.value is None else f"{row.value:.1f}" if abs(row.value) < 100 else f"{row.value:.0f}"
    bar = "" if row.bar is None else f"<= {row.bar:g}"
    holds = "" if row.holds is None else "yes" if row.holds else "NO"
    return row.figure, value, row.unit, bar, holds, row.note
