"""engine/llama: one real server that generates, cancels, fails, evicts, and goes away cleanly."""

from __future__ import annotations

import itertools
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from duplex.engine.completion import Completion, CompletionReader
from duplex.engine.llama import Interrupt, LlamaServer
from duplex.engine.native_server import BATCH_TOKENS
from duplex.errors import StageError
from duplex.session.fence import MAIN, Fence
from duplex.state.ref import StateKey, StateRef


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


def _token(text: str) -> dict[str, object]:
    return {"choices": [{"text": text, "finish_reason": None}]}


def _reader(on_text: Callable[[str], bool] = lambda piece: True) -> CompletionReader:
    return CompletionReader(on_text=on_text, over=lambda: False)


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
        LlamaServer(model=Path("absent.gguf"), owner="think", slots=1, context_tokens=256, threads=1, batch_threads=1)


_epochs = itertools.count(1)


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
        epoch: int | None = None,
    ) -> None:
        self.pieces: list[str] = []
        self.first = threading.Event()
        self.interrupt = interrupt or server.interrupt()
        self.completion: Completion | None = None
        self.error: Exception | None = None
        fence = Fence(key, 0, MAIN, next(_epochs) if epoch is None else epoch)
        self._generate = lambda: server.generate(
            prompt,
            fence=fence,
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
    server = LlamaServer(
        model=model_path("smollm2/q4_1.gguf"), owner="think", slots=2, context_tokens=512, threads=1, batch_threads=1
    )
    yield server
    server.close()


@pytest.mark.models
class TestServer:
    def test_it_generates_and_counts(self, server: LlamaServer) -> None:
        run = Run(server, "The capital of France is", max_tokens=8)
        done = run.done()
        assert "Paris" in "".join(run.pieces)
        assert (done.reason, done.output_tokens, done.input_tokens) == ("length", 8, 5)

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

    def test_who_waits_is_not_overtaken_by_who_has_just_run(self, model_path: Callable[[str], Path]) -> None:
        """A thread of the pool asks again for its next request, at once; another one sleeps until it is woken."""
        server = LlamaServer(
            model=model_path("smollm2/q4_1.gguf"),
            owner="think",
            slots=1,
            context_tokens=256,
            threads=1,
            batch_threads=1,
        )
        order: list[str] = []
        started = threading.Event()

        def ask(key: str) -> None:
            def on_text(piece: str) -> bool:
                order.append(key)
                started.set()
                return True

            server.generate(
                "Count: 1, 2, 3,",
                fence=Fence(key, 0, MAIN, 1),
                max_tokens=1 if started.is_set() else 40,
                temperature=0.0,
                stop=(),
                on_text=on_text,
                interrupt=server.interrupt(),
            )

        def asks_on() -> None:
            for number in range(6):
                ask(f"busy-{number}")

        busy = threading.Thread(target=asks_on)
        busy.start()
        assert started.wait(20)
        ask("patient")
        busy.join(20)
        server.close()
        keys = list(dict.fromkeys(order))
        assert keys[:2] == ["busy-0", "patient"]

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

    def test_a_turn_that_is_not_the_newest_is_cancelled(self, server: LlamaServer) -> None:
        Run(server, "Hello", key="new", epoch=5).done()
        late = Run(server, "Hello", key="new", epoch=4)
        assert (late.done().reason, late.pieces) == ("cancelled", [])
        server.release("new")

    def test_the_ledger_is_what_llama_has(self, server: LlamaServer) -> None:
        for held in server.refs():
            server.release(held.session_id)
        done = Run(server, "The capital of France is", key="x").done()
        (ref,) = server.refs("x")
        assert ref.nbytes == {"host": server.slot_bytes}
        assert 46_000_000 < server.slot_bytes * 2048 // 512 < 48_000_000
        assert (ref.owner, ref.version, ref.length) == ("think", 1, done.input_tokens + done.output_tokens - 1)
        assert server.check_integrity() == []
        running = Run(server, "Count: 1, 2, 3, 4, 5,", key="y", max_tokens=400)
        assert running.first.wait(20)
        assert server.check_integrity() == []
        running.interrupt.set()
        running.done()
        assert server.check_integrity() == []
        slot = server._slots.store.get(StateKey("x", "kv"))
        assert slot is not None
        slot.held = slot._committed = ref.length + 1
        (found,) = server.check_integrity()
        assert "tokens, and" in found
        server.release("x")
        assert server.check_integrity() == []
        assert server.refs("x") == ()

    def test_what_was_interrupted_is_not_counted_as_there(self, server: LlamaServer) -> None:
        first = Run(server, "A list of colours: red, green, blue,", key="i", max_tokens=8).done()
        whole = self._ref(server, "i").length
        assert whole == first.input_tokens + 7
        longer = Run(server, "A list of colours: red, green, blue, and a list of animals: dog,", key="i", max_tokens=99)
        assert longer.first.wait(20)
        longer.interrupt.set()
        done = longer.done()
        ref = self._ref(server, "i")
        assert (ref.version, ref.length) == (1, done.cached_tokens)
        assert ref.length < whole
        server.release("i")

    def _ref(self, server: LlamaServer, key: str) -> StateRef:
        (ref,) = server.refs(key)
        return ref

    def test_three_conversations_on_two_slots(self, server: LlamaServer) -> None:
        """The one that is the cheapest to read again goes, is read again when its turn comes, and answers the same."""
        for held in server.refs():
            server.release(held.session_id)
        before = server.counted()
        names = {"ann": "Ann likes tea. " * 12, "bob": "Bob has a red car. ", "cat": "Cat sings in a choir. " * 8}
        first = {}
        for key, story in names.items():
            run = Run(server, story, key=key, max_tokens=12)
            run.done()
            first[key] = "".join(run.pieces)
        assert {ref.session_id for ref in server.refs()} == {"ann", "cat"}
        again = Run(server, names["bob"], key="bob", max_tokens=12)
        done = again.done()
        assert "".join(again.pieces) == first["bob"]
        after = server.counted()
        assert after["state_evictions"] == before["state_evictions"] + 2
        assert after["state_rebuilt_tokens"] - before["state_rebuilt_tokens"] == done.input_tokens - 1
        assert len(server.refs()) == 2
        assert server.check_integrity() == []
        for key in names:
            server.release(key)

    def test_who_finds_every_slot_at_work_waits(self, server: LlamaServer) -> None:
        busy = [Run(server, "Count: 1, 2, 3, 4, 5,", key=key, max_tokens=400) for key in ("p", "q")]
        assert all(run.first.wait(20) for run in busy)
        third = Run(server, "Hello", key="r", max_tokens=4)
        third.thread.join(0.2)
        assert third.thread.is_alive()
        assert {ref.session_id for ref in server.refs()} == {"p", "q"}
        busy[0].interrupt.set()
        assert third.done().output_tokens == 4
        assert busy[1].thread.is_alive()
        busy[1].interrupt.set()
        for run in busy:
            run.done()
        for key in ("p", "q", "r"):
            server.release(key)

    def test_a_session_that_ends_while_it_is_answered_leaves_nothing(self, server: LlamaServer) -> None:
        run = Run(server, "Count: 1, 2, 3, 4, 5,", key="gone", max_tokens=400)
        assert run.first.wait(20)
        run.interrupt.set()
        server.release("gone")
        run.done()
        assert server.refs("gone") == ()
        assert server.check_integrity() == []

    def test_a_prompt_is_read_once_for_all_slots(self, server: LlamaServer) -> None:
        prompt = "You are a careful clerk who files every letter in its own drawer, whatever the weather."
        tokens = server.count_tokens(prompt)
        server.warm(prompt)
        assert server.refs() == ()
        for key in ("one", "two"):
            done = Run(server, prompt + " Good morning", key=key, max_tokens=1).done()
            assert done.cached_tokens >= tokens - 1
        for key in ("one", "two"):
            server.release(key)

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
        assert server._server.socket.parent.stat().st_mode & 0o777 == 0o700


@pytest.mark.models
def test_it_says_nothing_keeps_ctrl_c_and_leaves_nothing(model_path: Callable[[str], Path], tmp_path: Path) -> None:
    script = f"""
import os, signal
from pathlib import Path
from duplex.engine.llama import LlamaServer
from duplex.session.fence import Fence
before = len(os.listdir("/proc/self/task"))
server = LlamaServer(model=Path({str(model_path("smollm2/q4_1.gguf"))!r}), owner="think", slots=1,
                     context_tokens=256, threads=1, batch_threads=1)
server.generate("Hi", fence=Fence("a", 0, "main", 1), max_tokens=4, temperature=0.0, stop=(),
                on_text=lambda piece: True, interrupt=server.interrupt())
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
        LlamaServer(model=broken, owner="think", slots=1, context_tokens=256, threads=1, batch_threads=1)
    assert signal.getsignal(signal.SIGINT) is before
