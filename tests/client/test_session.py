"""The SDK against real sessions on a real socket: cut, resumed, replaced, refused."""

from __future__ import annotations

import asyncio
import statistics
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import numpy as np
import pytest

from duplex.client.backlog import Backlog, Sent
from duplex.client.backoff import Backoff
from duplex.client.handshake import session_url
from duplex.client.inbox import Event, Speech
from duplex.client.session import Session, connect
from duplex.errors import TalkError
from duplex.protocol.native import server
from duplex.protocol.native.client import Respond
from duplex.protocol.native.settings import SettingsPatch
from tests.session.engines import voices
from tests.session.world import WINDOW, World, world
from tests.transport.fakes import Settings, app, running

AT_ONCE = Backoff(first_s=0.01)


@asynccontextmanager
async def served(*, settings: Settings | None = None, **how: Any) -> AsyncIterator[tuple[str, World]]:
    async with world(**how) as here, running(app(here.host, settings=settings)) as at:
        yield f"http://{at}", here
        await here.over()


async def until(session: Session, wanted: type | Callable[[Event], bool]) -> list[Event]:
    """Every event up to the first that is wanted."""
    seen: list[Event] = []
    async with asyncio.timeout(10):
        async for event in session:
            seen.append(event)
            if isinstance(event, wanted) if isinstance(wanted, type) else wanted(event):
                return seen
    raise AssertionError(f"it ended: {seen}")


def cut(session: Session) -> None:
    """As a network does it: without a word."""
    assert session._link._socket is not None
    session._link._socket.transport.abort()


def sound(events: list[Event]) -> list[tuple[int, int]]:
    """Start and end of each piece of audio."""
    return [(event.start, event.end) for event in events if isinstance(event, Speech)]


def whole(pieces: list[tuple[int, int]]) -> int:
    """Length of the audio; nothing of it may be missing, or there twice."""
    assert [start for start, _ in pieces] == [0, *(end for _, end in pieces[:-1])]
    return pieces[-1][1]


# Pure -----------------------------------------------------------------------------------------


def test_what_is_confirmed_is_not_kept_and_audio_goes_first() -> None:
    backlog = Backlog(max_bytes=30)
    for audio in (False, True, True, False):
        backlog.keep(Sent(sequence=backlog.number(), message=bytes(10), audio=audio))
    assert [sent.sequence for sent in backlog.unconfirmed()] == [1, 3, 4]
    assert backlog.lost == 1
    backlog.confirm(3)
    assert [sent.sequence for sent in backlog.unconfirmed()] == [4]
    assert backlog.number() == 5


def test_a_backlog_of_commands_alone_is_kept_whole() -> None:
    backlog = Backlog(max_bytes=10)
    for _ in range(3):
        backlog.keep(Sent(sequence=backlog.number(), message=bytes(10), audio=False))
    assert (len(backlog), backlog.lost) == (3, 0)


def test_pauses_grow_to_a_limit() -> None:
    backoff = Backoff(first_s=1, factor=2, most_s=5)
    assert [backoff.pause_s(attempt, 1.0) for attempt in range(5)] == [0, 1, 2, 4, 5]
    assert backoff.pause_s(1, 0.0) == 0.5


@pytest.mark.parametrize(
    ("url", "complete"),
    [
        ("http://h:1", "ws://h:1/v1/duplex"),
        ("https://h/", "wss://h/v1/duplex"),
        ("ws://h/other?a=b", "ws://h/other?a=b"),
    ],
)
def test_an_address_is_completed(url: str, complete: str) -> None:
    assert session_url(url) == complete


@pytest.mark.parametrize("url", ["h:1", "ftp://h", "", "ws://"])
def test_what_is_no_address_is_refused(url: str) -> None:
    with pytest.raises(TalkError, match="give one like"):
        session_url(url)


# Over sockets ---------------------------------------------------------------------------------


