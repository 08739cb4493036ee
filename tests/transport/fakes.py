"""A scripted host, a server's facts, and a real uvicorn on a loopback port."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

import uvicorn
from starlette.types import ASGIApp

from duplex.errors import AdmissionRefused, ClientError
from duplex.session.events import AppendAudio, ClientEvent
from duplex.session.notices import Closed, Notice, Opened
from duplex.session.port import Audio, LeasedPort, Terms
from duplex.session.settings import SessionSettings
from duplex.transport.app import build_app
from duplex.transport.info import Served
from duplex.transport.serve import uvicorn_config

SERVED = Served(models=("duplex",), voices=("robin",), languages=("en",), transcriber="ears")


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """`HttpSettings` with the server's defaults."""

    api_key: str | None = None
    allowed_origins: tuple[str, ...] = ()
    max_message_bytes: int = 16 * 2**20
    slow_reader_s: float = 5.0


@dataclass(slots=True, kw_only=True)
class Info:
    """`ServerInfo` of a server that is up."""

    ready: bool = True
    served: Served = SERVED
    sessions: int = 0
    turns: dict[str, object] = field(default_factory=dict)

    def turn(self, response_id: str) -> object | None:
        return self.turns.get(response_id)

    def census(self) -> object:
        return {"object": "list", "data": []}

    async def inspect(self) -> object:
        return {"object": "state", "proven": True, "findings": []}

    def metrics(self) -> str:
        return "# TYPE duplex_sessions gauge\nduplex_sessions 0\n"


class Port:
    """A session that does what the test says. `answer` is called with every event and may `tell`."""

    def __init__(self, answer: Callable[[Port, ClientEvent], None], *, mailbox: int) -> None:
        self.session_id = "sess_1"
        self.events: list[ClientEvent] = []
        self.waiting = 0
        self.begun = asyncio.Event()
        self._answer = answer
        self._told: asyncio.Queue[Notice | Audio | None] = asyncio.Queue()
        self._room = asyncio.Semaphore(mailbox)

    async def send(self, event: ClientEvent) -> bool:
        await self.begun.wait()
        self.waiting += 1
        await self._room.acquire()
        self.waiting -= 1
        self.events.append(event)
        self._answer(self, event)
        return True

    async def receive(self) -> Notice | Audio | None:
        return await self._told.get()

    def begin(self) -> None:
        """It has a place now."""
        settings = SessionSettings(instructions="Be brief.")
        self.tell(Opened(session_id=self.session_id, conversation_id="conv_1", settings=settings))
        self.begun.set()

    def tell(self, *told: Notice | Audio | None) -> None:
        for one in told:
            self._told.put_nowait(one)

    def make_room(self, events: int) -> None:
        for _ in range(events):
            self._room.release()

    def close(self, reason: str, message: str) -> None:
        self.tell(Closed(reason=reason, message=message), None)

    @property
    def heard(self) -> int:
        """Samples of input taken."""
        return sum(len(event.pcm) for event in self.events if isinstance(event, AppendAudio))


class Host:
    """`SessionHost` over scripted sessions.

    Args:
        answer: what each session does about an event.
        places: sessions at one time.
        mailbox: events that a session takes before its sender has to wait.
        queues: sessions begin when the test says so, by `Port.begin`.
    """

    def __init__(
        self,
        answer: Callable[[Port, ClientEvent], None] = lambda _port, _event: None,
        *,
        places: int = 4,
        mailbox: int = 1_000_000,
        queues: bool = False,
    ) -> None:
        self.queues = queues
        self._answer = answer
        self._places = places
        self._mailbox = mailbox
        self.open_sessions = 0
        self.ports: list[Port] = []

    def refusal(self) -> AdmissionRefused | None:
        if self.open_sessions < self._places:
            return None
        return AdmissionRefused("Every place is taken; try again in 7 seconds.", retry_after_s=6.2, limit=self._places)

    def resume(self, session_id: str, *, token: str, seen: int) -> AbstractAsyncContextManager[LeasedPort]:
        raise ClientError("There is no such session.", code="session_closed")

    @asynccontextmanager
    async def open(self, terms: Terms = Terms()) -> AsyncIterator[Port]:
        if (refused := self.refusal()) is not None:
            raise refused
        self.open_sessions += 1
        port = Port(self._answer, mailbox=self._mailbox)
        self.ports.append(port)
        if not self.queues:
            port.begin()
        try:
            yield port
        finally:
            self.open_sessions -= 1

    async def until(self, true: Callable[[], bool]) -> None:
        """Wait for something that only the server's own tasks can bring about. Fails after 5 s."""
        async with asyncio.timeout(5):
            while not true():  # noqa: ASYNC110 - there is no event to wait for from outside
                await asyncio.sleep(0.005)


def app(
    host: Host | None = None, *, info: Info | None = None, settings: Settings | None = None, web: Path | None = None
) -> ASGIApp:
    """The application as the server builds it."""
    web = web or Path(__file__).parents[2] / "web"
    return build_app(host=host or Host(), info=info or Info(), settings=settings or Settings(), web=web)


@asynccontextmanager
async def running(application: ASGIApp, *, settings: Settings | None = None) -> AsyncIterator[str]:
    """A server for the block; gives ``127.0.0.1:PORT``. Afterwards no task of it may be left."""
    async with serving(application, settings=settings) as (at, _server):
        yield at


@asynccontextmanager
async def serving(
    application: ASGIApp, *, settings: Settings | None = None
) -> AsyncIterator[tuple[str, uvicorn.Server]]:
    """As `running`, with the uvicorn itself, set up as the real server's is."""
    before = asyncio.all_tasks()
    config = uvicorn_config(app=application, settings=settings or Settings(), shutdown_s=2.0, host="127.0.0.1", port=0)
    server = uvicorn.Server(config)
    with socket.create_server(("127.0.0.1", 0)) as listening:
        async with asyncio.TaskGroup() as tasks:
            serving = tasks.create_task(server.serve(sockets=[listening]))
            while not server.started:  # noqa: ASYNC110 - uvicorn has no event for it
                await asyncio.sleep(0.005)
            try:
                yield f"127.0.0.1:{listening.getsockname()[1]}", server
            finally:
                server.should_exit = True
                await serving
    left = asyncio.all_tasks() - before
    assert not left, f"tasks left behind: {left}"
