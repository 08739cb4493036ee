"""One turn as a picture in text."""

from __future__ import annotations

from dataclasses import dataclass

from duplex.client.turn import Json, Turn

_WIDTH = 56


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One line of a waterfall; all times in ms after the last speech sample was sent.

    Attributes:
        name: of a stage of the server, or of something that happened.
        start_ms, first_ms, end_ms: first input, first output, finished. Something that only happened has `end_ms`
            alone.
    """

    name: str
    start_ms: float | None
    first_ms: float | None
    end_ms: float


def rows(turn: Turn) -> list[Row]:
    """What is known of a turn, by time: the client's own arrivals, the server's marks and stages.

    The server counts from where *it* saw the speech end; its figures are moved to this side's zero (see `_shift_ms`).
    Figures that it leaves out, or null, are left out.
    """
    shift = _shift_ms(turn)
    seen = [
        ("turn ended", turn.stopped_s if turn.stopped_s is not None else turn.committed_s),
        ("first packet", turn.first_packet_s),
        ("first sound", turn.first_audible_s),
        ("heard", turn.ear_s),
    ]
    happened = [(name, turn.since_speech_ms(at_s)) for name, at_s in seen]
    found = [Row(name=f"> {name}", start_ms=None, first_ms=None, end_ms=ms) for name, ms in happened if ms is not None]
    for mark in _entries(turn.server, "marks"):
        at_ms = _ms(mark, "ms", shift)
        if at_ms is not None:
            found.append(Row(name=str(mark.get("name", "?")), start_ms=None, first_ms=None, end_ms=at_ms))
    for stage in _entries(turn.server, "stages"):
        start_ms = _ms(stage, "first_input_ms", shift)
        first_ms = _ms(stage, "first_output_ms", shift)
        end_ms = _ms(stage, "finished_ms", shift)
        last_ms = end_ms if end_ms is not None else first_ms
        if last_ms is not None:
            name = str(stage.get("name", "?"))
            found.append(Row(name=name, start_ms=start_ms, first_ms=first_ms, end_ms=last_ms))
    return sorted(found, key=lambda row: row.first_ms if row.first_ms is not None else row.end_ms)


def draw(turn: Turn, *, title: str) -> str:
    """Several lines, without a line break at the end.

    The axis runs from 200 ms before the last speech sample to a little after the first sound; what lies outside is
    drawn at its edge, and its figure says where it is.
    """
    found = rows(turn)
    headline = f"{title}: {_figure(turn.voice_to_voice_ms)} voice to voice, {_figure(turn.voice_to_ear_ms)} to the ear"
    if not found:
        return headline
    sound_ms = turn.voice_to_voice_ms
    last_ms = sound_ms if sound_ms is not None else max(row.end_ms for row in found)
    low, high = -200.0, max(100.0, last_ms * 1.15)
    lines = [headline, f"  0 ms = last speech sample sent; axis {low:.0f} to {high:.0f} ms; = works, # gives"]
    for row in found:
        first = "" if row.first_ms is None else f"{row.first_ms:.0f} .. "
        lines.append(f"  {row.name:<18.18}|{_bar(row, low, high)}| {first + f'{row.end_ms:.0f}':>16} ms")
    return "\n".join(lines)


def _bar(row: Row, low: float, high: float) -> str:
    def column(ms: float) -> int:
        return min(_WIDTH - 1, max(0, int((ms - low) / (high - low) * _WIDTH)))

    cells = [" "] * _WIDTH
    cells[column(0.0)] = ":"
    first_ms = row.first_ms if row.first_ms is not None else row.end_ms
    start_ms = row.start_ms if row.start_ms is not None else first_ms
    for cell in range(column(start_ms), column(first_ms)):
        cells[cell] = "="
    for cell in range(column(first_ms), column(row.end_ms) + 1):
        cells[cell] = "#"
    return "".join(cells)


def _shift_ms(turn: Turn) -> float:
    """What to add to the server's figures.

    What the server did at a mark arrived here a little later, so each pair of mark and arrival bounds the shift from
    above, and the smallest bound is wrong by no more than the quickest message took. Without a pair: the time at which
    the sample was sent where the server saw the speech end.
    """
    arrivals = {"turn_end": turn.stopped_s, "created": turn.created_s, "first_audio": turn.first_packet_s}
    bounds = [
        arrived_ms - mark_ms
        for mark in _entries(turn.server, "marks")
        if (arrived_ms := turn.since_speech_ms(arrivals.get(str(mark.get("name"))))) is not None
        and (mark_ms := _ms(mark, "ms", 0.0)) is not None
    ]
    return min(bounds) if bounds else turn.since_speech_ms(turn.server_zero_s) or 0.0


def _entries(server: Json, key: str) -> list[Json]:
    entries = server.get(key)
    return [entry for entry in entries if isinstance(entry, dict)] if isinstance(entries, list) else []


def _ms(entry: Json, key: str, shift: float) -> float | None:
    value = entry.get(key)
    return float(value) + shift if isinstance(value, int | float) else None


def _figure(ms: float | None) -> str:
    return f"{ms:.0f} ms" if ms is not None else "unknown"
