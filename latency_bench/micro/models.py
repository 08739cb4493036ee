"""The models whose answers end a turn, in the stages that the server runs them in; asked one after another."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import count
from pathlib import Path
from typing import TypeVar

from duplex.audio.pcm import Samples
from duplex.config import ComputeConfig
from duplex.connector.payload import (
    Completeness,
    EndOfTurn,
    Mark,
    MarkKind,
    Message,
    Payload,
    Pcm,
    Prompt,
    Speech,
    Transcript,
)
from duplex.engine.base import StageRequest
from duplex.engine.worker import Worker
from duplex.errors import StageError
from duplex.models.silero.vad import RATE_HZ, WINDOW
from duplex.models.smollm2.model import SmolLM2
from duplex.models.voice.endpoint import EndpointStage
from duplex.models.voice.hear import HearStage
from duplex.models.voice.listen import ListenStage
from duplex.models.voice.think import ThinkStage
from duplex.session.fence import INPUT, Fence
from duplex.session.listening import PREFIX_MS
from duplex.session.reading import AHEAD, calibrated, marked
from latency_bench.micro.following import Judge

_ANSWER = TypeVar("_ANSWER", bound=Payload)


class Models:
    """Loaded once, for any number of utterances; to be closed.

    Args:
        path: where a model file lies, by its key in the store.
        compute: the language model's threads and context.
        judges: so many will be asked for; each has a prefix cache of its own.

    Raises:
        ModelStoreError, StageError: a model cannot be loaded.
    """

    def __init__(self, *, path: Callable[[str], Path], compute: ComputeConfig, judges: int) -> None:
        self._listen = ListenStage(vad=path("silero/vad.onnx"))
        self._endpoint = EndpointStage(detector=path("smart_turn/end_of_turn.onnx"))
        self._hear = HearStage(
            encoder=path("moonshine/encoder.ort"),
            decoder=path("moonshine/decoder.ort"),
            tokenizer=path("moonshine/tokenizer.json"),
        )
        for stage in (self._listen, self._endpoint, self._hear):
            stage.load()
        self._model = SmolLM2(
            model=path("smollm2/q4_1.gguf"),
            owner="think",
            caches=judges,
            context_tokens=compute.context_tokens,
            threads=compute.llama_threads,
            batch_threads=compute.llama_batch_threads,
        )
        self._think = ThinkStage(load_model=lambda: self._model)
        self._think.load()
        self._judges = count()

    def hear(self, samples: Samples) -> Heard:
        """Listen to an utterance, int16 [n] at 16 kHz."""
        fence = Fence("utterance", 0, INPUT, 0)
        return Heard(
            samples,
            listen=self._listen(StageRequest(fence=fence, stage="listen")),
            endpoint=self._endpoint(StageRequest(fence=fence, stage="endpoint")),
            hear=self._hear(StageRequest(fence=fence, stage="hear")),
        )

    def judge(self, before: Sequence[Message], *, first: bool) -> Judge:
        """What the language model thinks of words that follow these messages, calibrated as a session does it.

        The same words are read once. `first`: they are the conversation's first ones.
        """
        session = f"judge {next(self._judges)}"
        known: dict[str, Completeness] = {}

        def judged(words: str) -> Completeness:
            if words not in known:
                fence = Fence(session, 0, AHEAD, len(known))
                read = self._read((*before, Message(role="user", text=marked(words))), fence)
                known[words] = calibrated(read, first=first)
            return known[words]

        return judged

    def _read(self, messages: tuple[Message, ...], fence: Fence) -> Completeness:
        worker = self._think(StageRequest(fence=fence, stage="think"))
        prompt = Prompt(messages=messages, max_tokens=1, temperature=0.0, complete=False)
        return _answer(worker, prompt, Completeness, stage="think")

    def close(self) -> None:
        """Give back the language model's threads and memory."""
        self._model.close()


class Heard:
    """A `Hearing` by real models, which remembers their answers: who follows it again is told the same.

    Args:
        samples: int16 [n] at 16 kHz.
        listen, endpoint, hear: workers that have heard nothing yet.
    """

    def __init__(self, samples: Samples, *, listen: Worker, endpoint: Worker, hear: Worker) -> None:
        self._listen = _Fed(listen, samples)
        self._endpoint = _Fed(endpoint, samples)
        self._hear = _Fed(hear, samples)
        self._length = len(samples)
        self._windows: list[Speech] = []
        self._sounds: dict[tuple[int, int], EndOfTurn] = {}
        self._words: dict[tuple[int, int, int], str] = {}

    def windows(self) -> Iterator[Speech]:
        for number in range(self._length // WINDOW):
            if number == len(self._windows):
                self._windows += self._listen.feed((number + 1) * WINDOW)
            yield self._windows[number]

    def sound(self, start: int, end: int) -> EndOfTurn:
        if (start, end) not in self._sounds:
            self._endpoint.feed(end)
            mark = Mark(mark=MarkKind.ASK, start=start, end=end)
            self._sounds[start, end] = _answer(self._endpoint.worker, mark, EndOfTurn, stage="endpoint")
        return self._sounds[start, end]

    def words(self, start: int, end: int, now: int) -> str:
        if (start, end, now) not in self._words:
            self._hear.feed(now)
            begin = max(0, start - PREFIX_MS * RATE_HZ // 1000)
            mark = Mark(mark=MarkKind.PAUSE, start=begin, end=end)
            self._words[start, end, now] = _answer(self._hear.worker, mark, Transcript, stage="hear").text
        return self._words[start, end, now]


class _Fed:
    """A worker that is given the audio as far as it is needed."""

    def __init__(self, worker: Worker, samples: Samples) -> None:
        self.worker = worker
        self._samples = samples
        self._fed = 0

    def feed(self, end: int) -> list[Speech]:
        """Up to `end`; returns the windows that this completes, where the worker tells them."""
        if end <= self._fed:
            return []
        pcm = Pcm(samples=self._samples[self._fed : end], rate_hz=RATE_HZ, start=self._fed)
        self._fed = end
        return [given for given in _given(self.worker, pcm) if isinstance(given, Speech)]


def _given(worker: Worker, payload: Payload) -> list[Payload]:
    given: list[Payload] = []

    def emit(one: Payload) -> bool:
        given.append(one)
        return True

    worker.feed(payload, emit)
    return given


def _answer(worker: Worker, question: Payload, kind: type[_ANSWER], *, stage: str) -> _ANSWER:
    answers = [given for given in _given(worker, question) if isinstance(given, kind)]
    if not answers:
        raise StageError(f"was given a {question.kind}, and said nothing of it", stage=stage)
    return answers[-1]
