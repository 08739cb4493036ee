"""session/holdings on real sessions: bytes of conversations, their budget, and what a client is told of it."""

from __future__ import annotations

import pytest

from duplex.errors import StateError
from duplex.session.conversation import Conversation
from duplex.session.events import Configure, CreateItem, CreateResponse, DeleteItem
from duplex.session.fence import MAIN, Fence
from duplex.session.holdings import CONVERSATION, HOST_MEMORY
from duplex.session.item import Item, Part
from duplex.session.notices import Closed, Configured, ItemDeleted, ItemDone, Opened, Refused, ResponseDone
from duplex.session.port import Audio, SessionPort
from duplex.session.settings import SessionSettings
from duplex.state.kind import StateKind
from duplex.state.ref import StateKey, StateRef
from tests.session.world import World, world

pytestmark = pytest.mark.anyio


def typed(text: str, item_id: str = "") -> CreateItem:
    return CreateItem(
        item=Item(item_id=item_id, role="user", status="completed", parts=(Part(kind="text", text=text),))
    )


async def until(port: SessionPort, kind: type[object]) -> object:
    while (said := await port.receive()) is not None:
        if isinstance(said, kind):
            return said
    raise AssertionError(f"the session ended without {kind.__name__}")


def ref(here: World, port: SessionPort) -> StateRef:
    (only,) = here.host.states.refs(port.session_id)
    return only


def conversation(here: World, port: SessionPort) -> Conversation:
    value = here.host.states.get(StateKey(port.session_id, CONVERSATION))
    assert value is not None
    return value._conversation


async def test_each_change_is_a_version_and_its_bytes_are_counted() -> None:
    async with world() as here, here.host.open() as port:
        await until(port, Opened)
        empty = ref(here, port)
        assert (empty.owner, empty.kind, empty.version, empty.length) == ("session", StateKind.CONVERSATION, 0, 0)
        assert empty.rebuild_s is None
        await port.send(typed("x" * 5000, "a"))
        await until(port, ItemDone)
        written = ref(here, port)
        assert (written.version, written.length) == (1, 1)
        assert 5000 < written.nbytes[HOST_MEMORY] - empty.nbytes[HOST_MEMORY] < 6000
        await port.send(DeleteItem(item_id="a"))
        await until(port, ItemDeleted)
        assert ref(here, port).nbytes == empty.nbytes
        assert here.host.states.check_integrity() == []
        assert here.host.measure(port.session_id).nbytes[HOST_MEMORY] == empty.nbytes[HOST_MEMORY]


async def test_an_answer_is_staged_until_it_has_ended() -> None:
    async with world() as here, here.host.open() as port:
        await until(port, Opened)
        await port.send(typed("Go on."))
        await port.send(CreateResponse())
        await until(port, Audio)
        assert ref(here, port).length == 1, "what is being said is not in the history yet"
        await until(port, ResponseDone)
        after = ref(here, port)
        assert after.length == 2
        assert not here.host.states.busy(StateKey(port.session_id, CONVERSATION))
        assert here.host.states.check_integrity() == []
    assert here.host.states.refs() == ()
    assert here.host.states.ledger.taken(HOST_MEMORY) == 0


async def test_a_budget_that_is_spent_refuses_the_client_and_loses_nothing() -> None:
    async with world(state_budget_bytes=20_000) as here, here.host.open() as port, here.host.open() as other:
        await until(port, Opened)
        await until(other, Opened)
        await port.send(typed("x" * 12_000, "a"))
        await until(port, ItemDone)
        await other.send(typed("y" * 12_000, "b"))
        refused = await until(other, Refused)
        assert isinstance(refused, Refused)
        assert (refused.error.code, refused.error.param) == ("state_full", "item")
        assert "memory for sessions is spent" in refused.error.message
        assert ref(here, other).length == 0
        await other.send(Configure(settings=SessionSettings(instructions="z" * 12_000)))
        assert isinstance(await until(other, Refused), Refused)
        await port.send(DeleteItem(item_id="a"))
        await until(port, ItemDeleted)
        await other.send(typed("y" * 12_000, "b"))
        await until(other, ItemDone)
        await other.send(Configure(settings=SessionSettings(instructions="z" * 3000)))
        await until(other, Configured)
        assert here.host.states.check_integrity() == []
        assert here.host.states.ledger.taken(HOST_MEMORY) <= 20_000


async def test_what_the_core_refuses_keeps_no_room() -> None:
    async with world() as here, here.host.open() as port:
        await until(port, Opened)
        await port.send(typed("x", "a"))
        await until(port, ItemDone)
        before = here.host.states.ledger.taken(HOST_MEMORY)
        await port.send(typed("x" * 9000, "a"))
        assert isinstance(await until(port, Refused), Refused)
        assert here.host.states.ledger.taken(HOST_MEMORY) == before


async def test_words_that_have_no_room_end_the_session_and_say_why() -> None:
    """Nothing of a history is ever taken away to make room: who cannot be kept whole is told."""
    async with world(state_budget_bytes=1000) as here, here.host.open() as port:
        await until(port, Opened)
        await port.send(typed("Go on."))
        await port.send(CreateResponse())
        closed = await until(port, Closed)
        assert isinstance(closed, Closed)
        assert closed.reason == "state_full"
        assert here.host.counters["state_overflows"] >= 1


async def test_a_conversation_can_be_copied_into_another() -> None:
    async with world() as here, here.host.open() as port, here.host.open() as other:
        await until(port, Opened)
        await until(other, Opened)
        for number in range(3):
            await port.send(typed(f"number {number}", f"item{number}"))
            await until(port, ItemDone)
        states = here.host.states
        taken = states.snapshot(StateKey(port.session_id, CONVERSATION))
        key, fence = StateKey(other.session_id, CONVERSATION), Fence(other.session_id, 0, MAIN, 0)
        states.restore(key, fence, taken, {HOST_MEMORY: 9000})
        assert conversation(here, other).items == conversation(here, port).items
        assert states.check_integrity() == []
        states.stage(key, fence)
        value = states.get(key)
        assert value is not None
        with pytest.raises(StateError, match="no snapshot"):
            value.restore("words")
        states.reset(key)
