"""What `duplex top` draws: one look at a server as lines of text."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import msgspec
from prometheus_client.parser import text_string_to_metric_families

BAR_COLUMNS = 20
_EIGHTHS = " ▏▎▍▌▋▊▉█"


class Bound(msgspec.Struct, frozen=True, kw_only=True):
    """One of the server's bounds, as `GET /v1/sessions` has it."""

    kind: str
    name: str
    taken: float
    most: float


class Session(msgspec.Struct, frozen=True, kw_only=True):
    """One session, likewise; only what is shown."""

    id: str
    state: str
    age_s: float
    position: int | None = None
    eta_s: float | None = None
    used_s: dict[str, float] = {}
    used_lately: dict[str, float] = {}
    nbytes: dict[str, int] = {}


class Sessions(msgspec.Struct, frozen=True, kw_only=True):
    """The answer of `GET /v1/sessions`."""

    data: list[Session]
    budget: list[Bound]
    refusal: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Look:
    """One look at a server.

    Attributes:
        at_s: when, on a clock that only goes forward.
        sessions: who is there.
        metrics: value by metric and label, ``name`` or ``name kind``.
    """

    at_s: float
    sessions: Sessions
    metrics: Mapping[str, float]


def metrics_of(text: str) -> dict[str, float]:
    """The values of a Prometheus page. Raises ValueError where it is none."""
    return {
        " ".join((sample.name, *sample.labels.values())): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }


def panel(now: Look, before: Look | None, *, name: str, columns: int, rows: int) -> list[str]:
    """The lines, none longer than `columns`, no more than `rows`; rates are since the look `before`."""
    sessions = now.sessions
    ready = "ready" if now.metrics.get("duplex_ready") else "starting"
    lines = [f"duplex {name}  {ready}  {sessions.refusal or ''}".rstrip(), ""]
    lines += [_bound(bound) for bound in sessions.budget]
    lines += ["", *_stages(now.metrics), "", *_events(now, before)]
    lines += ["", f"{'session':<24}{'state':<11}{'age':>8}{'cores':>8}{'work':>9}{'memory':>10}  busiest stages"]
    shown = sorted(sessions.data, key=lambda one: (-sum(one.used_lately.values()), one.age_s))
    room = max(0, rows - len(lines) - 1)
    lines += [_session(one) for one in shown[:room]]
    if len(shown) > room:
        lines.append(f"and {len(shown) - room} more")
    return [line[:columns] for line in lines[:rows]]


def _bound(bound: Bound) -> str:
    share = min(1.0, bound.taken / bound.most) if bound.most else 0.0
    eighths = round(share * BAR_COLUMNS * 8)
    bar = ("█" * (eighths // 8) + (_EIGHTHS[eighths % 8] if eighths % 8 else "")).ljust(BAR_COLUMNS)
    if bound.kind == "nbytes":
        return f"{bound.name:<10}▕{bar}▏ {_size(bound.taken)} of {_size(bound.most)}"
    unit = " cores" if bound.kind == "compute" else ""
    return f"{bound.name:<10}▕{bar}▏ {bound.taken:g} of {bound.most:g}{unit}"


def _stages(metrics: Mapping[str, float]) -> list[str]:
    prefix = "duplex_stage_requests "
    stages = {key.removeprefix(prefix): value for key, value in metrics.items() if key.startswith(prefix)}
    between = _size(metrics.get("duplex_connector_bytes", 0.0))
    at_work = "  ".join(f"{stage} {value:g}" for stage, value in stages.items())
    return [f"requests in stages  {at_work}", f"between them        {between}"]


def _events(now: Look, before: Look | None) -> list[str]:
    lines = []
    for title, prefix in (("events so far", "duplex_events_total "), ("dropped as late", "duplex_late_total ")):
        found = []
        for key, value in now.metrics.items():
            if key.startswith(prefix) and value:
                kind = key.removeprefix(prefix)
                rate = _rate(key, now, before)
                found.append(f"{kind} {value:g}" + (f" (+{rate:.1f}/s)" if rate else ""))
        lines.append(f"{title:<20}{', '.join(found) or 'none'}")
    return lines


def _rate(key: str, now: Look, before: Look | None) -> float:
    if before is None or now.at_s <= before.at_s:
        return 0.0
    return max(0.0, now.metrics[key] - before.metrics.get(key, 0.0)) / (now.at_s - before.at_s)


def _session(one: Session) -> str:
    busiest = sorted(one.used_lately.items(), key=lambda item: -item[1])[:3]
    stages = "  ".join(f"{stage} {rate:.2f}" for stage, rate in busiest if rate >= 0.005)
    if one.position is not None:
        stages = f"place {one.position} in the queue" + (f", {one.eta_s:.0f} s" if one.eta_s is not None else "")
    cores, work = sum(one.used_lately.values()), sum(one.used_s.values())
    memory = _size(sum(one.nbytes.values()))
    return f"{one.id:<24}{one.state:<11}{_age(one.age_s):>8}{cores:>8.2f}{work:>8.1f}s{memory:>10}  {stages}".rstrip()


def _age(seconds: float) -> str:
    minutes, rest = divmod(int(seconds), 60)
    return f"{minutes // 60}h{minutes % 60:02}m" if minutes >= 60 else f"{minutes}m{rest:02}s"


def _size(nbytes: float) -> str:
    units: Iterable[str] = ("B", "KB", "MB", "GB")
    for unit in units:
        if nbytes < 1000 or unit == "GB":
            break
        nbytes /= 1000
    return f"{nbytes:.3g} {unit}"
