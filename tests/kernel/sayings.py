"""What clients say, and how they listen."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import strategies as st
from hypothesis.stateful import precondition, rule

from duplex.errors import ClientError
from duplex.session.events import (
    AppendAudio,
    CancelResponse,
    ClearAudio,
    ClientEvent,
    CommitAudio,
    Configure,
    CreateItem,
    CreateResponse,
    DeleteItem,
    Played,
    RetrieveItem,
    TruncateItem,
)
from duplex.session.item import Item, Part
from duplex.session.settings import SemanticVad, ServerVad, SessionSettings, TurnDetection
from tests.kernel.engines import WINDOW
from tests.kernel.ground import LOST, ROUNDS, TICKS, WHO, Ground

DETECTIONS = [
    ServerVad(silence_ms=200),
    ServerVad(silence_ms=100, prefix_padding_ms=0),
    SemanticVad(),
    SemanticVad(interrupt_response=False),
    ServerVad(create_response=False),
    None,
]


class Sayings(Ground):
    """Rules of conversation."""

    @precondition(lambda self: self.connected)
    @rule(who=WHO, ticks=TICKS)
    def write(self, who: int, ticks: int | None) -> None:
        """Also in the queue: there it waits for its session."""
        client = self.connected[who % len(self.connected)]
        text = f"t{client.number}.{len(client.typed)}"
        client.typed.append(text)
        self.account.makings.final.add(text)
        part = Part(kind="text", text=text)
        item = Item(item_id="", role="user", status="completed", parts=(part,))
        client.says(CreateItem(item=item, event_id=text))
        self.go(ticks)

    @precondition(lambda self: self.talking)
    @rule(who=WHO, rounds=ROUNDS, ticks=TICKS)
    def ask(self, who: int, rounds: int, ticks: int | None) -> None:
        self.says(who, CreateResponse(), ticks)
        self.kernel.flow(rounds)

    @precondition(lambda self: self.talking)
    @rule(who=WHO, loud=st.integers(0, 8), quiet=st.integers(0, 9), rounds=ROUNDS, ticks=TICKS)
    def speak(self, who: int, loud: int, quiet: int, rounds: int, ticks: int | None) -> None:
        pcm = np.concatenate([np.ones(WINDOW * loud, np.int16), np.zeros(WINDOW * quiet, np.int16)])
        self.says(who, AppendAudio(pcm=pcm), ticks)
        self.kernel.flow(rounds)

    @precondition(lambda self: self.talking)
    @rule(who=WHO, goes_on=st.booleans(), early=ROUNDS, rounds=ROUNDS, heard_s=st.floats(0, 1), ticks=TICKS)
    def a_turn(self, who: int, goes_on: bool, early: int, rounds: int, heard_s: float, ticks: int | None) -> None:
        """A pause, in which an answer is begun; then the user goes on, or has said all."""
        client = self.talking[who % len(self.talking)]
        for windows, level, until in ((5, 1, 3), (3, 0, 3), (0, 0, early), (4, int(goes_on), rounds), (9, 0, rounds)):
            client.says(AppendAudio(pcm=np.full(WINDOW * windows, level, np.int16)))
            self.go(None)
            self.kernel.flow(until)
        self.advance(heard_s)
        self.go(ticks)

    @precondition(lambda self: self.talking)
    @rule(who=WHO, rounds=ROUNDS, heard_s=st.floats(0, 1), how=st.sampled_from(["voice", "word", "break"]), ticks=TICKS)
    def an_answer_that_is_interrupted(self, who: int, rounds: int, heard_s: float, how: str, ticks: int | None) -> None:
        """By the user's voice, by the client's word, or by the network first and then by the voice."""
        client = self.talking[who % len(self.talking)]
        self.write(who=self.connected.index(client), ticks=None)
        client.says(CreateResponse())
        self.go(None)
        self.kernel.flow(rounds)
        self.advance(heard_s)
        if how == "break" and client.token and client.connection is not None:
            self.end(client.connection, "crash")
            self.advance(heard_s)
            self.resume(client, ticks)
        client.says(CancelResponse() if how == "word" else AppendAudio(pcm=np.ones(WINDOW * 3, np.int16)))
        self.go(ticks)
        self.kernel.flow(rounds)

    @precondition(lambda self: self.talking)
    @rule(
        who=WHO,
        event=st.sampled_from([CommitAudio(), ClearAudio(), CancelResponse(), CancelResponse(), CreateResponse()]),
        ticks=TICKS,
    )
    def signal(self, who: int, event: ClientEvent, ticks: int | None) -> None:
        self.says(who, event, ticks)

    @precondition(lambda self: self.talking)
    @rule(who=WHO, detection=st.sampled_from(DETECTIONS), text=st.booleans(), ticks=TICKS)
    def configure(self, who: int, detection: TurnDetection | None, text: bool, ticks: int | None) -> None:
        modality = "text" if text else "audio"
        self.says(who, Configure(settings=SessionSettings(turn_detection=detection, modality=modality)), ticks)  # type: ignore[arg-type]

    @precondition(lambda self: self.talking)
    @rule(who=WHO, item=WHO, verb=st.sampled_from(["retrieve", "delete", "truncate"]), share=WHO, ticks=TICKS)
    def on_an_item(self, who: int, item: int, verb: str, share: int, ticks: int | None) -> None:
        """On one that the client knows, the newest first, or on one that there is not."""
        client = self.talking[who % len(self.talking)]
        item_id = ["nowhere", *client.items][-1 - item % (len(client.items) + 1)]
        match verb:
            case "retrieve":
                client.says(RetrieveItem(item_id=item_id))
            case "delete":
                client.says(DeleteItem(item_id=item_id))
            case _:
                listener = self.record(client).listeners.get(item_id)
                sent_ms = listener.sent // 24 if listener is not None else 100
                client.says(TruncateItem(item_id=item_id, content_index=0, audio_end_ms=sent_ms * share // 6))
        self.go(ticks)

    @precondition(lambda self: any(client.terms.acknowledged for client in self.talking))
    @rule(who=WHO, share=WHO, ticks=TICKS)
    def played(self, who: int, share: int, ticks: int | None) -> None:
        able = [client for client in self.talking if client.terms.acknowledged]
        client = able[who % len(able)]
        if (listeners := self.record(client).listeners) is not None:
            for item_id, listener in list(listeners.items())[-1:]:
                client.says(Played(item_id=item_id, samples=listener.sent * share // 6))
        self.go(ticks)

    @precondition(lambda self: self.talking)
    @rule(who=WHO)
    def acknowledge(self, who: int) -> None:
        client = self.talking[who % len(self.talking)]
        connection = client.connection
        assert connection is not None
        assert connection.port is not None
        connection.port.acknowledge(client.seen)
        if self.record(client).runner._lease.owns(connection.port.generation):
            client.spent += client.former_tokens
            client.former_tokens.clear()
            with pytest.raises(ClientError):
                connection.port.acknowledge(self.record(client).runner._outbox.journal.sequence + 1)

    @precondition(lambda self: self.talking)
    @rule(who=WHO, lag=LOST, reads=st.booleans(), ticks=TICKS)
    def the_network_changes(self, who: int, lag: int, reads: bool, ticks: int | None) -> None:
        """So much is on its way to a client, which may have stopped reading."""
        connection = self.talking[who % len(self.talking)].connection
        assert connection is not None
        connection.lag = lag
        if reads:
            connection.reads.set()
        else:
            self.stall(connection)
        self.go(ticks)
