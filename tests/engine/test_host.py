"""Engines in real processes: what a request sees, and what becomes of it when its process does."""

from __future__ import annotations

import ast
import asyncio
import os
import select
import signal
import socket
import subprocess
import sys
import threading
import time
from itertools import pairwise
from pathlib import Path

import pytest

from duplex.connector.payload import Text
from duplex.engine.base import StageEvent, StageFailed, StageOutput, StageRequest
from duplex.engine.wire import MAX_BYTES, Ready, encode
from duplex.errors import EngineDied, StageError, StateError
from duplex.session.fence import MAIN, Fence
from tests.engine.hosting import HERE, Bench, bench, exists, spec

pytestmark = pytest.mark.anyio

UVLOOP = ("asyncio", {"use_uvloop": True})
ROOT = Path(__file__).parent.parent.parent


@pytest.fixture
def anyio_backend() -> tuple[str, dict[str, bool]]:
    return UVLOOP


def wait_gone(pid: int, timeout_s: float = 10) -> bool:
    """Whether a process that need not be ours ends in time."""
    try:
        fd = os.pidfd_open(pid)
    except ProcessLookupError:
        return True
    try:
        poll = select.poll()
        poll.register(fd, select.POLLIN)
        return bool(poll.poll(timeout_s * 1000))
    finally:
        os.close(fd)


@pytest.mark.parametrize("anyio_backend", [UVLOOP, "asyncio"])
async def test_a_request_is_answered_and_the_process_ends_in_order() -> None:
    async with bench() as made:
        assert await made.answer("one", "two") == ["ONE", "TWO", "."]
        assert made.engine.active == 0
        pid = made.pid
        await made.engine.stop()
        assert not exists(pid)
        assert not made.host.running
        assert made.deaths == []


@pytest.mark.parametrize("anyio_backend", [UVLOOP, "asyncio"])
async def test_a_killed_process_fails_each_of_its_requests_once_and_at_once() -> None:
    async with bench() as made:
        told: list[str] = []
        made.engine.watch(told.append)
        over = await made.answer("before")
        fences = [made.ask("spin", session=name) for name in "abc"]
        await made.until(lambda: all(any(e.fence == fence for e in made.events) for fence in fences))
        aborted = fences.pop()
        made.engine.abort(aborted)
        os.kill(made.pid, signal.SIGKILL)
        killed_s = time.monotonic()
        await made.until(lambda: all(made.is_over(fence) for fence in fences))
        assert time.monotonic() - killed_s < 5, "and not when it has been silent for long enough"
        failures = [event for event in made.events if isinstance(event, StageFailed)]
        assert [event.fence for event in failures] == fences
        assert all(isinstance(event.error, EngineDied) for event in failures)
        assert failures[0].error.message.startswith("the engine process of stage upper ended (signal 9); ")
        assert told == ["the engine process of stage upper ended (signal 9)"]
        assert made.deaths == ["the engine process upper ended (signal 9)"]
        assert over == ["BEFORE", "."]

        late = made.connector.put(fences[0], Text(text="late", start=0))
        made.engine.update(fences[0], late, final=True)
        assert made.connector.taken[-1] == "late"
        refused = made.ask("now")
        assert made.said(refused)[0].startswith("! upper: its process is gone")

        await made.engine.restart()
        await made.engine.restart()
        assert await made.answer("again") == ["AGAIN", "."]
        assert not made.is_over(aborted)


@pytest.mark.parametrize(("word", "how"), [("abort", "signal 6"), ("exit 0", "exit code 0")])
async def test_whatever_way_it_ends_it_is_told(word: str, how: str, caplog: pytest.LogCaptureFixture) -> None:
    async with bench() as made:
        (last,) = await made.answer(word)
        assert f"ended ({how})" in last
        await made.host.stop()
        if word == "abort":
            assert "upper: Fatal Python error: Aborted" in caplog.text


async def test_a_process_that_stands_still_is_killed() -> None:
    async with bench(silence_s=0.5) as made:
        pid = made.pid
        os.kill(pid, signal.SIGSTOP)
        (last,) = await made.answer("anything")
        assert "has said nothing for 0.5 s and was killed" in last
        await made.engine.restart()
        assert not exists(pid)
        assert await made.answer("again") == ["AGAIN", "."]


async def test_a_process_whose_loop_is_blocked_is_killed() -> None:
    async with bench(silence_s=0.5, options={"kind": "blocking"}) as made:
        (last,) = await made.answer("anything")
        assert "has said nothing" in last


