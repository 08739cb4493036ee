"""What a soak found, as figures. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from latency_bench.table import Row
from latency_bench.wire.chaos.ear import Heard
from latency_bench.wire.chaos.plan import Deed, Moment
from latency_bench.wire.server import Holdings, Watch

HELD = (
    "duplex_sessions",
    "duplex_sessions_waiting",
    "duplex_requests",
    "duplex_connector_payloads",
    "duplex_connector_bytes",
    "duplex_conversation_bytes",
    "duplex_prefix_caches",
)
"""What the server tells that its sessions hold."""

COMING = ("sessions", "queued", "left the queue", "turned away")
ENDING = ("answers completed", "answers cancelled", "answers incomplete", "interrupted", "resumed")


@dataclass(frozen=True, slots=True, kw_only=True)
class State:
    """The server at one moment, as it tells and as its process shows. `held`: what sessions hold in it."""

    holdings: Holdings
    tasks: int
    rss_mb: float
    held: Mapping[str, float]


@dataclass(slots=True, kw_only=True)
class Soaked:
    """What was found. `before` and `after`: with no client connected; `ledger`: where it was not what is
    held, in so many `inspections` and one at the end; `late_s`: longest time that the clients could not run."""

    heard: Heard = field(default_factory=Heard)
    watch: Watch = field(default_factory=Watch)
    before: State
    after: State | None = None
    ledger: list[str] = field(default_factory=list)
    inspections: int = 0
    late_s: float = 0.0
    counted: Mapping[str, float] = field(default_factory=dict)


def left(after: State, before: State | None) -> dict[str, float]:
    """What is more than it was, by what it is; empty where nothing is left behind."""
    found = {name: value for name, value in after.held.items() if value}
    if before is not None:
        pairs = {
            "tasks": after.tasks - before.tasks,
            "threads": after.holdings.threads - before.holdings.threads,
            "files": after.holdings.files - before.holdings.files,
        }
        found |= {name: float(more) for name, more in pairs.items() if more > 0}
    return found


def rows(found: Soaked) -> list[Row]:
    """The figures and their bars."""
    heard, counts = found.heard, found.heard.counts
    done = [f"{deed} {counts[f'deed {deed}']}" for deed in Deed]
    met = [f"{moment} {counts[f'at {moment}']}" for moment in Moment]
    promises = "order, numbers, ends, errors, who may have a session"
    told = [
        Row(figure="visits", value=float(counts["visits"]), unit="", note=_of(counts, COMING)),
        Row(figure="turns", value=float(counts["turns"]), unit="", note=f"{', '.join(met)}, missed {counts['missed']}"),
        Row(figure="deeds", value=float(sum(counts[f"deed {deed}"] for deed in Deed)), unit="", note=", ".join(done)),
        Row(figure="answers", value=float(counts["answers"]), unit="", note=_of(counts, ENDING)),
        Row(
            figure="clients late, at the most",
            value=found.late_s,
            unit="s",
            note="where these are seconds, this machine did something else, and promises may have broken by that",
        ),
        Row(figure="audio heard", value=counts["audio_bytes"] / 48_000, unit="s"),
        Row(figure="stale audio heard", value=float(heard.stale_bytes), unit="bytes", bar=0),
        Row(figure="promises broken", value=float(len(heard.breaches)), unit="", bar=0, note=promises),
    ]
    return told + _left_rows(found) + _end_rows(found)


def _left_rows(found: Soaked) -> list[Row]:
    after, before = found.after, found.before
    if after is None:
        return [Row(figure="left behind", value=None, unit="", bar=0)]
    more = left(after, before)
    held = sum(value for name, value in more.items() if name.startswith("duplex_"))
    note = ", ".join(f"{name} {value:g}" for name, value in more.items() if name.startswith("duplex_"))
    return [
        Row(figure="places, requests, payloads, bytes left", value=held, unit="", bar=0, note=note),
        Row(figure="tasks left", value=float(after.tasks - before.tasks), unit="", bar=0, note=f"of {before.tasks}"),
        Row(
            figure="threads left",
            value=float(after.holdings.threads - before.holdings.threads),
            unit="",
            bar=0,
            note=f"of {before.holdings.threads}",
        ),
        Row(
            figure="files left",
            value=float(after.holdings.files - before.holdings.files),
            unit="",
            bar=0,
            note=f"of {before.holdings.files}",
        ),
        Row(
            figure="resident memory",
            value=after.rss_mb - before.rss_mb,
            unit="MB more",
            note=f"{before.rss_mb:.0f} MB before, {after.rss_mb:.0f} MB after",
        ),
    ]


def _end_rows(found: Soaked) -> list[Row]:
    counted = found.counted
    failures = sum(counted.get(kind, 0) for kind in ("session_failures", "release_failures", "mailbox_overflows"))
    code = found.watch.code
    looked = f"{found.inspections} times among working clients, and once at the end"
    return [
        Row(figure="ledger and what is held differ", value=float(len(found.ledger)), unit="", bar=0, note=looked),
        Row(figure="sessions failed, releases failed", value=float(failures), unit="", bar=0),
        Row(figure="faults in the server's log", value=float(len(found.watch.faults)), unit="lines", bar=0),
        Row(
            figure="the server's end",
            value=None if code is None else float(abs(code)),
            unit="exit code",
            bar=0,
            note="after SIGTERM",
        ),
    ]


def _of(counts: Mapping[str, int], kinds: Sequence[str]) -> str:
    return ", ".join(f"{kind} {counts.get(kind, 0)}" for kind in kinds)
