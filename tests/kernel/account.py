"""An account of its own of what every session may do, kept from outside: by effects, bytes and words, not by states.

Most of it happens inside the loop, where a runner's boundary would catch an assertion; so what is wrong is written down
(`wrong`), and the machine looks there after each rule.
"""

from __future__ import annotations

from duplex.connector.payload import Prompt
from duplex.session.effects import Abort, Effect, Submit, Update
from duplex.session.events import Event, Played, TruncateItem
from duplex.session.fence import MAIN, Fence
from duplex.session.notices import (
    Interrupted,
    Notice,
    Opened,
    Refused,
    ResponseCreated,
    ResponseDone,
    ResponseInfo,
    ResponseText,
)
from duplex.session.port import Audio
from duplex.session.reading import AHEAD
from tests.kernel.makings import Makings
from tests.kernel.record import HZ, Listener, Record


class Account:
    """The books of the whole server.

    Attributes:
        wrong: what must not have happened.
        sessions: by id, all that have begun; `over`: those that have given back what they held.
    """

    def __init__(self) -> None:
        self.wrong: list[str] = []
        self.sessions: dict[str, Record] = {}
        self.over: set[str] = set()
        self.submitted: list[Fence] = []
        self._dead: dict[tuple[str, str], Fence] = {}
        self.makings = Makings(expect=self.expect)
        self._prompts: dict[Fence, Prompt] = {}
        self._texts: dict[Fence, str] = {}

    def expect(self, holds: bool, what: str) -> None:
        if not holds:
            self.wrong.append(what)

    # Fences ---------------------------------------------------------------------------------------

    def is_aborted(self, fence: Fence) -> bool:
        """Whether the core has aborted it, or a later turn of its lane."""
        dead = self._dead.get((fence.session_id, fence.lane))
        return dead is not None and (dead == fence or dead.outdates(fence))

    def is_dead(self, fence: Fence) -> bool:
        """The same, or its session is over."""
        return fence.session_id in self.over or self.is_aborted(fence)

    def may_reach(self, fence: Fence, what: str) -> None:
        self.expect(not self.is_dead(fence), f"{what} under {fence}, which is over")

    # What sessions do -------------------------------------------------------------------------------

    def does(self, record: Record, effect: Effect) -> None:
        """An effect is about to be performed."""
        match effect:
            case Abort(fence=fence):
                lane = (fence.session_id, fence.lane)
                if lane not in self._dead or fence.outdates(self._dead[lane]):
                    self._dead[lane] = fence
            case Submit(fence=fence):
                earlier = [
                    old for old in self.submitted if (old.session_id, old.lane) == (fence.session_id, fence.lane)
                ]
                self.expect(all(fence.outdates(old) for old in earlier), f"{fence} comes after {earlier[-1:]}")
                self.expect(fence.generation <= record.generation, f"{fence} is of an owner who has not come yet")
                self.submitted.append(fence)
            case Update(fence=fence, payload=Prompt(complete=False)):
                self.expect(fence.lane == AHEAD, f"{fence} is given a prompt that is not complete")
            case Update(fence=fence, payload=Prompt() as prompt):
                self._prompts[fence] = prompt
                if fence.epoch in record.epochs.values():
                    self._check_prompt(fence)
                for message in prompt.messages:
                    if message.role == "assistant" and (of := self.makings.thinker(message.text)) is not None:
                        self.expect(of.epoch in record.epochs.values(), f"{message.text!r} was never told")
            case _:
                pass

    def _check_prompt(self, fence: Fence) -> None:
        """An answer that is announced answers what was said in the end."""
        said = [message.text for message in self._prompts[fence].messages if message.role == "user"]
        self.expect(
            set(said) <= self.makings.final, f"{said} is answered, and not all of it was said: {self.makings.final}"
        )

    def receives(self, record: Record, event: Event, effects: list[Effect], *, changed: bool) -> None:
        """The core has taken an event."""
        refused = any(isinstance(getattr(effect, "notice", None), Refused) for effect in effects)
        if isinstance(event, Played) and not refused:
            record.said[event.item_id] = max(record.said[event.item_id], event.samples)
        if isinstance(event, TruncateItem) and not refused:
            record.heard[event.item_id] = event.audio_end_ms * HZ // 1000
        alone = refused and len(effects) == 1
        self.expect(not (alone and changed), f"{type(event).__name__} was refused and changed something")

    def tells(self, record: Record, told: Notice | Audio, now: float) -> None:
        """A session tells something."""
        self.expect(not record.closed, f"{type(told).__name__} after the end")
        self.expect(isinstance(told, Opened) == (not record.told), "Opened comes first, and once")
        record.told.append(told)
        match told:
            case Audio():
                self._sounds_right(record, told, now)
            case ResponseCreated(response=response):
                self.expect(not record.open, "two responses at once")
                self.expect(response.response_id not in record.epochs, "announced twice")
                record.epochs[response.response_id] = response.epoch
                record.open.add(response.response_id)
                for fence in self._prompts:
                    if (fence.session_id, fence.lane, fence.epoch) == (record.runner.session_id, MAIN, response.epoch):
                        self._check_prompt(fence)
            case ResponseText(response_id=response_id, text=text):
                self.expect(response_id in record.open, "words outside of their response")
                of = self.makings.thinker(text)
                self.expect(of is None or of.epoch == record.epochs[response_id], f"{text!r} is of another turn")
                if of is not None:
                    self._texts[of] = self._texts.get(of, "") + text
            case ResponseDone(response=response):
                self.expect(response.response_id in record.open, "done without having been announced, or twice")
                record.open.discard(response.response_id)
                if response.status == "completed":
                    self._check_whole(record, response)
            case Interrupted():
                self._falls_silent(record, told, now)
            case _:
                pass

    def _check_whole(self, record: Record, response: ResponseInfo) -> None:
        """All that was made of a complete answer was told."""
        session_id = record.runner.session_id
        for fence, text in self.makings.thoughts.items():
            if (fence.session_id, fence.lane, fence.epoch) == (session_id, MAIN, response.epoch):
                self.expect(self._texts.get(fence) == text, f"{self._texts.get(fence)!r} was told of {text!r}")
                if response.modality == "audio" and response.item is not None:
                    sent = record.listeners[response.item.item_id].sent
                    self.expect(sent == self.makings.sounds[fence][-1][0], "a complete answer was not all sent")

    def _sounds_right(self, record: Record, audio: Audio, now: float) -> None:
        made_under = self.makings.maker(audio)
        self.expect(made_under.session_id == record.runner.session_id, "audio of another session")
        self.expect(audio.fence == made_under, f"audio of {made_under} goes out as {audio.fence}")
        self.expect(not self.is_dead(made_under), f"audio of {made_under} is played, which is over")
        self.expect(made_under.epoch > record.silent, "audio after the word of its interruption")
        self.expect(record.epochs.get(audio.response_id) == made_under.epoch, "audio of another answer")
        self.expect(record.on, "it is played, and nobody listens")
        listener = record.listeners.setdefault(audio.item_id, Listener(at_s=now))
        listener.go(now, on=record.on)
        self.expect(audio.start == listener.sent, "a hole in the audio of an answer")
        listener.sent += len(audio.pcm)

    def _falls_silent(self, record: Record, told: Interrupted, now: float) -> None:
        record.silent = max(record.silent, told.epoch)
        listener = record.listeners.get(told.item_id, Listener(at_s=now))
        listener.go(now, on=record.on)
        heard = record.said[told.item_id] if record.acknowledged else listener.played
        self.expect(abs(told.samples - heard) <= 2, f"{told.samples} samples are called heard, and {heard} were")
        record.heard[told.item_id] = told.samples

    def turns(self, record: Record, now: float, *, on: bool) -> None:
        """Somebody begins to listen, or nobody does any more."""
        for listener in record.listeners.values():
            listener.go(now, on=record.on)
        record.on = on

    # What must hold when nothing moves ------------------------------------------------------------

    def check_history(self, record: Record) -> None:
        """The conversation holds what was announced, and of what was interrupted no more than was heard."""
        announced = {response_id.removeprefix("resp_"): epoch for response_id, epoch in record.epochs.items()}
        for item in record.runner._core.conversation.items:
            if item.role == "user":
                assert not item.text or item.text in self.makings.final, f"nobody has said {item.text!r}"
                continue
            name = item.item_id.removeprefix("item_")
            assert name in announced, "an answer is in the history that nobody was told of"
            if (of := self.makings.thinker(item.text)) is None:
                continue
            assert of.epoch == announced[name]
            assert self._texts[of].startswith(item.text)
            if item.item_id in record.heard and item.parts[0].kind == "audio":
                samples = max(record.heard[item.item_id], record.said[item.item_id])
                end = next((text for until, text in self.makings.sounds[of] if samples <= until), 0) if samples else 0
                assert len(item.text) <= end, f"{item.text!r} is kept, and {samples} samples were heard"
