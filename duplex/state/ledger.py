"""Bytes by device: each storage once, however many share it, and never more than the budget."""

from __future__ import annotations

from collections.abc import Collection, Container, Hashable, Iterable, Mapping
from typing import NamedTuple

from duplex.errors import StateError, StateFull


class Storage(NamedTuple):
    """One stretch of memory.

    Attributes:
        identity: equal for whoever shares it, different for all else in its ledger.
        device: where it lies.
        nbytes: its size; one that grows is charged anew under the same identity.
    """

    identity: Hashable
    device: str
    nbytes: int


def by_device(storages: Iterable[Storage]) -> dict[str, int]:
    """Bytes of so many storages, each once."""
    nbytes: dict[str, int] = {}
    for storage in {storage.identity: storage for storage in storages}.values():
        nbytes[storage.device] = nbytes.get(storage.device, 0) + storage.nbytes
    return nbytes


class Ledger:
    """Who holds which storage. Every change is whole or not at all.

    The order of things is reserve, write, `charge`: a reservation is bytes that are promised already and of no storage
    yet. Charging a holder takes its reservation back. Callers hold the lock that they guard it with.

    Args:
        budgets: most bytes by device; a device that is not named has none to give.
    """

    def __init__(self, *, budgets: Mapping[str, int]) -> None:
        self.budgets = dict(budgets)
        self._held: dict[Hashable, dict[Hashable, Storage]] = {}
        self._sharers: dict[Hashable, set[Hashable]] = {}
        self._reserved: dict[Hashable, dict[str, int]] = {}
        self._taken: dict[str, int] = dict.fromkeys(budgets, 0)

    def taken(self, device: str) -> int:
        """Bytes of all storages there, each once, and of all reservations."""
        return self._taken.get(device, 0)

    def held(self, holder: Hashable) -> dict[str, int]:
        """Bytes of a holder's storages by device, shared ones included."""
        return by_device(self._held.get(holder, {}).values())

    def short(self, claim: Mapping[str, int]) -> dict[str, int]:
        """Bytes that are missing for `claim`, by device; empty where it fits."""
        missing = {device: self.taken(device) + most - self.budgets.get(device, 0) for device, most in claim.items()}
        return {device: count for device, count in missing.items() if count > 0 and claim[device] > 0}

    def freeable(self, holders: Collection[Hashable]) -> dict[Hashable, Storage]:
        """The storages, by identity, that would be free if all these were released, and not before."""
        among = set(holders)
        return {
            storage.identity: storage
            for holder in holders
            for storage in self._held.get(holder, {}).values()
            if self._sharers[storage.identity] <= among
        }

    def holds(self, holder: Hashable, identities: Container[Hashable]) -> bool:
        """Whether any of these storages is the holder's."""
        return any(identity in identities for identity in self._held.get(holder, {}))

    def reserve(self, holder: Hashable, claim: Mapping[str, int]) -> None:
        """Promise a holder so many bytes more.

        Raises:
            StateFull: a device has not so many left; nothing has changed.
            StateError: a negative claim.
        """
        if min(claim.values(), default=0) < 0:
            raise StateError(f"{holder} claims less than nothing")
        self._check_room(claim)
        promised = self._reserved.setdefault(holder, {})
        for device, count in claim.items():
            promised[device] = promised.get(device, 0) + count
            self._taken[device] = self.taken(device) + count

    def charge(self, holder: Hashable, storages: Iterable[Storage]) -> None:
        """From now on `holder` holds exactly these, and no reservation.

        Raises:
            StateFull: they are more than was reserved, and than a device has left; nothing has changed.
            StateError: a storage that somebody else holds has another size or device now; nothing has changed.
        """
        new = {storage.identity: storage for storage in storages}
        old = self._held.get(holder, {})
        change = {device: -count for device, count in self._reserved.get(holder, {}).items()}
        for identity, storage in new.items():
            others = self._sharers.get(identity, set()) - {holder}
            known = next((self._held[other][identity] for other in others), None)
            if known not in (None, storage):
                raise StateError(f"{holder} and {next(iter(others))} do not agree about the storage {identity}")
            if known is None:
                change[storage.device] = change.get(storage.device, 0) + storage.nbytes
        for identity, storage in old.items():
            if self._sharers[identity] == {holder}:
                change[storage.device] = change.get(storage.device, 0) - storage.nbytes
        self._check_room(change)
        for identity in old:
            self._forget(holder, identity)
        for identity in new:
            self._sharers.setdefault(identity, set()).add(holder)
        for device, count in change.items():
            self._taken[device] = self.taken(device) + count
        self._reserved.pop(holder, None)
        if new:
            self._held[holder] = new
        else:
            self._held.pop(holder, None)

    def release(self, holder: Hashable) -> None:
        """A holder gives back all that it holds or was promised; nothing where that is nothing."""
        self.charge(holder, ())

    def _forget(self, holder: Hashable, identity: Hashable) -> None:
        sharers = self._sharers[identity]
        sharers.discard(holder)
        if not sharers:
            del self._sharers[identity]

    def _check_room(self, change: Mapping[str, int]) -> None:
        for device, count in self.short(change).items():
            budget = self.budgets.get(device, 0)
            raise StateFull(f"{count} bytes are short on {device}, of whose {budget} all others are taken")

    def check_integrity(self) -> list[str]:
        """One sentence for each thing that does not add up; empty where the books are right."""
        found: list[str] = []
        nbytes = dict.fromkeys(self._taken, 0)
        nbytes |= by_device(storage for held in self._held.values() for storage in held.values())
        for promised in self._reserved.values():
            for device, count in promised.items():
                nbytes[device] = nbytes.get(device, 0) + count
        for device, count in nbytes.items():
            if count != self.taken(device):
                found.append(f"the ledger has {self.taken(device)} bytes on {device}, its storages have {count}")
            if count > self.budgets.get(device, 0):
                found.append(f"{count} bytes on {device} are more than its budget, {self.budgets.get(device, 0)}")
        shared = {(holder, identity) for holder, held in self._held.items() for identity in held}
        if shared != {(holder, identity) for identity, holders in self._sharers.items() for holder in holders}:
            found.append("the ledger does not agree with itself about who holds what")
        return found
