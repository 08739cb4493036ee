"""Reading ahead: the language model takes in the history, and the user's words, while they are still being spoken.

A prompt is read many tokens at a time, but the more of them are new, the later the first word of the answer. What is
read ahead lies in the conversation's prefix cache when the turn ends, and only the last words are left to read. It is
no turn: nothing comes of it, nothing of it is kept but the cache, and where the words turn out otherwise the cache is
right as far as they were the same.
"""

from __future__ import annotations

from duplex.connector.payload import Completeness, Message, Prompt
from duplex.session.effects import Abort, Effect, Submit, Update
from duplex.session.fence import Fence
from duplex.session.stages import THINK, WRITING

AHEAD = "ahead"
FIRST_ODDS = 2.5
"""A language model has seen many a long first message, and takes its cue for later ones from the conversation. Measured
on the same sentences, the odds that one is complete were so much lower where it was the first."""

_PROVISIONAL_MARKS = ".,;:!?… "


def certain(words: str) -> str:
    """Of what was heard so far, that which is likely to stay: not the last word, which may be half of one, and not the
    mark before it, which may yet be another."""
    return words.rsplit(None, 1)[0].rstrip(_PROVISIONAL_MARKS) if " " in words.strip() else ""


def marked(words: str) -> str:
    """The words as those of a whole message, to be judged: recognition now and then leaves out the mark at the end,
    and a language model never ends a message without one."""
    return words + "." if words[-1:].isalnum() else words


def calibrated(completeness: Completeness, *, first: bool) -> Completeness:
    """What is thought of a message, as if it were not the first of its conversation."""
    if not first:
        return completeness
    likely = FIRST_ODDS * completeness.probability
    return Completeness(probability=likely / (likely + 1 - completeness.probability))


class ReadAhead:
    """At most one request at a time; while it runs, what is to be read next is the newest.

    Attributes:
        fence: of the newest request of this lane.
    """

    def __init__(self, *, fence: Fence) -> None:
        self.fence = fence._replace(lane=AHEAD)
        self._generation = fence.generation
        self._reading: Prompt | None = None
        self._next: Prompt | None = None

    def read(self, messages: tuple[Message, ...], words: str, *, generation: int, max_tokens: int) -> list[Effect]:
        """Take in this history, and a message of the user's that begins with these words.

        Args:
            messages: the history.
            words: of the user's, so far.
            generation: of the connection that speaks.
            max_tokens: of the answer that will follow, for which room is kept.
        """
        prompt = Prompt(
            messages=(*messages, Message(role="user", text=words)),
            max_tokens=max_tokens,
            temperature=0.0,
            complete=False,
        )
        self._generation = generation
        if self._reading is not None:
            self._next = prompt
            return []
        return self._begin(prompt)

    def _begin(self, prompt: Prompt) -> list[Effect]:
        self.fence = self.fence.next()._replace(generation=self._generation)
        self._reading = prompt
        return [
            Submit(fence=self.fence, stages=WRITING),
            Update(fence=self.fence, stage=THINK, payload=prompt, final=True),
        ]

    def words(self, fence: Fence) -> str | None:
        """The user's words that this request reads; None where it is not the one under way."""
        reading = self._reading
        return reading.messages[-1].text if reading is not None and fence == self.fence else None

    def ended(self, fence: Fence) -> list[Effect]:
        """A request is over, well or not."""
        if fence != self.fence or self._reading is None:
            return []
        following, self._next, self._reading = self._next, None, None
        return self._begin(following) if following is not None else []

    def stop(self) -> list[Effect]:
        """The prompt itself is there, or the turn is gone."""
        reading, self._reading, self._next = self._reading, None, None
        return [Abort(fence=self.fence)] if reading is not None else []
