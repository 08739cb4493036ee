"""engine/llama: whose slot it is, and one real server that generates, cancels, fails and goes away cleanly."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from duplex.engine.llama import BATCH_TOKENS, Completion, Interrupt, LlamaServer, _Reader
from duplex.engine.slots import SlotTable
from duplex.errors import StageError


def test_threads_that_wait_for_each_other_soon_sleep() -> None:
    """Spinning threads are ten times slower where others want the cores too."""
    shown = subprocess.run(
        [sys.executable, "-c", "import duplex.engine.llama"],
        env={**os.environ, "OMP_DISPLAY_ENV": "verbose"},
        capture_output=True,
        text=True,
        check=True,
    )
    assert "GOMP_SPINCOUNT = '1000'" in shown.stderr


def test_a_key_keeps_its_slot() -> None:
    table = SlotTable(slots=2)
    first = table.acquire("a")
    assert first is not None
    table.give_back(first)
    other = table.acquire("b")
    assert other not in (None, first)
    assert table.acquire("a") == first


def test_two_requests_of_one_key_never_run_at_once() -> None:
    table = SlotTable(slots=2)
    slot = table.acquire("a")
    assert table.acquire("a") is None
    assert slot is not None
    table.give_back(slot)
    assert table.acquire("a") == slot


def test_a_new_key_takes_the_slot_that_was_unused_for_longest() -> None:
    table = SlotTable(slots=2)
    slots = {}
    for key in ("a", "b", "a"):
        slot = table.acquire(key)
        assert slot is not None
        table.give_back(slot)
        slots[key] = slot
    assert table.acquire("c") == slots["b"]


def test_a_released_slot_goes_before_another_keys() -> None:
    table = SlotTable(slots=2)
    slots = {}
    for key in ("a", "b"):
        slot = table.acquire(key)
        assert slot is not None
        table.give_back(slot)
        slots[key] = slot
    table.release("b")
    assert table.acquire("c") == slots["b"]


@given(st.lists(st.tuples(st.sampled_from(["run", "end", "release"]), st.sampled_from("abcde")), max_size=60))
def test_slots_are_never_shared(steps: list[tuple[str, str]]) -> None:
    table = SlotTable(slots=3)
    running: dict[int, str] = {}
    for step, key in steps:
        if step == "run":
            slot = table.acquire(key)
            if slot is None:
                assert key in running.values() or len(running) == 3
            else:
                assert slot not in running
                assert key not in running.values() or table.owner(slot) == key
                running[slot] = key
        elif step == "release":
            table.release(key)
        elif running:
            slot = next(iter(running))
            del running[slot]
            table.give_back(slot)
        assert table.busy == len(running)
        owned = [owner for owner in map(table.owner, range(3)) if owner is not None]
        assert len(owned) == len(set(owned))


def _token(text: str) -> dict[str, object]:
    return {"choices": [{"text": text, "finish_reason": None}]}


def _reader(on_text: Callable[[str], bool] = lambda piece: True) -> _Reader:
    return _Reader(on_text=on_text, over=lambda: False)


def test_an_engines_refusal_is_raised() -> None:
    reader = _reader()
    assert reader({"error": {"code": 400, "message": "too long"}})
    with pytest.raises(StageError, match="too long"):
        reader.result()


def test_what_the_callback_raises_ends_the_stream_and_comes_out() -> None:
    def on_text(piece: str) -> bool:
        raise ValueError(piece)

    reader = _reader(on_text)
    assert reader(_token("boom"))
    with pytest.raises(ValueError, match="boom"):
        reader.result()


def test_a_stream_that_just_ends_is_an_error() -> None:
    reader = _reader()
    assert not reader(_token("a"))
    with pytest.raises(StageError, match="without an answer"):
        reader.result()


def test_a_missing_file_is_named() -> None:
    with pytest.raises(StageError, match=r"no model file absent\.gguf"):
        LlamaServer(model=Path("absent.gguf"), slots=1, context_tokens=256, threads=1, batch_threads=1)


class Run:
    """One generation on a thread of its own."""

    def __init__(
        self,
        server: LlamaServer,
        prompt: str,
        *,
        key: str = "a",
        max_tokens: int = 16,
        interrupt: Interrupt | None = None,
    ) -> None:
        self.pieces: list[str] = []
        self.first = threading.Event()
        self.interrupt = interrupt or server.interrupt()
        self.completion: Completion | None = None
        self.error: Exception | None = None
        self._generate = lambda: server.generate(
            prompt,
            cache_key=key,
            max_tokens=max_tokens,
            temperature=0.0,
            stop=(),
            on_text=self._on_text,
            interrupt=self.interrupt,
        )
        self.thread = threading.Thread(target=self._run)
        self.thread.start()

    def _on_text(self, piece: str) -> bool:
        self.pieces.append(piece)
        self.first.set()
        return True

    def _run(self) -> None:
        try:
            self.completion = self._generate()
        except StageError as error:
            self.error = error

    def done(self) -> Completion:
        self.thread.join(30)
        assert not self.thread.is_alive()
        assert self.completion is not None, self.error
        return self.completion


LONG = "Tell me about the sea and the ships. " * 30


@pytest.fixture(scope="module")
def server(model_path: Callable[[str], Path]) -> Iterator[LlamaServer]:
    server = LlamaServer(model=model_path("smollm2/q4_1.gguf"), slots=2, context_tokens=512, threads=1, batch_threads=1)
    yield server
    server.close()


@pytest.mark.models
class TestServer:
    def test_it_generates_and_counts(self, server: LlamaServer) -> None:
        run = Run(server, "The capital of France is")
        done = run.done()
        assert "Paris" in "".join(run.pieces)
        assert (done.reason, done.output_tokens, done.input_tokens) == ("length", 16, 5)

    def test_each_conversation_is_charged_its_part(self, server: LlamaServer) -> None:
        began = time.monotonic()
        for run in [Run(server, "Once upon a time", key=key, max_tokens=40) for key in ("x", "y")]:
            run.done()
        took = time.monotonic() - began
        spent = [server.spent(key) for key in ("x", "y")]
        assert min(spent) > 0.2 * took
        assert sum(spent) <= took
        server.release("x")
        server.release("y")
        assert server.spent("x") == 0

    def test_the_prefix_is_cached_per_key(self, server: LlamaServer) -> None:
        story = "Once upon a time there was a very small robot who lived near a lighthouse and liked to read books."
        Run(server, story, key="a").done()
        Run(server, "Counting: one, two, three, four, five, six, seven", key="b").done()
        again = Run(server, story + " One day", key="a").done()
        assert again.cached_tokens >= again.input_tokens - 4

    def test_a_prompt_that_lost_its_middle_is_shifted(self, server: LlamaServer) -> None:
        lost = "This part will be dropped from the prompt, since it has grown old and long. " * 3
        kept = "The rest of the conversation is about gardens, rivers, bridges, lamps and the way home. " * 6
        Run(server, "Head. " + lost + kept, key="a", max_tokens=1).done()
        cut = Run(server, "Head. " + kept, key="a", max_tokens=1).done()
        assert cut.cached_tokens > 0.8 * cut.input_tokens

    def test_an_interrupt_ends_within_a_token(self, server: LlamaServer) -> None:
        run = Run(server, "Count: 1, 2, 3, 4, 5,", max_tokens=400)
        assert run.first.wait(20)
        run.interrupt.set()
        count = len(run.pieces)
        done = run.done()
        assert done.reason == "cancelled"
        assert len(run.pieces) <= count + 2

    def test_an_interrupt_ends_a_prefill(self, server: LlamaServer) -> None:
        assert server.count_tokens(LONG) > 6 * BATCH_TOKENS

        class AfterOneBatch(Interrupt):
            looks = 0

            @property
            def is_set(self) -> bool:
                self.looks += 1
                return self.looks > 3  # at the slot, at the start, after the first batch

        cut = Run(server, "B " + LONG, interrupt=AfterOneBatch(threading.Condition()))
        assert cut.done().reason == "cancelled"
        assert not cut.pieces
        # What is cached shows how far the engine went on: it had one more batch in hand at most.
        again = Run(server, "B " + LONG, max_tokens=1).done()
        assert again.cached_tokens <= 3 * BATCH_TOKENS

    def test_an_interrupt_ends_the_wait_for_a_slot(self, server: LlamaServer) -> None:
        first = Run(server, "Count: 1, 2, 3, 4, 5,", max_tokens=400)
        assert first.first.wait(20)
        second = Run(server, "Hello", max_tokens=400)
        second.interrupt.set()
        assert second.done().output_tokens == 0
        assert first.thread.is_alive()
        first.interrupt.set()
        first.done()

    def test_a_prompt_past_the_context_raises(self, server: LlamaServer) -> None:
        run = Run(server, LONG * 3)
        run.thread.join(20)
        assert "context size" in str(run.error)
        assert Run(server, "It lives:").done().output_tokens == 16

    def test_tokens_are_counted_with_special_ones(self, server: LlamaServer) -> None:
        assert server.count_tokens("<|im_start|>user\nHello there my friend<|im_end|>\n") == 9

    def test_no_port_is_open_and_the_socket_is_private(self, server: LlamaServer) -> None:
        inodes = {
            os.readlink(f"/proc/self/fd/{fd}")[8:-1]
            for fd in os.listdir("/proc/self/fd")
            if os.path.exists(f"/proc/self/fd/{fd}") and os.readlink(f"/proc/self/fd/{fd}").startswith("socket:")
        }
        for table in ("/proc/self/net/tcp", "/proc/self/net/tcp6"):
            lines = Path(table).read_text().splitlines()[1:] if Path(table).exists() else []
            listening = [line for line in lines if line.split()[3] == "0A" and line.split()[9] in inodes]
            assert not listening
        assert server._socket.parent.stat().st_mode & 0o777 == 0o700


@pytest.mark.models
def test_it_says_nothing_keeps_ctrl_c_and_leaves_nothing(model_path: Callable[[str], Path], tmp_path: Path) -> None:
    script = f"""
