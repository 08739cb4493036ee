"""The session, pure: `receive(event, now)` and `wake(now)` return effects, `deadline` says when to wake it.

No clock, socket, task or lock in here. A client's event that is refused changes nothing; a report under a fence that
is not live any more is dropped, whichever way it comes.
"""

from __future__ import annotations

from duplex.connector.payload import Completeness, EndOfTurn, Speech, Text, Transcript
from duplex.errors import ClientError, EngineDied, ReplicaLost
from duplex.session.answering import Answering
from duplex.session.conversation import Conversation
from duplex.session.effects import Effect, Release, Tell
from duplex.session.events import (
    AppendAudio,
    Attached,
    CancelResponse,
    ClearAudio,
    ClientEvent,
    Close,
    CommitAudio,
    Completed,
    Configure,
    CreateItem,
    CreateResponse,
    DeleteItem,
    Detached,
    Event,
    Failed,
    Played,
    RetrieveItem,
    Signalled,
    Spoke,
    StageReport,
    TruncateItem,
    Unreadable,
)
from duplex.session.fence import INPUT, Fence
from duplex.session.history import History
from duplex.session.lifetime import Ended, Lifetime, Warned
from duplex.session.listening import Listening
from duplex.session.notices import CLOSING, AudioCleared, Closed, Configured, Ending, Opened, Refused, Snapshot
from duplex.session.prompting import Prompting
from duplex.session.reading import AHEAD
from duplex.session.recognising import Recognising
from duplex.session.settings import SessionLimits, SessionSettings
from duplex.session.turns import UserTurns
from duplex.session.window import Window

MOST_DEAF = 3
DEAF_WINDOW_S = 60.0
"""So many times in so many seconds the process that listens may die; once more, and the session ends."""