async def test_a_server_that_stood_still_itself_kills_nobody() -> None:
    async with bench(silence_s=0.6, beat_s=0.05) as made:
        time.sleep(0.8)  # noqa: ASYNC251  the point of it
        assert await made.answer("still there") == ["STILL THERE", "."]
        os.kill(made.pid, signal.SIGSTOP)
        time.sleep(0.8)  # noqa: ASYNC251
        os.kill(made.pid, signal.SIGCONT)
        assert await made.answer("paused together") == ["PAUSED TOGETHER", "."]
        assert made.deaths == []


async def test_a_process_that_does_not_read_is_killed_and_nobody_waits_for_it() -> None:
    async with bench(most_waiting=50, options={"kind": "blocking"}) as made:
        fence = made.ask(final=False)
        began_s, count = time.monotonic(), 0
        while not made.is_over(fence):
            for _ in range(100):
                made.engine.update(fence, None, final=False)
            count += 100
            await asyncio.sleep(0)
        assert "does not read: 50 messages wait for it" in made.said(fence)[0]
        assert count < 10_000
        assert time.monotonic() - began_s < 5


@pytest.mark.parametrize(
    ("data", "times", "sentence"),
    [
        (b"x", MAX_BYTES + 1, "a message has 65537 bytes; 65536 are the most"),
        (encode(Ready(stages=(), arena_bytes=1)), 1, "said Ready out of turn"),
    ],
)
async def test_a_process_that_talks_nonsense_is_killed(data: bytes, times: int, sentence: str) -> None:
    async with bench("garbage", options={"bytes": data, "times": times}) as made:
        (last,) = await made.answer("anything")
        assert sentence in last
        assert made.host.deaths == 1


async def test_an_engine_that_breaks_its_process_fails_its_requests() -> None:
    async with bench(options={"kind": "broken"}) as made:
        (last,) = await made.answer("anything")
        assert "ended (exit code 1)" in last


@pytest.mark.parametrize(
    ("engines", "options", "sentence"),
    [
        ("upper", {"fail": "the model is not there"}, "cannot load its engines: upper: the model is not there"),
        ("upper", {"crash": True}, "ended (signal 6)"),
        ("upper", {"stages": ["lower"]}, "serves lower and is to serve upper"),
        ("upper", {"what": object()}, "cannot be told what to load"),
        ("nobody", {}, f"`{HERE}:nobody` names no function; write it as module:function"),
    ],
)
async def test_what_cannot_be_loaded_says_why(engines: str, options: dict[str, object], sentence: str) -> None:
    async with bench(engines, start=False, options=options) as made:
        with pytest.raises(StageError) as caught:
            await made.engine.start(made.sink)
        assert sentence in str(caught.value)
        assert made.host.pid is None or not exists(made.pid)
        assert made.deaths == []
        assert not made.engine.started


async def begun(made: Bench) -> None:
    """There is a process; nobody is told so before it is ready."""
    while made.host.pid is None:  # noqa: ASYNC110
        await asyncio.sleep(0)


async def stop_once_begun(made: Bench) -> None:
    await begun(made)
    await made.host.stop()


async def test_loading_may_not_take_for_ever_and_can_be_given_up() -> None:
    async with bench(start=False, options={"hang": True}, load_s=0.5) as made:
        with pytest.raises(StageError, match=r"was not loaded within 0\.5 s"):
            await made.engine.start(made.sink)
        assert not exists(made.pid)
    async with bench(start=False, options={"hang": True}) as made:
        async with asyncio.TaskGroup() as tasks:
            starting = tasks.create_task(made.engine.start(made.sink))
            await begun(made)
            starting.cancel()
        assert not exists(made.pid)
    async with bench(start=False, options={"hang": True}) as made:
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(stop_once_begun(made))
            with pytest.raises(StageError, match="was stopped"):
                await made.engine.start(made.sink)
        assert not exists(made.pid)


async def test_engines_stop_in_order_before_the_process_does(tmp_path: Path) -> None:
    mark = tmp_path / "mark"
    options = {"kind": "marking", "mark": str(mark), "stages": ["upper", "other"]}
    made = Bench(spec(options=options), stages=("upper", "other"))
    for engine in made.host.engines.values():
        await engine.start(made.sink)
    fence = made.ask("spin")
    other = made.host.engines["other"]
    await made.engine.stop()
    assert made.host.running, "the other one still needs it"
    words = made.ask("hello", engine=other)
    await made.until(lambda: made.is_over(words))
    assert made.said(words) == ["HELLO", "."]
    lost = made.ask("spin", engine=other)
    await made.host.stop()
    assert mark.read_text() == "stopped\nstopped\n"
    assert not made.is_over(fence), "it was aborted"
    assert "was stopped" in made.said(lost)[-1]
    assert made.deaths == []
    made.connector.close()


