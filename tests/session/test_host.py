"""Sessions on the real runner, orchestrator and connector, with scripted engines; afterwards nothing is left."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator

import numpy as np
import pytest

from duplex.connector.base import Handle
from duplex.connector.payload import Payload, Voiced
from duplex.errors import AdmissionRefused, ClientError, PeerGone, StageError
from duplex.session import runner
from duplex.session.events import AppendAudio, ClearAudio, Close, CreateItem, CreateResponse
from duplex.session.fence import MAIN, Fence
from duplex.session.holdings import HOST_MEMORY
from duplex.session.item import Item, Part
from duplex.session.notices import (
    AudioCleared,
    Closed,
    ItemDone,
    Notice,
    Opened,
    Queued,
    ResponseCreated,
    ResponseDone,
    Snapshot,
    SpeechStarted,
)
from duplex.session.port import Audio, Entry, LeasedPort, SessionPort, Terms
from tests.session.engines import (
    Say,
    ignores,
    thinks,
    voices,
)
from tests.session.world import WINDOW, world

pytestmark = pytest.mark.anyio


async def until(port: SessionPort, kind: type[Notice]) -> list[Notice | Audio]:
    """Everything up to the first notice of `kind`."""
    seen: list[Notice | Audio] = []
    while (said := await port.receive()) is not None:
        seen.append(said)
        if isinstance(said, kind):
            return seen
    raise AssertionError(f"the session ended without {kind.__name__}: {seen}")


async def speak(port: SessionPort, windows: int, level: int = 1000) -> None:
    for _ in range(windows):
        await port.send(AppendAudio(pcm=np.full(WINDOW, level, np.int16)))


def typed(text: str) -> CreateItem:
    part = Part(kind="text", text=text)
    return CreateItem(item=Item(item_id="", role="user", status="completed", parts=(part,)))


async def test_a_spoken_turn_is_answered_and_leaves_nothing() -> None:
    async with world(code2wav=voices(1, 2400)) as here:
        async with here.host.open() as port:
            await speak(port, 10)
            await speak(port, 10, level=0)
            seen = await until(port, ResponseDone)
            assert isinstance(seen[0], Opened)
            assert sum(len(said.pcm) for said in seen if isinstance(said, Audio)) == 2 * 2400
            done = seen[-1]
            assert isinstance(done, ResponseDone)
            assert done.response.item is not None
            assert done.response.item.text == "It is late."
            turn = here.host.turns.get(done.response.response_id)
            assert turn is not None
            assert {"speech_end", "turn_end", "prompt", "first_text", "first_audio", "done"} <= {
                moment.name for moment in turn.moments
            }
        here.assert_nothing_left()


async def test_nothing_of_the_old_turn_comes_after_speech_started() -> None:
    async with world(code2wav=voices(40, 2400)) as here, here.host.open() as port:
        await port.send(typed("Go on."))
        await port.send(CreateResponse())
        while not isinstance(await port.receive(), Audio):
            pass
        assert len(here.connector) > 30, "much audio waits for its time"
        await speak(port, 4)
        after = False
        while (said := await port.receive()) is not None:
            assert not (after and isinstance(said, Audio)), "old audio after speech_started"
            after = after or isinstance(said, SpeechStarted)
            if isinstance(said, ResponseDone):
                break
        assert after
        assert here.connector.nbytes < 4800, "what was not heard is given back at once; a prompt is read ahead"
        assert here.host.counters["aborted_bytes"] > 30 * 4800


async def test_the_place_comes_back_whatever_happened() -> None:
    async with world(capacity=1) as here:
        async with here.host.open():
            for _ in range(5):
                with pytest.raises(AdmissionRefused, match="All 1 sessions"):
                    await here.host.open().__aenter__()
        assert here.host.counters["sessions_refused"] == 5
        with pytest.raises(ZeroDivisionError):
            async with here.host.open():
                raise ZeroDivisionError
        async with here.host.open() as port:
            await port.send(Close(reason="client"))
            seen = await until(port, Closed)
            assert isinstance(seen[-1], Closed)
            assert await port.receive() is None
            await port.send(ClearAudio())


async def test_who_waits_hears_the_position_and_who_comes_later_is_refused() -> None:
    async with world(capacity=1, queue_length=2, code2wav=voices(1, 240)) as here:
        async with here.host.open() as first, here.host.open() as second, here.host.open() as third:
            await until(first, Opened)
            assert await second.receive() == Queued(position=1, eta_s=None)
            assert await third.receive() == Queued(position=2, eta_s=None)
            with pytest.raises(AdmissionRefused, match="and 2 wait for one already"):
                await here.host.open().__aenter__()
            assert here.host.counters["sessions_queued"] == 2
        assert len(here.host.admission) == 0


async def test_the_next_one_begins_when_the_place_is_free() -> None:
    async with world(capacity=1, queue_length=2, code2wav=voices(1, 240)) as here, contextlib.AsyncExitStack() as stack:
        first = contextlib.AsyncExitStack()
        await first.enter_async_context(here.host.open())
        second = await stack.enter_async_context(here.host.open())
        assert isinstance(await second.receive(), Queued)
        async with asyncio.TaskGroup() as tasks:
            sending = tasks.create_task(second.send(typed("Well?")))
            await asyncio.sleep(0)
            assert not sending.done(), "there is no session yet that could take it"
            await first.aclose()
        assert isinstance(await second.receive(), Opened)
        await second.send(CreateResponse())
        await until(second, ResponseDone)


async def test_a_place_is_free_only_when_the_engines_have_let_go() -> None:
    refusals = 2
    asked: list[str] = []

    def release(session_id: str) -> None:
        asked.append(session_id)
        if len(asked) <= refusals:
            raise OSError("not now")

    async with world(capacity=1, queue_length=1, on_release=release) as here:
        async with here.host.open() as port:
            session_id = port.session_id
        (place,) = here.host.admission.places.values()
        assert (place.session_id, place.state, place.attempts) == (session_id, "stuck", 1)
        async with here.host.open() as port:
            assert isinstance(await port.receive(), Queued)
            assert isinstance(await port.receive(), Opened)
        assert asked[:3] == [session_id] * 3
        assert here.host.counters["release_failures"] == refusals


async def test_who_leaves_at_once_gets_no_session() -> None:
    async with world(capacity=1) as here, asyncio.timeout(5):
        async with here.host.open():
            pass
        here.assert_nothing_left()
        async with here.host.open() as port:
            await until(port, Opened)


async def test_who_waits_too_long_is_told_and_gone() -> None:
    async with world(capacity=1, queue_length=1, queue_wait_s=0.02) as here, here.host.open():
        async with here.host.open() as port:
            await until(port, Closed)
            assert await port.receive() is None
            await port.send(ClearAudio())
        assert here.host.counters["sessions_dismissed_queue_timeout"] == 1
        assert here.host.admission.waiting == 0


async def test_closing_the_host_sends_away_who_waits() -> None:
    async with world(capacity=1, queue_length=1) as here, here.host.open(), here.host.open() as port:
        here.host.close()
        closed = (await until(port, Closed))[-1]
        assert isinstance(closed, Closed)
        assert closed.reason == "shutdown"


async def test_what_a_session_holds_is_measured() -> None:
    async with world(code2wav=voices(40, 2400)) as here, here.host.open() as port:
        await until(port, Opened)
        silent = here.host.measure(port.session_id).nbytes[HOST_MEMORY]
        await port.send(AppendAudio(pcm=np.zeros(16_000, np.int16)))
        await port.send(typed("Go on."))
        await port.send(CreateResponse())
        while not isinstance(await port.receive(), Audio):
            pass
        assert here.host.measure(port.session_id).nbytes[HOST_MEMORY] > silent + 32_000 + 30 * 4800


async def test_a_cancelled_transport_gives_everything_back() -> None:
    async with world(code2wav=voices(40, 2400)) as here:
        inside = asyncio.Event()

        async def client() -> None:
            async with here.host.open() as port:
                await port.send(typed("Go on."))
                await port.send(CreateResponse())
                while not isinstance(await port.receive(), Audio):
                    pass
                inside.set()
                await asyncio.Event().wait()

        async with asyncio.TaskGroup() as tasks:
            task = tasks.create_task(client())
            await inside.wait()
            task.cancel()
        here.assert_nothing_left()


async def test_a_failing_stage_fails_its_answer_alone() -> None:
    calls = 0

    def thinks_once(payload: Payload, say: Say) -> None:
        nonlocal calls
        calls += 1
        if calls == 1:
            raise StageError("out of thoughts", stage="think")
        thinks(payload, say)

    async with world(think=thinks_once, code2wav=voices(1, 240)) as here, here.host.open() as port:
        statuses = []
        for _ in range(2):
            await port.send(typed("Well?"))
            await port.send(CreateResponse())
            done = (await until(port, ResponseDone))[-1]
            assert isinstance(done, ResponseDone)
            statuses.append(done.response.status)
        assert statuses == ["failed", "completed"]


async def test_audio_that_was_lost_with_its_process_fails_its_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    async with world(code2wav=voices(10, 2400)) as here, here.host.open() as port:
        take, gone = here.connector.take, []

        def taken(handle: Handle) -> Payload:
            payload = take(handle)
            if isinstance(payload, Voiced) and not gone:
                gone.append(handle)
                raise PeerGone("process 3 has ended")
            return payload

        monkeypatch.setattr(here.connector, "take", taken)
        statuses = []
        for _ in range(2):
            await port.send(typed("Well?"))
            await port.send(CreateResponse())
            done = (await until(port, ResponseDone))[-1]
            assert isinstance(done, ResponseDone)
            statuses.append(done.response.status)
        assert statuses == ["failed", "completed"]


async def test_a_bug_in_a_session_ends_that_session_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    async with world() as here, here.host.open() as other:
        async with here.host.open() as port:
            await until(port, Opened)
            core = port._attachment._runner._core  # type: ignore[attr-defined]
            monkeypatch.setattr(core, "receive", lambda event, now: 1 / 0)
            await port.send(ClearAudio())
            closed = (await until(port, Closed))[-1]
            assert isinstance(closed, Closed)
            assert closed.reason == "error"
        await other.send(typed("Still there?"))
        await other.send(CreateResponse())
        await until(other, ResponseDone)
        assert here.host.counters["session_failures"] == 1


async def test_who_does_not_read_is_cut_off() -> None:
    async with world() as here, here.host.open() as port:
        for _ in range(1200):
            await port.send(typed("x"))
        seen = [said async for said in drained(port)]
        closed = seen[-1]
        assert isinstance(closed, Closed)
        assert closed.reason == "slow_reader"


async def drained(port: SessionPort) -> AsyncIterator[Notice | Audio]:
    while (said := await port.receive()) is not None:
        yield said


async def test_audio_faster_than_real_time_waits_for_listening() -> None:
    async with world(code2wav=voices(1, 240)) as here, here.host.open() as port:
        await speak(port, 20, level=0)
        await speak(port, 400)
        await speak(port, 20, level=0)
        seen = await until(port, ResponseDone)
        started = next(said for said in seen if isinstance(said, SpeechStarted))
        assert started.at_ms == 20 * 32 - 300
        assert here.engines["hear"].connector is here.connector


async def test_closing_the_host_ends_sessions_and_admits_no_more() -> None:
    async with world() as here, here.host.open() as port:
        here.host.close()
        closed = (await until(port, Closed))[-1]
        assert isinstance(closed, Closed)
        assert closed.reason == "shutdown"
        with pytest.raises(AdmissionRefused):
            async with here.host.open():
                pass


# Connections that come and go ------------------------------------------------------------------


RESUMABLE = Terms(resumable=True, wire="the formats that were agreed")


async def drain(port: LeasedPort, kind: type[Notice | Audio]) -> list[Entry]:
    """Everything up to the first of `kind`, with its numbers."""
    seen: list[Entry] = []
    async with asyncio.timeout(5):
        while (entry := await port.next()) is not None:
            seen.append(entry)
            if isinstance(entry.told, kind):
                return seen
    raise AssertionError(f"the session ended without {kind.__name__}: {seen}")


async def test_a_conversation_goes_on_where_it_was_cut() -> None:
    async with world(code2wav=voices(10, 2400)) as here:
        async with here.host.open(RESUMABLE) as port:
            await port.send(typed("Go on."))
            await port.send(CreateResponse())
            seen = await drain(port, Audio)
        assert len(here.host.admission) == 1, "it waits"
        async with here.host.resume(port.session_id, token=port.token, seen=seen[-1].sequence) as again:
            assert again.wire == "the formats that were agreed"
            assert again.generation == 1
            assert again.token not in ("", port.token)
            rest = await drain(again, ResponseDone)
            numbers = [entry.sequence for entry in (*seen, *rest)]
            assert numbers == list(range(1, len(numbers) + 1))
            assert sum(len(entry.told.pcm) for entry in (*seen, *rest) if isinstance(entry.told, Audio)) == 20 * 2400
            done = rest[-1].told
            assert isinstance(done, ResponseDone)
            assert done.response.status == "completed"
            await again.send(Close(reason="client"))
            await drain(again, Closed)


async def test_what_was_lost_on_the_way_comes_again() -> None:
    async with world(code2wav=voices(1, 240)) as here:
        async with here.host.open(RESUMABLE) as port:
            await port.send(typed("Well?"))
            await port.send(CreateResponse())
            seen = await drain(port, ResponseDone)
        async with here.host.resume(port.session_id, token=port.token, seen=3) as again:
            repeated = await drain(again, ResponseDone)
            assert [entry.told for entry in repeated] == [entry.told for entry in seen[3:]]
            assert all(entry.again for entry in repeated)
            await again.send(Close(reason="client"))


async def test_nobody_comes_in_time() -> None:
    async with world(grace_s=0.05) as here:
        async with here.host.open(RESUMABLE) as port:
            await drain(port, Opened)
        async with asyncio.timeout(5):
            while len(here.host.admission):  # noqa: ASYNC110 - nobody is told any more
                await asyncio.sleep(0.01)
        here.assert_nothing_left()
        with pytest.raises(ClientError, match="over"):
            await here.host.resume(port.session_id, token=port.token, seen=0).__aenter__()


async def test_a_second_connection_takes_over_and_the_first_is_told() -> None:
    async with world() as here, here.host.open(RESUMABLE) as first:
        await drain(first, Opened)
        waiting = asyncio.create_task(first.next())
        await asyncio.sleep(0)
        async with here.host.resume(first.session_id, token=first.token, seen=1) as second:
            replaced = await waiting
            assert replaced is not None
            assert isinstance(replaced.told, Closed)
            assert replaced.told.reason == "replaced"
            assert await first.next() is None
            assert not await first.send(typed("I am still here!"))
            await second.send(typed("So am I."))
            assert isinstance((await drain(second, ItemDone))[-1].told, ItemDone)
            await second.send(Close(reason="client"))


@pytest.mark.parametrize("reason", ["forged", "future", "unknown"])
async def test_bad_resumes_are_refused_and_harm_nothing(reason: str) -> None:
    async with world() as here, here.host.open(RESUMABLE) as port:
        await drain(port, Opened)
        session_id = "sess_none" if reason == "unknown" else port.session_id
        token = "forged" if reason == "forged" else port.token
        seen = 99 if reason == "future" else 1
        with pytest.raises(ClientError) as caught:
            await here.host.resume(session_id, token=token, seen=seen).__aenter__()
        codes = {"forged": "resume_token_invalid", "future": "sequence_unknown", "unknown": "session_closed"}
        assert caught.value.code == codes[reason]
        await port.send(typed("Still there?"))
        await drain(port, ItemDone)
        await port.send(Close(reason="client"))


async def test_who_missed_too_much_is_told_everything(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(runner, "KEPT", 4)
    async with world(code2wav=voices(1, 240)) as here:
        async with here.host.open(RESUMABLE) as port:
            await port.send(typed("Well?"))
            await port.send(CreateResponse())
            seen = await drain(port, ResponseDone)
        async with here.host.resume(port.session_id, token=port.token, seen=1) as again:
            assert again.resynced
            first = (await drain(again, Snapshot))[0]
            assert first.sequence == len(seen) + 1
            assert isinstance(first.told, Snapshot)
            assert [item.text for item in first.told.items] == ["Well?", "It is late."]
            await again.send(Close(reason="client"))


async def test_what_found_no_room_while_nobody_listened_is_a_gap(monkeypatch: pytest.MonkeyPatch) -> None:
    """Also where an interruption has made room again before anybody comes."""
    monkeypatch.setattr(runner, "OUTBOX", 8)
    async with world() as here:
        async with here.host.open(RESUMABLE) as port:
            (opened,) = await drain(port, Opened)
        held = here.host._sessions[port.session_id].runner
        fence = Fence(port.session_id, 0, MAIN, 1)
        sound = Audio(fence=fence, response_id="resp", item_id="item", pcm=np.zeros(240, np.int16))
        for _ in range(8):
            held._put(sound)
        held._put(AudioCleared())
        held._outbox.retire(fence)
        async with here.host.resume(port.session_id, token=port.token, seen=opened.sequence) as again:
            assert again.resynced
            assert isinstance((await drain(again, Snapshot))[0].told, Snapshot)
            await again.send(Close(reason="client"))


async def test_a_server_that_stops_does_not_wait_for_lost_clients() -> None:
    async with world(grace_s=3600) as here:
        async with here.host.open(RESUMABLE) as port:
            await drain(port, Opened)
        here.host.close()


# The queue and the lease ----------------------------------------------------------------------


async def test_a_session_that_waits_for_its_client_keeps_its_place() -> None:
    async with world(capacity=1, queue_length=1, grace_s=0.3) as here:
        async with here.host.open(RESUMABLE) as port:
            await drain(port, Opened)
            assert here.host.detached == frozenset()
        assert here.host.detached == {port.session_id}
        async with here.host.open() as other:
            assert await other.receive() == Queued(position=1, eta_s=None)
            async with here.host.resume(port.session_id, token=port.token, seen=1) as again:
                await again.send(typed("Here again."))
                await drain(again, ItemDone)
                assert here.host.admission.waiting == 1
            assert isinstance((await until(other, Opened))[-1], Opened)
            assert here.host.detached == frozenset()
        assert here.host.counters["sessions_resumed"] == 1


async def test_who_waits_has_nothing_to_resume() -> None:
    async with world(capacity=1, queue_length=1) as here, here.host.open() as first:
        await until(first, Opened)
        async with here.host.open(RESUMABLE) as port:
            assert isinstance(await port.receive(), Queued)
            with pytest.raises(ClientError) as caught:
                await here.host.resume(port.session_id, token=port.token, seen=0).__aenter__()
            assert caught.value.code == "session_closed"
        assert here.host.admission.waiting == 0
        assert here.host.detached == frozenset()


async def test_who_has_waited_gets_a_session_that_can_be_resumed() -> None:
    async with world(capacity=1, queue_length=1) as here:
        first = contextlib.AsyncExitStack()
        await first.enter_async_context(here.host.open())
        async with here.host.open(RESUMABLE) as port:
            entry = await port.next()
            assert entry is not None
            assert (type(entry.told), entry.sequence) == (Queued, 0)
            await first.aclose()
            (opened,) = await drain(port, Opened)
            assert opened.sequence == 1, "what was said of the queue does not count"
        async with here.host.resume(port.session_id, token=port.token, seen=1) as again:
            assert not again.resynced
            await again.send(Close(reason="client"))


async def test_a_session_that_nobody_was_told_of_waits_for_nobody() -> None:
    async with world(grace_s=3600) as here:
        async with here.host.open(RESUMABLE):
            await asyncio.sleep(0.01)
        assert len(here.host.admission) == 0


async def test_engines_that_do_not_let_go_bring_down_nobody_else() -> None:
    asked: list[str] = []

    def release(session_id: str) -> None:
        asked.append(session_id)
        if len(asked) == 1:
            raise OSError("not now")

    async with world(on_release=release) as here, here.host.open(RESUMABLE) as other:
        await drain(other, Opened)
        async with here.host.open(RESUMABLE) as port:
            await drain(port, Opened)
            await port.send(Close(reason="client"))
            await drain(port, Closed)
        async with here.host.resume(other.session_id, token=other.token, seen=1) as again:
            await again.send(typed("Still there?"))
            await drain(again, ItemDone)
            async with asyncio.timeout(5):
                while len(here.host.admission) > 1:  # noqa: ASYNC110 - a timer of the lobby's own
                    await asyncio.sleep(0.01)
            assert asked == [port.session_id] * 2
            await again.send(Close(reason="client"))
            await drain(again, Closed)


async def test_what_cannot_begin_ends_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    async with world() as here, here.host.open() as other:
        await until(other, Opened)
        monkeypatch.setattr(here.host, "_runner", lambda *_: 1 / 0)
        async with here.host.open(RESUMABLE) as port:
            closed = (await until(port, Closed))[-1]
            assert isinstance(closed, Closed)
            assert closed.reason == "error"
            assert not await port.send(ClearAudio())
        assert here.host.counters["session_failures"] == 1
        await other.send(typed("Still there?"))
        await until(other, ItemDone)


async def test_a_session_does_not_begin_for_somebody_who_has_gone() -> None:
    async with world() as here:
        async with asyncio.timeout(1), here.host.open():
            pass  # It is admitted, and its task has not run yet.
        assert len(here.host.admission) == 0


async def test_who_is_admitted_in_the_moment_when_the_host_closes_is_told_at_once() -> None:
    async with world() as here, asyncio.timeout(5), here.host.open() as port:
        here.host.close()  # It is admitted, and its task has not run yet.
        closed = (await until(port, Closed))[-1]
        assert isinstance(closed, Closed)
        assert closed.reason == "shutdown"


# When something else of the server fails -------------------------------------------------------


async def test_who_has_just_come_in_when_the_host_is_cancelled_is_let_go() -> None:
    """The session's task is cancelled before its first step, and so never comes to its own end."""
    async with world() as here, asyncio.timeout(5):
        running = next(task for task in asyncio.all_tasks() if "Host.run" in repr(task))
        running.cancel()
        async with here.host.open(RESUMABLE) as port:
            assert await port.next() is None
        here.assert_nothing_left()


async def test_nobody_is_let_in_once_the_host_is_cancelled() -> None:
    async with world() as here, here.host.open() as port:
        await until(port, Opened)
        running = next(task for task in asyncio.all_tasks() if "Host.run" in repr(task))
        running.cancel()
        closed = (await until(port, Closed))[-1]
        assert isinstance(closed, Closed)
        assert closed.reason == "shutdown"
        with pytest.raises(AdmissionRefused, match="shutting down"):
            await here.host.open().__aenter__()


async def test_the_books_are_right_at_the_end_of_a_session_that_is_cancelled() -> None:
    """In that moment it lets go of the answer under way."""
    async with world(think=ignores) as here:
        found: list[list[str]] = []

        def measured(session_id: str) -> dict[str, float]:
            found.append(here.host.states.check_integrity())
            return {}

        here.host._compute = measured
        async with here.host.open() as port:
            await port.send(CreateResponse())
            await until(port, ResponseCreated)
            await port.send(typed("Still there?"))
            await until(port, ItemDone)
            next(task for task in asyncio.all_tasks() if "Host.run" in repr(task)).cancel()
        assert found == [[]]
