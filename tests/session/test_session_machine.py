"""Every interleaving that Hypothesis can think of, against `Driver`'s independent account."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from duplex.connector.payload import Transcript
from duplex.session.events import (
    AppendAudio,
    CancelResponse,
    ClearAudio,
    Close,
    CommitAudio,
    Configure,
    CreateItem,
    CreateResponse,
    DeleteItem,
    Event,
    RetrieveItem,
    Signalled,
    TruncateItem,
)
from duplex.session.item import Item, Part
from duplex.session.notices import Opened, Refused, ResponseCreated, ResponseDone
from duplex.session.settings import SemanticVad, ServerVad, SessionSettings
from tests.session.driver import LIMITS, WINDOW, Driver
from tests.session.frozen import frozen

DETECTIONS = [
    None,
    ServerVad(silence_ms=200),
    ServerVad(silence_ms=50, prefix_padding_ms=0),
    SemanticVad(),
    SemanticVad(interrupt_response=False),
    ServerVad(create_response=False),
]
WORDS = st.sampled_from(["Hello", " there", ", my friend.", " It is", " late,", " good night.", " "])


class SessionMachine(RuleBasedStateMachine):
    """One session, its client, and its stages, all at once and in any order."""

    def __init__(self) -> None:
        super().__init__()
        self.driver = Driver()
        self.epoch = -1

    # The client -------------------------------------------------------------------------------

    def client(self, event: Event) -> None:
        """A refused event must change nothing (but when the client was last heard of)."""
        before = frozen(self.state())
        effects = self.driver.do(event)
        if effects and isinstance(getattr(effects[0], "notice", None), Refused):
            assert len(effects) == 1
            assert frozen(self.state()) == before, f"{event} was refused and still changed something"

    def state(self) -> list[object]:
        core = self.driver.core
        return [core.listening, core.history, core.settings, core._recognising, core.closed]

    @rule(loud=st.booleans(), windows=st.integers(1, 12), noise=st.floats(0, 0.04))
    def microphone(self, loud: bool, windows: int, noise: float) -> None:
        self.driver.microphone([(0.9 if loud else 0.05) + noise] * windows)

    @rule(sounds=st.lists(st.integers(1, 5), min_size=2, max_size=8), lag=st.integers(0, 20))
    def microphone_that_listening_follows_later(self, sounds: list[int], lag: int) -> None:
        """Sound and silence by turns in one message; listening leaves out what it has not come to yet."""
        probabilities = [0.95 if index % 2 == 0 else 0.01 for index, length in enumerate(sounds) for _ in range(length)]
        self.driver.do(AppendAudio(pcm=np.ones(WINDOW * len(probabilities), np.int16)))
        behind = (self.driver.received - self.driver.listened) // WINDOW - lag
        self.driver.listen(probabilities[: max(0, behind)])

    @rule()
    def a_whole_turn(self) -> None:
        self.driver.speak()
        self.driver.silence()

    @rule(probability=st.floats(0, 1))
    def answer(self, probability: float) -> None:
        self.driver.answer(probability)

    @rule(event=st.sampled_from([CommitAudio(), ClearAudio(), CreateResponse(), CancelResponse()]))
    def signal(self, event: Event) -> None:
        self.client(event)

    @rule(detection=st.sampled_from(DETECTIONS), modality=st.sampled_from(["audio", "text"]))
    def configure(self, detection: ServerVad | SemanticVad | None, modality: str) -> None:
        settings = SessionSettings(instructions="Be brief.", turn_detection=detection)
        self.client(Configure(settings=replace(settings, modality=modality)))  # type: ignore[arg-type]

    @rule(item_id=st.sampled_from(["", "a", "b"]), after=st.sampled_from([None, "root", "a", "nowhere"]))
    def create_item(self, item_id: str, after: str | None) -> None:
        part = Part(kind="text", text="What is new?")
        self.client(CreateItem(item=Item(item_id=item_id, role="user", status="completed", parts=(part,)), after=after))

    @rule(data=st.data(), verb=st.integers(0, 2), ms=st.integers(0, 3000))
    def on_an_item(self, data: st.DataObject, verb: int, ms: int) -> None:
        known = [item.item_id for item in self.driver.core.conversation.items]
        item_id = data.draw(st.sampled_from([*known, "nowhere"]))
        truncate = TruncateItem(item_id=item_id, content_index=0, audio_end_ms=ms)
        self.client([RetrieveItem(item_id=item_id), DeleteItem(item_id=item_id), truncate][verb])

    @rule(reason=st.sampled_from(["client", "disconnected"]), really=st.integers(0, 9))
    def close(self, reason: str, really: int) -> None:
        if really == 0:
            self.client(Close(reason=reason))

    # The stages, live and stale -----------------------------------------------------------------

    def any_fence(self, data: st.DataObject, lane: str) -> object:
        fences = [
            fence
            for fence in self.driver.submitted
            if (fence.lane == "main") == (lane == "main") and fence != self.driver.input
        ]
        live = [fence for fence in fences if fence in self.driver.live]
        return data.draw(st.sampled_from((live * 3 + fences) or [self.driver.input._replace(lane=lane, epoch=99)]))

    @rule(data=st.data(), text=st.sampled_from(["Hello.", "What time is it?", ""]))
    def transcribe(self, data: st.DataObject, text: str) -> None:
        self.driver.transcribe(self.any_fence(data, "hear"), text)  # type: ignore[arg-type]

    @rule(probability=st.sampled_from([0.0, 0.5, 1.0]))
    def read_ahead(self, probability: float) -> None:
        self.driver.read(probability)

    @rule(text=st.sampled_from(["Hello.", "Hello. What", "What time is it?", ""]))
    def hear_so_far(self, text: str) -> None:
        for fence in self.driver.hearings():
            self.driver.do(Signalled(fence=fence, payload=Transcript(text=text, end=0, final=False)))

    @rule(text=st.sampled_from(["Hello.", "What time is it?", ""]))
    def recognise_pause(self, text: str) -> None:
        self.driver.recognise_pause(text)

    @rule(text=st.sampled_from(["Hello.", "What time is it?"]), goes_on=st.booleans(), other=st.booleans())
    def a_provisional_turn(self, text: str, goes_on: bool, other: bool) -> None:
        """Begun in a pause; then the user goes on, or has said just that, or something else after all."""
        self.driver.speak()
        self.driver.microphone([0.01] * 3)
        self.driver.recognise_pause(text)
        main = self.driver.main
        if main is not None:
            self.driver.write(main, "Well")
            self.driver.make_audio(main, 3000)
        if goes_on:
            self.driver.speak(2)
            return
        self.driver.silence()
        for fence in self.driver.hearings():
            self.driver.transcribe(fence, "Something else." if other else text)

    @rule(data=st.data(), text=WORDS)
    def write(self, data: st.DataObject, text: str) -> None:
        self.driver.write(self.any_fence(data, "main"), text)  # type: ignore[arg-type]

    @rule(data=st.data(), samples=st.integers(1, 15_000), text=WORDS)
    def speak(self, data: st.DataObject, samples: int, text: str) -> None:
        fence = self.any_fence(data, "main")
        self.driver.write(fence, text)  # type: ignore[arg-type]
        self.driver.make_audio(fence, samples)  # type: ignore[arg-type]

    @rule(data=st.data(), reason=st.sampled_from(["stop", "length"]), lane=st.sampled_from(["main", "hear"]))
    def complete(self, data: st.DataObject, reason: str, lane: str) -> None:
        self.driver.complete(self.any_fence(data, lane), reason)  # type: ignore[arg-type]

    @rule(data=st.data(), lane=st.sampled_from(["main", "hear"]))
    def fail(self, data: st.DataObject, lane: str) -> None:
        self.driver.fail(self.any_fence(data, lane))  # type: ignore[arg-type]

    @rule(seconds=st.floats(0, 3))
    def time(self, seconds: float) -> None:
        self.driver.pass_time(seconds)

    @precondition(lambda self: not self.driver.released)
    @rule(seconds=st.floats(300, 4000))
    def a_long_time(self, seconds: float) -> None:
        self.driver.pass_time(seconds)
        assert self.driver.released == 1

    # What always holds ----------------------------------------------------------------------------

    @invariant()
    def epochs_never_go_back(self) -> None:
        epoch = self.driver.core.answering.fence.epoch
        assert epoch >= self.epoch
        self.epoch = epoch
        if not self.driver.core.closed:
            assert self.driver.core.answering.fence not in self.driver.aborted, "the live fence is that of an old turn"

    @invariant()
    def released_at_most_once(self) -> None:
        assert self.driver.released == (1 if self.driver.core.closed else 0)

    @invariant()
    def every_response_ends(self) -> None:
        driver = self.driver
        created, done = driver.told(ResponseCreated), driver.told(ResponseDone)
        assert len(created) - len(done) in (0, 1)
        if driver.main is None and not driver.core.closed and len(created) > len(done):
            # Nothing is being made for it any more: then audio must be waiting to be sent.
            assert driver.core.answering.deadline(driver.now) is not None, "a response that nothing will ever end"

    @invariant()
    def history_has_only_what_was_made(self) -> None:
        for done in self.driver.told(ResponseDone):
            item = done.response.item
            if item is None:
                continue
            fence = next(fence for fence in self.driver.submitted if item.item_id.endswith(f"_{epoch_of(fence, self)}"))
            assert self.driver.texts.get(fence, "").startswith(item.text)

    @invariant()
    def every_recognition_has_an_owner(self) -> None:
        core = self.driver.core
        owned = set(core._recognising)
        if core.listening.utterance is not None:
            owned.add(core.listening.utterance.fence)
        assert set(self.driver.hearings()) <= owned, "recognition that nothing will ever end"

    @invariant()
    def the_history_is_bounded(self) -> None:
        items = self.driver.core.conversation.items
        assert len(items) <= LIMITS.max_items
        assert self.driver.core.conversation._chars == sum(item.chars for item in items)

    @invariant()
    def opened_comes_first(self) -> None:
        assert isinstance(self.driver.notices[0], Opened)
        assert len(self.driver.told(Opened)) == 1


def epoch_of(fence: object, machine: SessionMachine) -> str:
    """The number in the ids of the answer made under `fence`: its place among the answers."""
    answers = [submitted for submitted in machine.driver.submitted if submitted.lane == "main"]
    return str(answers.index(fence) + 1) if fence in answers else "none"


TestSession = SessionMachine.TestCase
TestSession.settings = settings(max_examples=150, stateful_step_count=40, deadline=None)