@pytest.mark.anyio
async def test_a_written_question_is_answered() -> None:
    async with served(code2wav=voices(1, 2400)) as (url, _here), connect(url) as session:
        await session.update(SettingsPatch(instructions="Be brief."))
        await session.add("What time is it?")
        await session.respond(Respond(metadata={"turn": "1"}))
        seen = await until(session, server.ResponseDone)
        assert isinstance(seen[0], server.Opened)
        assert whole(sound(seen)) == 2 * 2400
        done = seen[-1]
        assert isinstance(done, server.ResponseDone)
        assert done.response.metadata == {"turn": "1"}
        names = {(event.response_id, event.item_id) for event in seen if isinstance(event, Speech)}
        assert done.response.item is not None
        assert names == {(done.response.response_id, done.response.item.item_id)}


@pytest.mark.anyio
async def test_a_session_closed_on_purpose_ends_without_a_word_of_blame() -> None:
    async with served() as (url, here):
        async with connect(url) as session:
            await session.close()
            seen = [event async for event in session]
            assert isinstance(seen[-1], server.Closed)
        assert len(here.host.admission) == 0


@pytest.mark.anyio
async def test_a_session_that_another_has_taken_over_says_so() -> None:
    async with served() as (url, _here), connect(url) as first:
        await until(first, server.Opened)
        async with connect(url) as second:
            mine, theirs = second._link, first._link
            other = mine._opened
            mine._opened, mine._token = theirs._opened, theirs._token
            cut(second)
            with pytest.raises(TalkError, match="replaced"):
                await until(first, lambda _event: False)
            mine._opened = other


@pytest.mark.anyio
async def test_a_server_that_refuses_is_quoted() -> None:
    async with served(settings=Settings(api_key="k")) as (url, _here):
        with pytest.raises(TalkError, match="give its key"):
            await connect(url).__aenter__()
        async with connect(url, api_key="k") as session:
            await until(session, server.Opened)


@pytest.mark.anyio
async def test_a_full_server_is_quoted() -> None:
    async with served(capacity=1) as (url, _here), connect(url) as session:
        await until(session, server.Opened)
        with pytest.raises(TalkError, match="All 1 sessions"):
            await connect(url).__aenter__()


@pytest.mark.anyio
async def test_who_comes_back_too_late_is_told() -> None:
    async with served(grace_s=0.05) as (url, here), connect(url, backoff=Backoff(first_s=0.1)) as session:
        await until(session, server.Opened)
        link = session._link
        link._backoff = Backoff(first_s=0.3, most_s=0.3)
        resume = link._resume

        async def first_not() -> Any:
            link._resume = resume  # type: ignore[method-assign]
            raise TalkError("the network is down")

        link._resume = first_not  # type: ignore[method-assign]
        cut(session)
        with pytest.raises(TalkError, match="the session with it"):
            await until(session, lambda _event: False)
        with pytest.raises(TalkError):
            await session.add("Hello?")
        assert len(here.host.admission) == 0


@pytest.mark.anyio
async def test_a_session_that_is_not_to_be_resumed_is_lost_with_its_connection() -> None:
    async with served() as (url, _here), connect(url, resumable=False) as session:
        await until(session, server.Opened)
        cut(session)
        with pytest.raises(TalkError, match="not opened to be resumed"):
            await until(session, lambda _event: False)


@pytest.mark.live
@pytest.mark.anyio
async def test_an_answer_that_is_cut_many_times_is_heard_whole() -> None:
    """Also a bar: a resume takes 50 ms at most, on loopback."""
    took: list[float] = []
    async with served(code2wav=voices(10, 2400)) as (url, here), connect(url, backoff=AT_ONCE) as session:
        await session.add("What time is it?")
        await session.respond()
        seen: list[Event] = []
        for _ in range(5):
            seen += await until(session, Speech)
            cut(session)
            seen += await until(session, server.Resumed)
            assert session.resumed_s is not None
            took.append(session.resumed_s)
        seen += await until(session, server.ResponseDone)
        assert whole(sound(seen)) == 20 * 2400
        numbers = [event.sequence for event in seen if getattr(event, "sequence", 0)]
        assert numbers == sorted(set(numbers))
        assert session.connections == 6
        assert here.host.counters["sessions_opened"] == 1
        assert here.host.counters["sessions_resumed"] == 5
    assert statistics.median(took) <= 0.05, took


