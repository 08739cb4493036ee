"""One client of a soak: comes, and comes again, until it is over."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Sequence

from duplex.audio.pcm import Samples
from latency_bench.wire.chaos.ear import Heard
from latency_bench.wire.chaos.plan import VisitPlan
from latency_bench.wire.chaos.visit import Visit


class Client:
    """Comes, does what is planned, goes, and comes again.

    Args:
        url: of the server's realtime endpoint.
        name: for sentences.
        plans: of its visits.
        clips: what it can say, int16 [n] at 24 kHz each.
        heard: where everything is written down.
        over: set when it shall come no more; a visit under way then ends after its turn.
    """

    def __init__(
        self,
        *,
        url: str,
        name: str,
        plans: Iterator[VisitPlan],
        clips: Sequence[Samples],
        heard: Heard,
        over: asyncio.Event,
    ) -> None:
        self._url = url
        self._name = name
        self._plans = plans
        self._clips = clips
        self._heard = heard
        self._over = over

    async def run(self) -> None:
        """Until it is over."""
        for number, plan in enumerate(self._plans):
            if self._over.is_set():
                return
            visit = Visit(
                plan=plan,
                name=f"{self._name}, visit {number} ({plan.dialect})",
                clips=self._clips,
                heard=self._heard,
                over=self._over,
            )
            await visit.run(self._url)
