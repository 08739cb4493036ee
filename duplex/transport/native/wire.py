"""What one session's client and this server have agreed; it outlives each of their connections."""

from __future__ import annotations

from collections import deque

from duplex.audio.pcm import Samples, from_bytes
from duplex.audio.resample import Resampler
from duplex.errors import ClientError
from duplex.protocol.native import client
from duplex.protocol.native.media import MICROPHONE, FrameError, unpack
from duplex.protocol.native.settings import SettingsPatch
from duplex.session import events
from duplex.session.item import Item, Part
from duplex.session.settings import ResponseOptions, SessionSettings
from duplex.transport.info import Served
from duplex.transport.native import configuration

FRAME_MS = 1000
"""Longest media frame that is taken: longer ones would keep the other sessions waiting."""


class Wire:
    """Translates the client's messages, each once however often it is sent.

    Args:
        opening: the message that opened the session.
        served: what there is to be had.

    Attributes:
        unsent: events that the session has not taken yet; a connection that is cut leaves them to the next.
        taken: the client's highest number so far.
        input_samples: samples of the microphone so far.
    """

    def __init__(self, *, opening: client.Open, served: Served) -> None:
        self.opening = opening
        self.served = served
        self.settings = SessionSettings()
        self.unsent: deque[events.ClientEvent] = deque()
        self.taken = 0
        self.input_samples = 0
        self._resampler = Resampler(from_hz=opening.input_hz, to_hz=served.input_hz)

    def _is_new(self, sequence: int) -> bool:
        if sequence and sequence <= self.taken:
            return False
        self.taken = max(self.taken, sequence)
        return True

    def take_frame(self, message: bytes) -> None:
        """A media frame becomes events. Raises ClientError where it cannot be taken."""
        try:
            frame = unpack(message)
        except FrameError as error:
            raise ClientError(f"{error}.", code="invalid_frame") from None
        if frame.kind != MICROPHONE:
            raise ClientError(f"A client sends media of kind {MICROPHONE}, not {frame.kind}.", code="invalid_frame")
        if frame.samples * 1000 > FRAME_MS * self.opening.input_hz:
            message_ = f"A media frame holds {FRAME_MS} ms at most; send several."
            raise ClientError(message_, code="frame_too_long")
        if not self._is_new(frame.sequence):
            return
        self.input_samples += frame.samples
        self._append(from_bytes(frame.payload))

    def _append(self, samples: Samples) -> None:
        pcm = self._resampler.push(samples)
        if len(pcm):
            self.unsent.append(events.AppendAudio(pcm=pcm))

    def take(self, message: client.Update | client.Signal | client.Close | client.Played) -> None:
        """A message becomes events. Raises ClientError where it is refused; nothing has changed then but `taken`."""
        id_ = None if isinstance(message, client.Played) else message.id
        if not isinstance(message, client.Played) and not self._is_new(message.sequence):
            return
        try:
            self._translate(message)
        except ClientError as error:
            error.event_id = id_
            raise

    def _translate(self, message: client.Update | client.Signal | client.Close | client.Played) -> None:
        match message:
            case client.Update():
                self._update(message)
            case client.Signal(signal=signal, id=id_):
                self._signal(signal, id_)
            case client.Close():
                self.unsent.append(events.Close(reason="client"))
            case client.Played(item_id=item_id, samples=samples):
                self.unsent.append(events.Played(item_id=item_id, samples=samples))

    def _update(self, message: client.Update) -> None:
        if message.settings is None and message.item is None:
            raise ClientError("An update has settings, an item, or both.", code="invalid_message")
        if message.settings is not None:
            self.configure(message.settings, message.id)
        if (new := message.item) is not None:
            part = Part(kind="text", text=new.text)
            item = Item(item_id=new.item_id, role=new.role, status="completed", parts=(part,))
            self.unsent.append(events.CreateItem(item=item, after=message.after, event_id=message.id))

    def configure(self, patch: SettingsPatch, id_: str | None) -> None:
        """Other settings. Raises ClientError."""
        self.settings = configuration.patched(self.settings, patch, self.served)
        self.unsent.append(events.Configure(settings=self.settings, event_id=id_))

    def _signal(self, signal: client.AnySignal, id_: str | None) -> None:
        match signal:
            case client.Commit():
                self._flush()
                self.unsent.append(events.CommitAudio(event_id=id_))
            case client.Clear():
                self._resampler.flush()
                self.unsent.append(events.ClearAudio(event_id=id_))
            case _:
                self.unsent.append(_event(signal, id_))

    def _flush(self) -> None:
        # No word's end stays behind in the filter.
        rest = self._resampler.flush()
        if len(rest):
            self.unsent.append(events.AppendAudio(pcm=rest))


def _event(
    signal: client.Respond | client.Cancel | client.Retrieve | client.Delete | client.Truncate, id_: str | None
) -> events.ClientEvent:
    match signal:
        case client.Respond():
            options = ResponseOptions(
                instructions=signal.instructions,
                modality=signal.modality,
                max_output_tokens=signal.max_output_tokens,
                tool_choice=signal.tool_choice,
                metadata=tuple(signal.metadata.items()),
            )
            return events.CreateResponse(options=options, event_id=id_)
        case client.Cancel(response_id=response_id):
            return events.CancelResponse(response_id=response_id, event_id=id_)
        case client.Retrieve(item_id=item_id):
            return events.RetrieveItem(item_id=item_id, event_id=id_)
        case client.Delete(item_id=item_id):
            return events.DeleteItem(item_id=item_id, event_id=id_)
        case client.Truncate(item_id=item_id, audio_end_ms=audio_end_ms):
            return events.TruncateItem(item_id=item_id, content_index=0, audio_end_ms=audio_end_ms, event_id=id_)