class Session:
    """One conversation from open to close.

    Args:
        session_id: unique in this server, `sess_` in front.
        generation: of the session's lease.
        settings: where the session starts.
        limits: the server's bounds.
        now: seconds on the caller's clock, which every method takes.
        acknowledged: whether the client says what it has played.
    """

    def __init__(
        self,
        *,
        session_id: str,
        settings: SessionSettings,
        limits: SessionLimits,
        now: float,
        generation: int = 0,
        acknowledged: bool = False,
    ) -> None:
        fence = Fence(session_id, generation, INPUT, 0)
        self.session_id = session_id
        self.settings = settings
        self.closed = False
        window = Window(context_tokens=limits.context_tokens, answer_tokens=limits.max_output_tokens)
        self.conversation = Conversation(max_items=limits.max_items, max_chars=limits.max_chars, window=window)
        self.conversation.configure(settings)
        self.listening = Listening(fence=fence, limits=limits, detection=settings.turn_detection)
        self._deafened_at: list[float] = []
        self.answering = Answering(
            fence=fence, limits=limits, conversation=self.conversation, acknowledged=acknowledged
        )
        self.history = History(session_id=session_id, conversation=self.conversation, answering=self.answering)
        self._recognising = Recognising()
        self.prompting = Prompting(
            fence=fence,
            limits=limits,
            settings=settings,
            listening=self.listening,
            conversation=self.conversation,
            answering=self.answering,
        )
        self.turns = UserTurns(
            limits=limits,
            listening=self.listening,
            recognising=self._recognising,
            conversation=self.conversation,
            prompting=self.prompting,
            answering=self.answering,
        )
        self._lifetime = Lifetime(idle_s=limits.idle_s, lifetime_s=limits.lifetime_s, notice_s=limits.notice_s, now=now)

    def open(self) -> list[Effect]:
        """The first effects."""
        opened = Opened(session_id=self.session_id, conversation_id=self._conversation_id, settings=self.settings)
        return [Tell(notice=opened), *self.listening.open()]

    @property
    def _conversation_id(self) -> str:
        return "conv_" + self.session_id.removeprefix("sess_")

    def snapshot(self) -> Snapshot:
        """All that a client can know of the session now."""
        utterance = self.listening.utterance
        response = self.answering.shown()
        items = self.conversation.items
        if response is not None and response.item is not None:
            items = tuple(response.item if item.item_id == response.item.item_id else item for item in items)
        return Snapshot(
            session_id=self.session_id,
            conversation_id=self._conversation_id,
            settings=self.settings,
            items=items,
            response=response,
            speaking=utterance.item_id if utterance is not None else None,
        )

    def deadline(self, now: float) -> float | None:
        """When `wake` should be called next; None once closed."""
        if self.closed:
            return None
        audio = self.answering.deadline(now)
        return self._lifetime.deadline if audio is None else min(self._lifetime.deadline, audio)

    @property
    def behind(self) -> bool:
        """Whether the client has to wait until the stages have done more of what it has sent."""
        return self.listening.behind or self._recognising.behind

    def wake(self, now: float) -> list[Effect]:
        """Time has passed."""
        if self.closed:
            return []
        effects = self._not_idle(self.answering.wake(now), now)
        for due in self._lifetime.wake(now):
            match due:
                case Warned(reason=reason, in_s=in_s):
                    effects.append(Tell(notice=Ending(reason=reason, in_s=in_s)))
                case Ended(reason=reason):
                    return [*effects, *self._close(reason, now)]
        return effects

    def _not_idle(self, effects: list[Effect], now: float) -> list[Effect]:
        """A long answer is no idleness, however long its listener says nothing."""
        if effects:
            self._lifetime.touch(now)
        return effects

    def receive(self, event: Event, now: float) -> list[Effect]:
        """Something has happened. After the end nothing happens any more."""
        if self.closed:
            return []
        match event:
            case Signalled() | Spoke() | Completed() | Failed():
                return self._not_idle(self._report(event, now), now)
            case Attached(generation=generation):
                self._lifetime.touch(now)
                self.listening.generation = generation
                return self.answering.go_on(generation, now)
            case Detached():
                self.answering.halt(now)
                return []
            case _:
                self._lifetime.touch(now)
                try:
                    return self._client(event, now)
                except ClientError as error:
                    return [Tell(notice=Refused(error=error))]

    # What the client wants ------------------------------------------------------------------

    def _client(self, event: ClientEvent, now: float) -> list[Effect]:
        match event:
            case AppendAudio():
                return self.listening.append(event)
            case CommitAudio(event_id=event_id):
                return self.turns.commit(event_id)
            case ClearAudio():
                return [*self.prompting.fence_provisional(now), *self.listening.clear(), Tell(notice=AudioCleared())]
            case Configure(settings=settings):
                self.settings = settings
                self.listening.configure(settings.turn_detection)
                self.conversation.configure(settings)
                self.prompting.configure(settings)
                return [Tell(notice=Configured(settings=settings))]
            case CreateItem():
                return self.history.create(event)
            case RetrieveItem():
                return self.history.retrieve(event)
            case DeleteItem():
                return [*self.history.delete(event), *self.prompting.prompt_if_ready()]
            case TruncateItem():
                return self.history.truncate(event)
            case CreateResponse(options=options, event_id=event_id):
                return self.prompting.create(options, event_id, now)
            case CancelResponse():
                return self._cancel_response(event, now)
            case Played():
                return self.history.played(event, now)
            case Unreadable(error=error):
                raise error
            case Close(reason=reason):
                return self._close(reason, now)

    def _cancel_response(self, event: CancelResponse, now: float) -> list[Effect]:
        active = self.answering.active_id if self.answering.announced else None
        if active is None or event.response_id not in (None, active):
            message = "There is no active response to cancel."
            raise ClientError(message, code="response_cancel_not_active", event_id=event.event_id)
        return self.answering.interrupt(now, "client_cancelled")

    # What the stages report -----------------------------------------------------------------

    def _report(self, report: StageReport, now: float) -> list[Effect]:
        match report:
            case Signalled():
                return self._signalled(report, now)
            case Spoke(fence=fence, handle=handle):
                return self.answering.spoke(fence, handle, now)
            case Completed(fence=fence) if fence == self.listening.fence:
                return self._close("failed", now)
            case Completed(fence=fence) | Failed(fence=fence) if fence.lane == AHEAD:
                return self.prompting.read(fence, now)
            case Completed(fence=fence) if fence in self._recognising:
                return self.turns.unrecognised(fence, "Recognition ended without a transcript.", now)
            case Completed(fence=fence) if self.listening.hears(fence):
                return self.turns.lost("recognition ended before the turn did", now)
            case Completed():
                return self.answering.completed(report, now)
            case Failed():
                return self._failed(report, now)

    def _signalled(self, report: Signalled, now: float) -> list[Effect]:
        fence, payload = report.fence, report.payload
        match payload:
            case Speech() | EndOfTurn():
                return self.turns.hear(payload, now) if fence == self.listening.fence else []
            case Transcript():
                return self.turns.transcribed(fence, payload, now)
            case Completeness():
                judged = self.prompting.judged(fence, payload)
                return self.turns.hear(judged, now) if judged is not None else []
            case Text(text=text):
                return self.answering.wrote(fence, text)

    def _failed(self, report: Failed, now: float) -> list[Effect]:
        if report.fence == self.listening.fence:
            return self._deafened(report, now)
        if report.fence in self._recognising:
            return self.turns.unrecognised(report.fence, str(report.error), now)
        if self.listening.hears(report.fence):
            return self.turns.lost(str(report.error), now)
        if self.answering.active_id is not None and report.fence == self.answering.fence:
            return self.prompting.failed(report, now)
        return []

    def _deafened(self, report: Failed, now: float) -> list[Effect]:
        """What listens has failed. Where only its process died another one can: from here on, and not too often."""
        again = isinstance(report.error, (EngineDied, ReplicaLost))
        recent = [at for at in self._deafened_at if now - at < DEAF_WINDOW_S]
        if not again or len(recent) >= MOST_DEAF:
            return self._close("failed", now)
        self._deafened_at = [*recent, now]
        lost = self.turns.lost(str(report.error), now) if self.listening.utterance is not None else []
        return [*lost, *self.listening.open_again()]

    def _close(self, reason: str, now: float) -> list[Effect]:
        self.closed = True
        effects = [*self.listening.close(), *self.prompting.close(), *self._recognising.close()]
        if self.answering.active_id is not None:
            effects += self.answering.interrupt(now, "closed")
        message = CLOSING.get(reason, reason)
        return [
            *effects,
            Tell(notice=Closed(reason=reason, message=message)),
            Release(session_id=self.session_id, reason=reason),
        ]