@pytest.mark.live
@pytest.mark.anyio
async def test_speech_that_is_cut_is_heard_whole_and_answered() -> None:
    async with served(code2wav=voices(1, 240)) as (url, here), connect(url, backoff=AT_ONCE, input_hz=16000) as session:
        for window in range(30):
            await session.send_audio(np.full(WINDOW, 1000 if window < 20 else 0, np.int16))
            if window in (5, 12):
                # Between the two it is resumed, or not yet: what is said meanwhile waits.
                async with asyncio.timeout(5):
                    while not session.connected:  # noqa: ASYNC110 - there is no event of it but in the iteration
                        await asyncio.sleep(0.001)
                cut(session)
        seen = await until(session, server.ResponseDone)
        (stopped,) = [event for event in seen if isinstance(event, server.SpeechStopped)]
        assert stopped.at_ms == 20 * 32, "nothing of the speech was lost, and nothing heard twice"
        assert here.host.counters["sessions_resumed"] >= 1
        await session.add("And now?")
        await session.respond()
        done = (await until(session, server.ResponseDone))[-1]
        assert isinstance(done, server.ResponseDone)
        assert done.response.status == "completed"


@pytest.mark.live
@pytest.mark.anyio
async def test_after_an_interruption_nothing_of_the_old_answer_comes_even_through_a_resume() -> None:
    async with served(code2wav=voices(20, 2400)) as (url, _here), connect(url, backoff=AT_ONCE) as session:
        await session.add("Go on.")
        await session.respond()
        seen = await until(session, Speech)
        cut(session)
        await session.cancel()
        seen += await until(session, server.Interrupted)
        silenced = seen[-1]
        assert isinstance(silenced, server.Interrupted)
        cut(session)
        await session.add("Well?")
        await session.respond()
        after = await until(session, server.ResponseDone)
        after += await until(session, server.ResponseDone)
        assert all(event.epoch > silenced.epoch for event in after if isinstance(event, Speech))


@pytest.mark.live
@pytest.mark.anyio
async def test_acknowledged_playback_decides_what_was_heard() -> None:
    async with (
        served(code2wav=voices(10, 2400)) as (url, _here),
        connect(url, playback="acknowledged", backoff=AT_ONCE) as session,
    ):
        await session.add("What time is it?")
        await session.respond()
        piece = (await until(session, Speech))[-1]
        assert isinstance(piece, Speech)
        await session.played(piece.item_id, 1200)
        cut(session)
        await until(session, server.Resumed)
        await session.cancel()
        cancelled = (await until(session, server.Interrupted))[-1]
        assert isinstance(cancelled, server.Interrupted)
        assert cancelled.samples == 1200, "no clock of the server's counts"


@pytest.mark.anyio
async def test_who_has_to_wait_is_let_in() -> None:
    async with served(capacity=1, queue_length=1) as (url, here):

        async def second() -> int:
            async with connect(url) as session:
                assert session.queued is None
                await session.add("Well?")
                await session.respond()
                await until(session, server.ResponseDone)
                return session.connections

        async with asyncio.TaskGroup() as tasks, connect(url) as first:
            await first.add("Me first.")
            waiting = tasks.create_task(second())
            async with asyncio.timeout(5):
                while not here.host.admission.waiting:  # noqa: ASYNC110 - nobody else is told
                    await asyncio.sleep(0.005)
            assert not waiting.done()
        assert waiting.result() == 1


@pytest.mark.anyio
async def test_a_queue_that_takes_too_long_is_an_error_in_words() -> None:
    async with served(capacity=1, queue_length=1, queue_wait_s=0.05) as (url, _here), connect(url):
        with pytest.raises(TalkError, match="No place became free"):
            async with connect(url):
                raise AssertionError("it was let in")
