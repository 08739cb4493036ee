"""A whole spoken turn before the first client comes: afterwards nothing is cold."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from duplex.audio.resample import Resampler
from duplex.errors import StageError
from duplex.session.events import AppendAudio, Configure, CreateItem, CreateResponse
from duplex.session.item import Item, Part
from duplex.session.notices import Closed, ResponseDone, ResponseInfo, Transcribed
from duplex.session.port import Audio, SessionHost, SessionPort
from duplex.session.settings import ServerVad, SessionLimits, SessionSettings

_CHUNK_S = 0.1


async def warm_turn(host: SessionHost, settings: SessionSettings, limits: SessionLimits) -> str:
    """Ask in writing, then say the spoken answer back as a user would, and be answered again.

    Returns what was heard of it. Raises StageError where one of the turns was not answered.
    """
    async with host.open() as port:
        brief = replace(settings, max_output_tokens=8, turn_detection=ServerVad(silence_ms=300))
        await port.send(Configure(settings=brief))
        part = Part(kind="text", text="Say: I am ready.")
        await port.send(CreateItem(item=Item(item_id="", role="user", status="completed", parts=(part,))))
        await port.send(CreateResponse())
        spoken, _ = await _answer(port)
        resampler = Resampler(from_hz=limits.output_hz, to_hz=limits.input_hz)
        silence = np.zeros(limits.input_hz // 2, np.int16)
        voice = np.concatenate([silence, resampler.push(spoken), resampler.flush(), silence, silence])
        step = round(_CHUNK_S * limits.input_hz)
        for start in range(0, len(voice), step):
            await port.send(AppendAudio(pcm=voice[start : start + step]))
        _, heard = await _answer(port)
        return heard


async def _answer(port: SessionPort) -> tuple[np.ndarray[tuple[int], np.dtype[np.int16]], str]:
    """Wait for a response; returns its audio, and what was heard before it."""
    chunks, heard = [np.zeros(0, np.int16)], ""
    while (said := await port.receive()) is not None:
        match said:
            case Audio(pcm=pcm):
                chunks.append(pcm)
            case Transcribed(text=text):
                heard = text
            case ResponseDone(response=ResponseInfo(status="completed" | "incomplete")):
                return np.concatenate(chunks), heard
            case ResponseDone(response=response):
                raise StageError(f"the warm-up turn {response.status}: {response.error}", stage="warm-up")
            case Closed(message=message):
                raise StageError(message, stage="warm-up")
            case _:
                pass
    raise StageError("the session ended in the warm-up turn", stage="warm-up")