@pytest.mark.parametrize("deaf", [False, True])
async def test_who_does_not_stop_is_terminated_and_then_killed(deaf: bool, tmp_path: Path) -> None:
    options = {"kind": "marking", "mark": str(tmp_path / "mark"), "pause_s": 60, **({"deaf": True} if deaf else {})}
    async with bench(options=options, grace_s=0.2, term_s=0.2) as made:
        pid = made.pid
        await made.host.stop()
        assert not exists(pid)
        assert not (tmp_path / "mark").exists()


async def test_after_an_abort_nothing_is_said_and_what_comes_is_given_back() -> None:
    async with bench() as made:
        fence = made.ask("spin")
        await made.until(lambda: len(made.events) > 3)
        os.kill(made.pid, signal.SIGSTOP)  # What it has said already is on its way.
        made.engine.abort(fence)
        said = len(made.events)
        made.engine.abort(fence)
        os.kill(made.pid, signal.SIGCONT)
        assert await made.answer("next") == ["NEXT", "."]
        assert all(event.fence != fence for event in made.events[said:])
        outputs = sum(isinstance(event, StageOutput) for event in made.events[:said])
        assert outputs == said
        assert len(made.connector.taken) > 0


async def test_the_connector_of_the_process_hears_what_is_over() -> None:
    async with bench() as made:
        await made.answer("hello", session="gone")
        made.host.retire(Fence("gone", 0, MAIN, 1))
        made.host.forget("gone")
        (told, _) = await made.answer("connector")
        assert ast.literal_eval(told) == [[0, 1], 1, ["gone"]]


async def test_processes_read_each_other_and_forget_the_dead() -> None:
    async with bench() as made:
        second = Bench(spec(), name="second", beside=made)
        await second.engine.start(second.sink)
        fence = made.ask("from one to the other")
        await made.until(lambda: made.is_over(fence))
        (output,) = [event for event in made.events if isinstance(event, StageOutput)]
        second.engine.submit(StageRequest(fence=fence, stage="upper"))
        second.engine.update(fence, output.handle, final=True)
        await second.until(lambda: second.is_over(fence))
        assert second.said(fence) == ["FROM ONE TO THE OTHER", "."]
        (told, _) = await made.answer("connector")
        assert ast.literal_eval(told)[0] == [0, 1, 2]
        os.kill(second.pid, signal.SIGKILL)
        lost = second.ask("sleep 60")
        await second.until(lambda: second.is_over(lost))
        await second.host.stop()
        (told, _) = await made.answer("connector")
        assert ast.literal_eval(told)[0] == [0, 1]
        assert sorted(made.connector.peers) == [0, 1]


async def test_what_a_session_cost_is_told() -> None:
    async with bench(beat_s=0.05) as made:
        heard, told = asyncio.Event(), made.engine.has_spent

        def has_spent(session_id: str, seconds: float) -> None:
            told(session_id, seconds)
            if seconds >= 0.05:
                heard.set()

        made.engine.has_spent = has_spent  # type: ignore[method-assign]
        await made.answer("work 0.05", session="dear")
        await heard.wait()
        assert made.engine.spent("dear") >= 0.05
        assert made.engine.spent("other") == 0
        made.host.forget("dear")
        assert made.engine.spent("dear") == 0


async def test_cores_threads_signals_and_descriptors_are_set_on_purpose() -> None:
    cpu = min(os.sched_getaffinity(0))
    with socket.socket(socket.AF_INET) as port:
        port.bind(("127.0.0.1", 0))
        port.set_inheritable(True)
        async with bench(cpus=(cpu,), threads=3, environment={"MALLOC_ARENA_MAX": "1"}) as made:
            os.kill(made.pid, signal.SIGINT)
            (told, _) = await made.answer("facts")
            cpus, threads, own_group, ignores, links = ast.literal_eval(told)
            assert (cpus, threads, own_group, ignores) == ([cpu], b"3", True, True)
            sockets = [link for link in links if link.startswith("socket:")]
            assert f"socket:[{os.fstat(port.fileno()).st_ino}]" not in sockets
            assert sum("arena-1" in link for link in links) == 1
            assert sum("arena-0" in link for link in links) == 1


