"""Every error this package raises, as one tree.

DuplexError
├── ConfigError            a setting is missing, malformed or out of range
├── ModelStoreError        a model file cannot be fetched, verified or read
├── GraphError             a stage graph breaks a rule (cycle, unknown stage, payload kinds that do not meet)
├── FamilyError            there is no such model family, or it cannot be imported
├── StateError             an event arrived in a state that does not allow it (our own bug, never a client's)
├── ClientError            the client asked for something it may not have; the session goes on
├── AdmissionRefused       no capacity for one more session
├── TalkError              a client cannot hold a conversation (no server, a refusal, a loss, a file that is no audio)
├── PoolFull               as many jobs wait for a thread as may
├── ConnectorError
│   ├── StaleFence         a payload was made under a fence that has been retired
│   ├── UnknownHandle      a handle names no payload (already fetched, dropped, or never put)
│   ├── PeerGone           a payload was in a process that has ended
│   ├── ConnectorFull      the byte budget of a connector is spent
│   ├── ConnectorClosed    the connector has been closed, or the one on the other side has
│   └── MalformedPayload   bytes that should be a payload are none, or a payload is not what its kind says
├── StoreError
│   ├── StateFull          a device's budget for state is spent, and nothing there may be evicted
│   ├── StaleState         state was written under a fence that is not the live one of its lane
│   └── UnknownState       there is no such state: never made, evicted or released
├── ControlError           a message between the server and an engine process is malformed or too long
└── StageError             a stage failed; its request fails with this, and nothing else does
    ├── EngineDied         the process that ran the request is gone; another one may be asked again
    ├── ReplicaLost        the replica that was at work on the request has died
    └── NoReplica          no replica of the stage could take the request
"""

from __future__ import annotations


class DuplexError(Exception):
    """Base of every error that this package raises on purpose."""


class ConfigError(DuplexError):
    """A setting is missing, malformed or out of range. The message names the setting and a remedy."""


class ModelStoreError(DuplexError):
    """A model file cannot be fetched, verified or read. The message is one sentence with the remedy."""


class GraphError(DuplexError):
    """A stage graph breaks a rule; raised once, when the graph is built.

    Args:
        message: what is wrong and the remedy, one sentence.
        where: what it was read from, as in ``voice.toml, line 14``; empty where the message says it.
        path: leads to it through the declaration, as in ``("stage", 2, "accepts")``; empty for all of it.
    """

    def __init__(self, message: str, *, where: str = "", path: tuple[str | int, ...] = ()) -> None:
        super().__init__(f"{where}: {message}" if where else message)
        self.message = message
        self.path = path


class FamilyError(DuplexError):
    """There is no such model family, or it cannot be imported. The message names it, its package and a remedy."""


class StateError(DuplexError):
    """A machine was driven in a state that does not allow the input: a bug in this package."""


class ClientError(DuplexError):
    """A client's event cannot be carried out. Nothing was changed by it.

    Args:
        message: one sentence for a person, with the remedy where there is one.
        code: short machine-readable name, for example ``input_audio_buffer_commit_empty``.
        param: the field at fault, dotted, or None.
        event_id: the id that the client gave its event, or None.
        kind: ``invalid_request_error`` or another of the wire's error types.
    """

    def __init__(
        self,
        message: str,
        *,
        code: str,
        param: str | None = None,
        event_id: str | None = None,
        kind: str = "invalid_request_error",
    ) -> None:
        super().__init__(message)
        self.message = message
        self.code = code
        self.param = param
        self.event_id = event_id
        self.kind = kind


class AdmissionRefused(DuplexError):
    """No capacity for one more session.

    Args:
        message: one sentence for a person.
        retry_after_s: seconds after which trying again makes sense.
        limit: sessions that there may be at one time, where that is the reason; else None.
    """

    def __init__(self, message: str, *, retry_after_s: float, limit: int | None = None) -> None:
        super().__init__(message)
        self.retry_after_s = retry_after_s
        self.limit = limit


class PoolFull(DuplexError):
    """As many jobs wait for a thread as may; the job was not taken."""


class TalkError(DuplexError):
    """A client cannot hold a conversation. The message is one sentence with the remedy."""


class ConnectorError(DuplexError):
    """Base of what can go wrong between two stages."""


class StaleFence(ConnectorError):
    """The payload's fence has been retired: its turn is over, and the payload is not wanted."""


class UnknownHandle(ConnectorError):
    """The handle names no payload: already fetched, dropped with its fence, or never put."""


class PeerGone(ConnectorError):
    """The payload was in the memory of a process that has ended, and is wanted: whoever needed it has failed."""


class ConnectorFull(ConnectorError):
    """The byte budget of a connector is spent; the request that needed it fails."""


class ConnectorClosed(ConnectorError):
    """The connector has been closed: it takes nothing and gives nothing."""


class MalformedPayload(ConnectorError):
    """Bytes that should be a payload are none, or a payload is not what its kind says. The message names the kind."""


class StoreError(DuplexError):
    """Base of what can go wrong with a session's typed state."""


class StateFull(StoreError):
    """A device's budget for state is spent and nothing there may be evicted; nothing has changed."""


class StaleState(StoreError):
    """State was to be written or committed under a fence that is not the live one of its lane; nothing has changed."""


class UnknownState(StoreError):
    """There is no such state: it was never made, or is evicted or released."""


class StageError(DuplexError):
    """A stage failed. Its request fails with this error, and nothing else does.

    Args:
        message: what happened, for a person; never a secret, never user content.
        stage: name of the stage in its graph.
    """

    def __init__(self, message: str, *, stage: str) -> None:
        super().__init__(f"{stage}: {message}")
        self.message = message
        self.stage = stage


class EngineDied(StageError):
    """The process of a stage is gone, and with it all that it was working on; what it has not answered may be asked
    again."""


class ControlError(DuplexError):
    """A message between the server and an engine process is malformed, or longer than it may be."""


class ReplicaLost(StageError):
    """The replica that was at work on the request has died, and the request was not given to another.

    Args:
        message: what happened, for a person.
        stage: name of the stage in its graph.
        retry_after_s: seconds after which asking again makes sense, 0 for at once; None where nobody knows.
    """

    def __init__(self, message: str, *, stage: str, retry_after_s: float | None) -> None:
        super().__init__(message, stage=stage)
        self.retry_after_s = retry_after_s


class NoReplica(StageError):
    """No replica of the stage is ready, and the request cannot wait for one, or has waited too long.

    Args:
        message: what happened, for a person.
        stage: name of the stage in its graph.
        retry_after_s: seconds after which asking again makes sense; None where an operator has to do something first.
    """

    def __init__(self, message: str, *, stage: str, retry_after_s: float | None) -> None:
        super().__init__(message, stage=stage)
        self.retry_after_s = retry_after_s
