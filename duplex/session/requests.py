"""The requests of one session: what its stages are given, and what they report."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from duplex.connector.base import Connector, Handle
from duplex.connector.payload import Completeness, EndOfTurn, Payload, Pcm, Speech, Text, Transcript, Voiced
from duplex.errors import ConnectorFull, EngineDied, PeerGone, StageError, StaleFence, UnknownHandle
from duplex.orchestrator.core import Deliver, RequestCompleted, RequestFailed
from duplex.orchestrator.runner import OrchestratorRunner, Report
from duplex.session.effects import Feed, Submit, Update
from duplex.session.events import Completed, Failed, Signalled, Spoke, StageReport
from duplex.session.fence import Fence
from duplex.session.ring import AudioRing, ring_samples
from duplex.session.settings import SessionLimits


class Requests:
    """Stands between a session and its stages: payloads go into the connector, handles to the orchestrator.

    Args:
        session_id: of the session.
        limits: the server's bounds.
        orchestrator: serves the requests.
        connector: carries their payloads.
        counters: counts what was dropped, by kind.
        report: takes what the stages have to say to the session.
    """

    def __init__(
        self,
        *,
        session_id: str,
        limits: SessionLimits,
        orchestrator: OrchestratorRunner,
        connector: Connector,
        counters: Counter[str],
        report: Callable[[StageReport], None],
    ) -> None:
        self._session_id = session_id
        self._limits = limits
        self._orchestrator = orchestrator
        self._connector = connector
        self._counters = counters
        self._report = report
        self._ring = AudioRing(capacity=ring_samples(limits))
        self._live: set[Fence] = set()

    @property
    def nbytes(self) -> int:
        """Memory of the input audio that is kept."""
        return self._ring.nbytes

    @property
    def live(self) -> tuple[Fence, ...]:
        """Those that have not come to their end, in no order."""
        return tuple(self._live)

    def retain(self, pcm: NDArray[np.int16]) -> None:
        """Keep int16 [n], to be fed."""
        self._ring.write(pcm)

    def submit(self, effect: Submit) -> None:
        """See `effects.Submit`."""
        self._live.add(effect.fence)
        self._orchestrator.admit(effect.fence, effect.stages, self.reported, effect.options)

    def feed(self, effect: Feed) -> None:
        """See `effects.Feed`."""
        start = max(effect.start, self._ring.start)
        samples = self._ring.read(start, effect.end)
        pcm = Pcm(samples=samples, rate_hz=self._limits.input_hz, start=start)
        self._send(effect.fence, effect.stage, pcm, last=False)

    def update(self, effect: Update) -> None:
        """See `effects.Update`."""
        self._send(effect.fence, effect.stage, effect.payload, last=effect.final)

    def _send(self, fence: Fence, stage: str, payload: Payload | None, *, last: bool) -> None:
        if payload is None:
            self._orchestrator.update(fence, stage, None, last=last)
            return
        try:
            handle = self._connector.put(fence, payload)
        except StaleFence:
            self._counters["stale_input"] += 1
            return
        except ConnectorFull as error:
            self._orchestrator.abort(fence)
            self._live.discard(fence)
            self._report(Failed(fence=fence, error=StageError(str(error), stage=stage)))
            return
        self._orchestrator.update(fence, stage, handle, last=last)

    def abort(self, fence: Fence) -> None:
        """Its bytes go first, so that nothing of it can pass any more; then its stages are stopped."""
        self._counters["aborted_bytes"] += self._connector.retire(fence)
        self._orchestrator.abort(fence)
        self._live.discard(fence)

    def forget(self) -> None:
        """The session is over: the connector keeps nothing of it."""
        self._connector.forget(self._session_id)

    # What they report -------------------------------------------------------------------------

    def reported(self, report: Report) -> None:
        """The orchestrator has something for this session."""
        match report:
            case Deliver(fence=fence, handle=handle):
                self._delivered(fence, handle)
            case RequestCompleted(fence=fence):
                self._live.discard(fence)
                self._report(
                    Completed(
                        fence=fence,
                        reason=report.reason,
                        input_tokens=report.input_tokens,
                        cached_tokens=report.cached_tokens,
                        output_tokens=report.output_tokens,
                    )
                )
            case RequestFailed(fence=fence, error=error):
                self._live.discard(fence)
                self._report(Failed(fence=fence, error=error))

    def _delivered(self, fence: Fence, handle: Handle) -> None:
        if handle.samples:  # Audio stays in the connector until it is played.
            self._report(Spoke(fence=fence, handle=handle))
            return
        payload = self._taken(handle)
        if isinstance(payload, Speech | EndOfTurn | Transcript | Completeness | Text):
            self._report(Signalled(fence=fence, payload=payload))

    def voiced(self, handle: Handle) -> Voiced | None:
        """Audio that is to be played now; None where its turn is over. Raises TypeError where it is no audio."""
        payload = self._taken(handle)
        if payload is not None and not isinstance(payload, Voiced):
            raise TypeError(f"{handle} is not audio")
        return payload

    def _taken(self, handle: Handle) -> Payload | None:
        try:
            return self._connector.take(handle)
        except UnknownHandle:
            self._counters["stale_output"] += 1
            return None
        except PeerGone as gone:
            # Its request may have ended well: what it made is lost all the same.
            self._report(Failed(fence=handle.fence, error=EngineDied(str(gone), stage=str(handle.kind))))
            return None