async def test_what_it_prints_is_logged_with_its_name(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO", "duplex.engine.process")
    async with bench() as made:
        await made.answer("print hello there")
        await made.host.stop()
    lines = [(record.levelname, record.getMessage()) for record in caplog.records]
    assert ("INFO", "upper: building") in lines
    assert ("INFO", "upper: hello there") in lines
    assert ("WARNING", "upper: native hello there") in lines


async def test_a_flood_of_lines_holds_nobody_up(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO", "duplex.engine.process")
    async with bench() as made:
        flooding = made.ask("flood 2000", "long 500000", session="loud")
        moments = [time.monotonic()]
        while not made.is_over(flooding):
            await asyncio.sleep(0.005)
            moments.append(time.monotonic())
        assert max(after - before for before, after in pairwise(moments)) < 1
        await made.host.stop()
    lines = [record.getMessage() for record in caplog.records]
    assert sum("xxx" in line for line in lines) < 2000, "of 200,000"
    assert max(map(len, lines)) < 2100
    assert any("more lines)" in line for line in lines)


PARENT = """
import asyncio, sys, uvloop
sys.path.insert(0, {root!r})
from tests.engine.hosting import Bench, spec

async def main():
    made = Bench(spec(options={options!r}, beat_s=60.0))
    await made.engine.start(made.sink)
    made.ask({word!r})
    print(made.pid, flush=True)
    await asyncio.Event().wait()

uvloop.run(main())
"""


@pytest.mark.parametrize(("options", "word"), [({}, "spin"), ({"kind": "blocking"}, "")])
def test_a_process_dies_with_its_parent(options: dict[str, str], word: str) -> None:
    script = PARENT.format(root=str(ROOT), options=options, word=word)
    with subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE, cwd=ROOT) as parent:
        assert parent.stdout is not None
        pid = int(parent.stdout.readline())
        parent.kill()
        assert wait_gone(pid)


def test_an_orphan_from_birth_ends_at_once() -> None:
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    with ours, theirs:
        command = [sys.executable, "-m", "duplex.engine.child", f"--fd={theirs.fileno()}", "--parent=1"]
        run = subprocess.run(command, pass_fds=(theirs.fileno(),), cwd=ROOT, timeout=20, check=False)
        assert run.returncode == 3


async def test_it_must_be_started_and_a_fence_is_new() -> None:
    async with bench(start=False) as made:
        fence = Fence("s", 0, MAIN, 1)
        with pytest.raises(StateError, match="not running"):
            made.engine.submit(StageRequest(fence=fence, stage="upper"))
        with pytest.raises(StateError, match="not running"):
            await made.engine.restart()
        await made.engine.start(made.sink)
        made.engine.submit(StageRequest(fence=fence, stage="upper"))
        with pytest.raises(StateError, match="has a request already"):
            made.engine.submit(StageRequest(fence=fence, stage="upper"))
        long = Fence("s" * MAX_BYTES, 0, MAIN, 1)
        made.engine.submit(StageRequest(fence=long, stage="upper"))
        assert "are the most" in made.said(long)[0]


@pytest.mark.timeout(60)
async def test_twenty_lives_leave_nothing() -> None:
    async with bench() as made:
        await made.answer("once")
        pids, before = [made.pid], holdings()
        for number in range(20):
            fence = made.ask("spin")
            if number % 4:
                os.kill(made.pid, signal.SIGKILL)
                await made.until(lambda fence=fence: made.is_over(fence))  # type: ignore[misc]
                await made.engine.restart()
            else:
                await made.engine.stop()
                await made.engine.start(made.sink)
            pids.append(made.pid)
        assert await made.answer("at last") == ["AT LAST", "."]
        assert holdings() == before
        assert len(set(pids)) == 21
        assert [pid for pid in pids if exists(pid)] == pids[-1:]
        assert made.host.deaths == 15
        assert sorted(made.connector.peers) == [0, 21]
    ends: list[StageEvent] = [event for event in made.events if isinstance(event, StageFailed)]
    assert len(ends) == 15


def holdings() -> tuple[int, int, int]:
    """Descriptors, threads and tasks."""
    return len(os.listdir("/proc/self/fd")), threading.active_count(), len(asyncio.all_tasks())