import os, signal
from pathlib import Path
from duplex.engine.llama import LlamaServer
before = len(os.listdir("/proc/self/task"))
server = LlamaServer(model=Path({str(model_path("smollm2/q4_1.gguf"))!r}), slots=1, context_tokens=256, threads=1,
                     batch_threads=1)
server.generate("Hi", cache_key="a", max_tokens=4, temperature=0.0, stop=(), on_text=lambda piece: True,
                interrupt=server.interrupt())
try:
    os.kill(os.getpid(), signal.SIGINT)
    raise SystemExit("Ctrl-C was lost")
except KeyboardInterrupt:
    pass
server.close()
server.close()
# llama.cpp's log has one sleeping thread a process, which it never ends.
if len(os.listdir("/proc/self/task")) > before + 1:
    raise SystemExit("threads are left")
"""
    environment = {"PYTHONPATH": os.pathsep.join(sys.path), "TMPDIR": str(tmp_path), "PATH": os.defpath}
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, env=environment, timeout=50)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.models
def test_a_broken_file_is_one_sentence(tmp_path: Path) -> None:
    broken = tmp_path / "broken.gguf"
    broken.write_bytes(b"GGUF" + bytes(1000))
    before = signal.getsignal(signal.SIGINT)
    with pytest.raises(StageError, match=r"cannot load broken\.gguf"):
        LlamaServer(model=broken, slots=1, context_tokens=256, threads=1, batch_threads=1)
    assert signal.getsignal(signal.SIGINT) is before
