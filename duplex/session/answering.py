"""The output half of a session: from a prompt to an answer that is heard, or cut where it was heard."""

from __future__ import annotations

import sys
from typing import Literal

from duplex.connector.base import Handle
from duplex.connector.payload import Message
from duplex.engine.base import StageOptions
from duplex.errors import StateError
from duplex.session.answer import Answer
from duplex.session.conversation import Conversation
from duplex.session.effects import Abort, Effect, Note, Submit, Tell, Update
from duplex.session.events import Completed
from duplex.session.fence import MAIN, Fence
from duplex.session.item import Status
from duplex.session.ledgers import Ledgers
from duplex.session.notices import ItemDone, ResponseDone, ResponseInfo, ResponseStatus
from duplex.session.playback import PlaybackState
from duplex.session.response import ResponseInput, ResponseState, moved
from duplex.session.settings import ResponseOptions, SessionLimits, SessionSettings
from duplex.session.stages import SPEAKING, THINK, WRITING

StopReason = Literal["turn_detected", "client_cancelled", "failed", "closed"]


class Answering:
    """The answers of one session, one at a time.

    Attributes:
        state: see `response.RESPONSE_TABLE`.
        fence: of the newest turn of the lane; it only ever moves forward.
        ledgers: what is heard of the answers.
    """

    def __init__(
        self, *, fence: Fence, limits: SessionLimits, conversation: Conversation, acknowledged: bool = False
    ) -> None:
        self.state = ResponseState.IDLE
        self.fence = fence._replace(lane=MAIN)
        self._generation = fence.generation
        self._limits = limits
        self._conversation = conversation
        self._count = 0
        self._answer: Answer | None = None
        self.ledgers = Ledgers(conversation=conversation, limits=limits, acknowledged=acknowledged)

    def _move(self, what: ResponseInput) -> None:
        self.state = moved(self.state, what)

    @property
    def active_id(self) -> str | None:
        """Id of the response under way, whether the client knows of it or not."""
        return self._answer.response_id if self._answer is not None else None

    def live_id(self) -> str:
        """The same. Raises StateError where there is none."""
        return self._live().response_id

    @property
    def waiting(self) -> bool:
        return self.state is ResponseState.WAITING

    @property
    def announced(self) -> bool:
        """Whether the client knows of the response under way."""
        return self._answer is not None and self._answer.announced

    @property
    def provisional(self) -> bool:
        """Whether an answer is being made whose turn may still go on."""
        answer = self._answer
        return answer is not None and not answer.announced and answer.prompted is not None

    @property
    def instructions(self) -> str:
        """The system message of the response under way: what held when it began, whatever has been set since."""
        return self._live().instructions

    @property
    def staged_bytes(self) -> int:
        """Memory of the words that have been made and are not in the history."""
        return sys.getsizeof(self._answer.text) if self._answer is not None else 0

    def deadline(self, now: float) -> float | None:
        """When `wake` should be called next."""
        answer = self._answer
        return answer.playback.deadline(now) if answer is not None and answer.announced else None

    def create(self, settings: SessionSettings, options: ResponseOptions, *, announce: bool) -> list[Effect]:
        """Get every stage ready for an answer; the prompt follows. Raises StateError where one is under way."""
        self._move(ResponseInput.CREATE)
        self.fence = self._next_fence()
        self._count += 1
        name = f"{self.fence.session_id.removeprefix('sess_')}_{self._count}"
        self._answer = answer = Answer(
            response_id=f"resp_{name}",
            item_id=f"item_{name}",
            fence=self.fence,
            modality=options.modality or settings.modality,
            options=options,
            max_output_tokens=self.most_tokens(settings, options),
            hz=self._limits.output_hz,
            settings=settings,
            playback=self.ledgers.begin(),
        )
        stages = SPEAKING if answer.modality == "audio" else WRITING
        voice = StageOptions(speed=settings.speed, voice=settings.voice)
        effects: list[Effect] = [
            Note(response_id=answer.response_id, name="created", fence=answer.fence),
            Submit(fence=answer.fence, stages=stages, options=voice),
        ]
        return [*answer.announce(), *effects] if announce else effects

    def most_tokens(self, settings: SessionSettings, options: ResponseOptions) -> int:
        """Bound of an answer under these settings."""
        asked = options.max_output_tokens or settings.max_output_tokens or self._limits.max_output_tokens
        return min(asked, self._limits.max_output_tokens)

    def _next_fence(self) -> Fence:
        return self.fence.next()._replace(generation=self._generation)

    def prompt(self, messages: tuple[Message, ...], *, announce: bool) -> list[Effect]:
        """The prompt is complete: generate. Without `announce` behind a shut gate, until `confirm`."""
        self._move(ResponseInput.PROMPT)
        answer = self._live()
        return [
            *(answer.announce() if announce and not answer.announced else []),
            Update(fence=answer.fence, stage=THINK, payload=answer.prompt(messages), final=True),
            Note(response_id=answer.response_id, name="prompt"),
        ]

    def answers(self, messages: tuple[Message, ...], settings: SessionSettings) -> bool:
        """Whether the answer under way is one to exactly these messages, under these settings."""
        answer = self._answer
        return answer is not None and answer.prompted == messages and answer.settings == settings

    def confirm(self, now: float) -> list[Effect]:
        """The turn is over as it was provisionally taken: open the gate."""
        answer = self._live()
        effects = answer.announce()
        effects.append(Note(response_id=answer.response_id, name="confirmed"))
        if answer.text:
            effects += answer.say(answer.text, self._conversation)
        return [*effects, *self.wake(now)]

    def _live(self) -> Answer:
        if self._answer is None:
            raise StateError("there is no response")
        return self._answer

    def _is_live(self, fence: Fence) -> bool:
        return self._answer is not None and self._answer.fence == fence

    def wrote(self, fence: Fence, text: str) -> list[Effect]:
        """More words; ignored where their turn is over."""
        if not self._is_live(fence) or self.state is not ResponseState.GENERATING or not text:
            return []
        answer = self._live()
        first = [] if answer.text else [Note(response_id=answer.response_id, name="first_text")]
        answer.text += text
        return [*first, *(answer.say(text, self._conversation) if answer.announced else [])]

    def spoke(self, fence: Fence, handle: Handle, now: float) -> list[Effect]:
        """More audio; ignored where its turn is over."""
        if not self._is_live(fence) or self.state is not ResponseState.GENERATING:
            return []
        answer = self._live()
        answer.playback.offer(handle)
        if not answer.announced:
            return []
        return [*answer.add(self._conversation), *self.wake(now)]

    def completed(self, event: Completed, now: float) -> list[Effect]:
        """All is generated; ignored where the turn is over."""
        if not self._is_live(event.fence) or self.state is ResponseState.DRAINING:
            return []
        if self.state is ResponseState.WAITING:
            return self.interrupt(now, "failed", error="the stages ended before they had a prompt")
        self._move(ResponseInput.GENERATED)
        answer = self._live()
        answer.usage = event
        answer.playback.end()
        generated_ms = answer.ms(answer.playback.generated)
        note = Note(response_id=answer.response_id, name="generated", value_ms=generated_ms)
        return [note, *self.wake(now)]

    def wake(self, now: float) -> list[Effect]:
        """Send what is due; when all is sent the response is done."""
        answer = self._answer
        if answer is None or not answer.announced:
            return []
        effects = answer.due(now)
        if answer.playback.state is PlaybackState.SENT:
            self._move(ResponseInput.SENT)
            length = answer.usage is not None and answer.usage.reason == "length"
            effects += self._finish(
                answer, "incomplete" if length else "completed", "max_output_tokens" if length else ""
            )
        return effects

    # The listener ----------------------------------------------------------------------------

    def halt(self, now: float) -> None:
        """Nobody listens: no clock runs, and no audio is sent."""
        self.ledgers.halt(self._answer, now)

    def go_on(self, generation: int, now: float) -> list[Effect]:
        """Somebody listens (again), and turns that begin are of this generation."""
        self._generation = generation
        self.ledgers.go_on(self._answer, now)
        return self.wake(now)

    def played(self, item_id: str, samples: int, now: float) -> list[Effect] | int:
        """The client has played so much of an answer; or the samples that were sent, where that is less.

        Raises KeyError where no ledger of the item is kept.
        """
        active = self._answer if self._answer is not None and self._answer.item_id == item_id else None
        answer = active or self.ledgers[item_id]
        try:
            news = answer.playback.acknowledge(samples)
        except ValueError:
            return answer.playback.sent
        if news and active is not None:
            return self.wake(now)
        if news and answer.playback.state is PlaybackState.STOPPED:
            self.ledgers.cut(answer, samples)  # It was cut where the client was last known to be, and has come further.
        return []

    def shown(self) -> ResponseInfo | None:
        """The answer under way as far as the client knows it; None where it knows of none."""
        return self._answer.shown() if self._answer is not None and self._answer.announced else None

    # The end ---------------------------------------------------------------------------------

    def interrupt(self, now: float, reason: StopReason, error: str = "") -> list[Effect]:
        """Stop answering. The fence moves first; the history keeps what was heard by now, and nothing else.

        Also cuts the history of an answer that is sent but not yet played to its end.
        """
        answer = self._answer
        if answer is None:
            return self._cut_tail(now)
        stale = self.fence
        self.fence = self._next_fence()
        self._move(ResponseInput.STOP)
        answer.playback.stop(now)
        effects: list[Effect] = [Abort(fence=stale), *answer.notes("stopped", now)]
        if not answer.announced:
            self._answer = None
            return effects
        status: ResponseStatus = "failed" if reason == "failed" else "cancelled"
        status_reason = reason if reason in ("turn_detected", "client_cancelled") else ""
        if answer.added and answer.modality == "audio":
            effects.append(answer.silence(answer.playback.played(now)))
        return [*effects, *self._finish(answer, status, status_reason, error=error, now=now)]

    def _cut_tail(self, now: float) -> list[Effect]:
        tail = self.ledgers.stop_tail(now)
        if tail is None:
            return []
        stale, self.fence = self.fence, self._next_fence()
        answer, heard = tail
        return [Abort(fence=stale), answer.silence(heard)]

    def _finish(
        self, answer: Answer, status: ResponseStatus, reason: str, *, error: str = "", now: float | None = None
    ) -> list[Effect]:
        self._answer = None
        if now is None:
            whole: Status = "completed" if status == "completed" else "incomplete"
            item = answer.item(status=whole, text=answer.text, samples=answer.playback.sent)
        else:
            item = answer.heard(answer.playback.played(now))
        effects: list[Effect] = []
        if answer.usage is not None and answer.prompted is not None:
            self._conversation.answered(answer.prompted, answer.usage.input_tokens)
        if answer.added:
            self.ledgers.keep(answer)
            self._conversation.replace(item)
        effects.append(Note(response_id=answer.response_id, name="done", value_ms=answer.ms(answer.playback.sent)))
        info = answer.info(status, reason=reason, error=error, item=item if answer.added else None)
        if answer.added:
            effects.append(Tell(notice=ItemDone(item=item, previous_item_id=answer.previous_item_id)))
        return [*effects, Tell(notice=ResponseDone(response=info))]
