"""One answer on the wire: its events, each once and in OpenAI's order.

response.created · response.output_item.added · conversation.item.added · response.content_part.added · deltas ·
response.output_audio.done · response.output_audio_transcript.done (or response.output_text.done) ·
response.content_part.done · response.output_item.done · conversation.item.done · response.done

Everything between the first and the last is left out where no item was begun; whatever was begun is also ended, whether
the answer completed, was cancelled, ran into its limit, or failed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from duplex.protocol.openai_realtime import response as wire
from duplex.protocol.openai_realtime import server
from duplex.protocol.openai_realtime.item import AudioPart, TextPart
from duplex.protocol.openai_realtime.server import ServerEvent
from duplex.session.item import Item, Part
from duplex.session.notices import ResponseInfo, ResponseItemAdded, ResponseText
from duplex.session.port import Audio
from duplex.transport.openai_realtime import items


class Answer:
    """What the client has been told of an answer that is under way.

    Args:
        response: as it was announced.
        next_id: gives each event its id.
    """

    def __init__(self, *, response: ResponseInfo, next_id: Callable[[], str]) -> None:
        self.response_id = response.response_id
        self.item_id = ""
        self._spoken = response.modality == "audio"
        self._next_id = next_id
        self._part_open = False
        self._said: list[str] = []

    def item_added(self, notice: ResponseItemAdded) -> Iterator[ServerEvent]:
        """The answer's item begins. The conversation's word of it comes next, and then its part."""
        self.item_id = notice.item.item_id
        yield server.OutputItemAdded(
            event_id=self._next_id(), response_id=self.response_id, item=items.shown(notice.item)
        )

    def text(self, notice: ResponseText) -> Iterator[ServerEvent]:
        """More words."""
        if not self.item_id:
            return
        yield from self.part_opened()
        self._said.append(notice.text)
        delta = server.TranscriptDelta if self._spoken else server.TextDelta
        yield delta(event_id=self._next_id(), response_id=self.response_id, item_id=self.item_id, delta=notice.text)

    def audio(self, audio: Audio) -> Iterator[ServerEvent]:
        """More sound."""
        yield from self.part_opened()
        yield server.AudioDelta(
            event_id=self._next_id(),
            response_id=self.response_id,
            item_id=self.item_id,
            delta=audio.pcm.astype("<i2", copy=False).tobytes(),
        )

    def ended(self, item: Item | None) -> Iterator[ServerEvent]:
        """Ends the part and the item, where they have not been ended yet.

        Their words are the item's, which after an interruption are fewer than the deltas': only what was heard.
        """
        if not self.item_id:
            return
        yield from self.part_opened()
        if item is None:
            said = Part(kind="audio" if self._spoken else "text", text="".join(self._said))
            item = Item(item_id=self.item_id, role="assistant", status="incomplete", parts=(said,))
        text = item.text
        response_id, item_id = self.response_id, self.item_id
        if self._spoken:
            yield server.AudioDone(event_id=self._next_id(), response_id=response_id, item_id=item_id)
            yield server.TranscriptDone(
                event_id=self._next_id(), response_id=response_id, item_id=item_id, transcript=text
            )
        else:
            yield server.TextDone(event_id=self._next_id(), response_id=response_id, item_id=item_id, text=text)
        part = self._wire_part(text)
        yield server.PartDone(event_id=self._next_id(), response_id=response_id, item_id=item_id, part=part)
        yield server.OutputItemDone(event_id=self._next_id(), response_id=self.response_id, item=items.shown(item))
        self.item_id = ""

    def part_opened(self) -> Iterator[ServerEvent]:
        """The item's one part begins, if it has not: after the conversation's word of the item, before any delta."""
        if not self._part_open:
            self._part_open = True
            yield server.PartAdded(
                event_id=self._next_id(), response_id=self.response_id, item_id=self.item_id, part=self._wire_part("")
            )

    def _wire_part(self, text: str) -> AudioPart | TextPart:
        return AudioPart(transcript=text) if self._spoken else TextPart(text=text)


def response_object(info: ResponseInfo, *, conversation_id: str, voice: str) -> wire.Response:
    """The wire's response object; it never carries audio."""
    return wire.Response(
        id=info.response_id,
        status=info.status,
        status_details=_details(info),
        output=[items.shown(info.item)] if info.item is not None else [],
        conversation_id=conversation_id,
        output_modalities=[info.modality],
        max_output_tokens=info.max_output_tokens or "inf",
        audio=wire.ResponseAudio(output=wire.ResponseAudioOutput(voice=voice)),
        usage=_usage(info),
        metadata=dict(info.metadata) or None,
    )


def _details(info: ResponseInfo) -> wire.StatusDetails | None:
    match info.status:
        case "in_progress" | "completed":
            return None
        case "failed":
            return wire.StatusDetails(type="failed", error=wire.ResponseError(message=info.error))
        case "cancelled" | "incomplete":
            return wire.StatusDetails(type=info.status, reason=info.status_reason or None)


def _usage(info: ResponseInfo) -> wire.Usage | None:
    if info.status == "in_progress":
        return None
    return wire.Usage(
        total_tokens=info.input_tokens + info.output_tokens,
        input_tokens=info.input_tokens,
        output_tokens=info.output_tokens,
        input_token_details=wire.InputTokens(
            text_tokens=info.input_tokens,
            cached_tokens=info.cached_tokens,
            cached_tokens_details=wire.CachedTokens(text_tokens=info.cached_tokens),
        ),
        output_token_details=wire.OutputTokens(text_tokens=info.output_tokens),
    )
