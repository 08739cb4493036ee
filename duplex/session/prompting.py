"""From the user's words to a prompt: read ahead while they are spoken, answered provisionally in a pause, and given
for good once the turn is over."""

from __future__ import annotations

from duplex.connector.payload import Completeness, Message, Transcript
from duplex.errors import ClientError
from duplex.session.answering import Answering
from duplex.session.conversation import Conversation
from duplex.session.effects import Count, Effect
from duplex.session.events import Failed
from duplex.session.fence import Fence
from duplex.session.listening import Listening
from duplex.session.reading import ReadAhead, calibrated, certain, marked
from duplex.session.settings import Provisional, ResponseOptions, SessionLimits, SessionSettings


class Prompting:
    """Decides when the language model gets what of the user's words. Methods return effects.

    Args:
        fence: of the session.
        limits: the server's bounds.
        settings: where the session starts.
        listening: knows whether the user speaks, has paused, or has ended.
        conversation: what prompts are made of.
        answering: is given them.
    """

    def __init__(
        self,
        *,
        fence: Fence,
        limits: SessionLimits,
        settings: SessionSettings,
        listening: Listening,
        conversation: Conversation,
        answering: Answering,
    ) -> None:
        self._limits = limits
        self._settings = settings
        self._listening = listening
        self._conversation = conversation
        self._answering = answering
        self._reading = ReadAhead(fence=fence)
        self._said: Transcript | None = None  # up to the newest pause, while it is being read
        self._judged: Transcript | None = None  # the same once it has been read, until it is answered

    def configure(self, settings: SessionSettings) -> None:
        """Answers that begin from now on are under these."""
        self._settings = settings

    # While the user may go on -----------------------------------------------------------------

    @property
    def _answers_early(self) -> bool:
        detection = self._listening.detection
        answered = detection is not None and detection.create_response
        return answered and self._limits.provisional is Provisional.ANSWER

    def read_ahead(self, words: str) -> list[Effect]:
        """The user is speaking, and these are the words so far: so much of the prompt can be read already."""
        idle = self._answering.active_id is None and not self._conversation.awaits_transcript
        if not idle or not self._answers_early:
            return []
        return self._reading.read(
            self._conversation.messages(self._settings.instructions),
            words,
            generation=self._listening.generation,
            max_tokens=self._answering.most_tokens(self._settings, ResponseOptions()),
        )

    def so_far(self, fence: Fence, transcript: Transcript) -> list[Effect]:
        """This is what was said until now. Where the user has paused it may be all, and is judged and then answered."""
        if not self._listening.hears(fence) or not self._answers_early or not transcript.text.strip():
            return []
        if self._listening.paused_at(fence) != transcript.end:
            return self.read_ahead(certain(transcript.text))
        self._said = transcript
        return self.read_ahead(marked(transcript.text))

    def judged(self, fence: Fence, completeness: Completeness) -> Completeness | None:
        """What the language model thinks of the words that it reads; None where they are not those up to the pause."""
        said, utterance = self._said, self._listening.utterance
        whole = said is not None and self._reading.words(fence) == marked(said.text)
        if said is None or utterance is None or self._listening.paused_at(utterance.fence) != said.end:
            return None  # The user has gone on since, and may have paused again: that is another pause.
        first = not any(item.text for item in self._conversation.items)
        return calibrated(completeness, first=first) if whole else None

    def read(self, fence: Fence, now: float) -> list[Effect]:
        """The language model has read so far."""
        words, said = self._reading.words(fence), self._said
        effects = self._reading.ended(fence)
        if said is None or words != marked(said.text):
            return effects
        self._said, self._judged = None, said
        return [*effects, *self.answer_early(now)]

    def answer_early(self, now: float) -> list[Effect]:
        """Begin to answer, once the words up to the pause are judged and the turn sounds as if it were over."""
        if self._judged is None or not self._listening.likely:
            return []
        judged, self._judged = self._judged, None
        return self._paused(judged, now)

    def _paused(self, transcript: Transcript, now: float) -> list[Effect]:
        """Begin to answer behind a shut gate."""
        utterance = self._listening.utterance
        if utterance is None or self._listening.paused_at(utterance.fence) != transcript.end:
            return []
        taken = self._answering.active_id is not None and not self._answering.provisional
        if taken or self._conversation.awaits_transcript:
            return []
        said = Message(role="user", text=transcript.text)
        messages = (*self._conversation.messages(self._settings.instructions), said)
        if self._answering.answers(messages, self._settings):
            return []
        return [
            *self.fence_provisional(now),
            Count(what="provisional_turns"),
            *self._reading.stop(),
            *self.begin(),
            *self._answering.prompt(messages, announce=False),
        ]

    def fence_provisional(self, now: float) -> list[Effect]:
        """The turn goes on, or is gone: what was begun to answer it was never there."""
        if not self._answering.provisional:
            return []
        return [Count(what="provisional_turns_fenced"), *self._answering.interrupt(now, "turn_detected")]

    # Once the turn is over --------------------------------------------------------------------

    def create(self, options: ResponseOptions, event_id: str | None, now: float) -> list[Effect]:
        """The client wants an answer. Raises ClientError where one is active."""
        fenced = self.fence_provisional(now) if self._listening.utterance is not None else []
        active = self._answering.active_id
        if active is not None:
            message = f"The response {active!r} is active; wait for response.done, or cancel it first."
            raise ClientError(message, code="conversation_already_has_active_response", event_id=event_id)
        effects = self._answering.create(self._settings, options, announce=True)
        return [*fenced, *effects, *self.prompt_if_ready()]

    def begin(self) -> list[Effect]:
        """Get an answer ready that the client does not know of yet."""
        return self._answering.create(self._settings, ResponseOptions(), announce=False)

    def words_known(self, now: float) -> list[Effect]:
        """All that will ever be known of a turn's words is in the conversation."""
        return self._confirm(now) if self._answering.provisional else self.prompt_if_ready()

    def _confirm(self, now: float) -> list[Effect]:
        """The turn is over and its words are final: open the gate, or begin again where they are other words."""
        messages = self._conversation.messages(self._settings.instructions)
        if self._conversation.awaits_transcript:
            return []
        if self._answering.answers(messages, self._settings):
            return [Count(what="provisional_turns_confirmed"), *self._answering.confirm(now)]
        return [*self.fence_provisional(now), *self.begin(), *self.prompt_if_ready()]

    def prompt_if_ready(self) -> list[Effect]:
        """Give a waiting answer its prompt, once all that was said is recognised."""
        if not self._answering.waiting or self._conversation.awaits_transcript:
            return []
        messages = self._conversation.messages(self._answering.instructions)
        return [*self._reading.stop(), *self._answering.prompt(messages, announce=True)]

    def failed(self, report: Failed, now: float) -> list[Effect]:
        """The answer under way has failed."""
        owed = self._answering.provisional and self._listening.utterance is None
        effects = self._answering.interrupt(now, "failed", error=str(report.error))
        # It had been begun too early, and failed unseen: the turn is over by now, and is answered all the same.
        return [*effects, *self.begin()] if owed else effects

    def close(self) -> list[Effect]:
        """Read nothing more."""
        return self._reading.stop()
