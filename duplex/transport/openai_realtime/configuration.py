"""A session's configuration: the client's patch onto it, and the whole of it onto the wire."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from msgspec import UNSET, UnsetType

from duplex.connector.payload import Tool
from duplex.protocol.openai_realtime import session as wire
from duplex.protocol.openai_realtime.patch import (
    AudioInputPatch,
    AudioOutputPatch,
    FormatPatch,
    MaxOutputTokens,
    SessionPatch,
    ToolPatch,
    TranscriptionPatch,
    VoiceId,
)
from duplex.protocol.openai_realtime.patch import Modality as WireModality
from duplex.session.settings import Modality, SessionSettings, ToolChoice
from duplex.transport import tools
from duplex.transport.info import Served
from duplex.transport.openai_realtime import truncation, turn_detection
from duplex.transport.openai_realtime.refusal import invalid, unsupported

STANDARD_VOICES = frozenset(["alloy", "ash", "ballad", "coral", "echo", "sage", "shimmer", "verse", "marin", "cedar"])
"""OpenAI's own voices. Stock clients ask for one unless told otherwise, so each is taken to mean the default voice;
the server's answer names the voice that is really used."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Configuration:
    """What is in force, or will be once the session agrees.

    Attributes:
        settings: what the session knows of.
        transcription: whether the client is told the user's words; they are recognised in any case.
    """

    settings: SessionSettings
    transcription: bool = True

    def patched(self, patch: SessionPatch, served: Served) -> Configuration:
        """What holds after the patch.

        Raises:
            ClientError: the patch asks for what is not served; nothing has changed.
        """
        if patch.type != "realtime":
            raise unsupported(
                f"only sessions of type realtime are served, not {patch.type[:40]!r}", param="session.type"
            )
        refuse_prompt(patch.prompt, param="session")
        settings = self.settings
        if patch.instructions is not None:
            settings = replace(settings, instructions=patch.instructions)
        if patch.truncation is not None:
            settings = replace(settings, truncation=truncation.asked(patch.truncation))
        if patch.output_modalities is not None:
            settings = replace(settings, modality=modality(patch.output_modalities, param="session.output_modalities"))
        if patch.max_output_tokens is not None:
            settings = replace(settings, max_output_tokens=token_limit(patch.max_output_tokens))
        if patch.tools is not None:
            settings = replace(settings, tools=offered_tools(patch.tools, param="session.tools"))
        if patch.tool_choice is not None:
            settings = replace(settings, tool_choice=tool_choice(patch.tool_choice, param="session.tool_choice"))
        changed = replace(self, settings=settings)
        if patch.audio is not None and patch.audio.input is not None:
            changed = changed._with_input(patch.audio.input, served)
        if patch.audio is not None and patch.audio.output is not None:
            changed = changed._with_output(patch.audio.output, served)
        return changed

    def _with_input(self, patch: AudioInputPatch, served: Served) -> Configuration:
        check_format(patch.format, param="session.audio.input.format")
        settings, detection = self.settings, patch.turn_detection
        if detection is None:
            settings = replace(settings, turn_detection=None)
        elif not isinstance(detection, UnsetType):
            settings = replace(settings, turn_detection=turn_detection.merged(settings.turn_detection, detection))
        transcription = self.transcription
        if patch.transcription is not UNSET:
            transcription = patch.transcription is not None
        if isinstance(patch.transcription, TranscriptionPatch):
            _check_language(patch.transcription.language, served)
        return replace(self, settings=settings, transcription=transcription)

    def _with_output(self, patch: AudioOutputPatch, served: Served) -> Configuration:
        check_format(patch.format, param="session.audio.output.format")
        settings = self.settings
        if patch.voice is not None:
            settings = replace(settings, voice=voice(patch.voice, served, param="session.audio.output.voice"))
        if patch.speed is not None:
            settings = replace(settings, speed=patch.speed)
        return replace(self, settings=settings)

    def shown(self, session_id: str, served: Served) -> wire.Session:
        """The wire's session object. What was asked for and is not done shows as what is done."""
        settings = self.settings
        heard = wire.Transcription(model=served.transcriber, language=served.languages[0])
        return wire.Session(
            id=session_id,
            model=served.models[0],
            output_modalities=[settings.modality],
            instructions=settings.instructions,
            truncation=truncation.shown(settings.truncation),
            max_output_tokens=settings.max_output_tokens if settings.max_output_tokens is not None else "inf",
            audio=wire.Audio(
                input=wire.AudioInput(
                    turn_detection=turn_detection.shown(settings.turn_detection),
                    transcription=heard if self.transcription else None,
                ),
                output=wire.AudioOutput(voice=voice_in_use(settings, served), speed=settings.speed),
            ),
            tools=[
                wire.Tool(name=tool.name, description=tool.description, parameters=tools.parameters(tool))
                for tool in settings.tools
            ],
            tool_choice=settings.tool_choice,
        )


def voice_in_use(settings: SessionSettings, served: Served) -> str:
    """Name of the voice that speaks."""
    return settings.voice or served.voices[0]


def voice(asked: str | VoiceId, served: Served, *, param: str) -> str:
    """The served voice that `asked` means. Raises ClientError for a name that nobody serves."""
    name = asked.id if isinstance(asked, VoiceId) else asked
    if name in served.voices:
        return name
    if name in STANDARD_VOICES and not isinstance(asked, VoiceId):
        return served.voices[0]
    raise invalid(f"there is no voice {name[:40]!r}; there are: {', '.join(served.voices)}", param=param)


def modality(asked: list[WireModality], *, param: str) -> Modality:
    """The one modality of `asked`. Raises ClientError for none or both, as OpenAI does."""
    if len(asked) != 1:
        raise invalid('say either ["audio"], which comes with its transcript, or ["text"]', param=param)
    return asked[0]


def token_limit(asked: MaxOutputTokens) -> int | None:
    """None for the server's own limit."""
    return None if asked == "inf" else asked


def check_format(patch: FormatPatch | None, *, param: str) -> None:
    """Raises ClientError for any audio but PCM at 24 kHz."""
    if patch is None:
        return
    if patch.type not in (None, "audio/pcm"):
        raise unsupported(f"{patch.type} is not served; send and expect audio/pcm at 24000 Hz", param=f"{param}.type")
    if patch.rate not in (None, wire.WIRE_HZ):
        raise invalid(f"audio/pcm has {wire.WIRE_HZ} Hz here, not {patch.rate}; resample", param=f"{param}.rate")


def offered_tools(patches: list[ToolPatch], *, param: str) -> tuple[Tool, ...]:
    """The tools. Raises ClientError for one that is no function, or cannot be taken."""
    for number, patch in enumerate(patches):
        if patch.type != "function":
            raise unsupported(
                f"only tools of the type function are taken, not {patch.type[:40]!r}", param=f"{param}[{number}].type"
            )
    return tools.checked(patches, param=param)


def tool_choice(asked: str | dict[str, Any], *, param: str) -> ToolChoice:
    """What is chosen. Raises ClientError where a tool would have to be called."""
    match asked:
        case "auto" | "none":
            return asked
        case _:
            raise unsupported("that a tool is called cannot be asked for yet; choose auto or none", param=param)


def refuse_prompt(prompt: dict[str, Any] | None, *, param: str) -> None:
    """Raises ClientError for a stored prompt: it lies with OpenAI."""
    if prompt is not None:
        raise unsupported("stored prompts are not served; write the instructions out", param=f"{param}.prompt")


def _check_language(language: str | None, served: Served) -> None:
    if language and language.split("-")[0].lower() not in served.languages:
        raise unsupported(
            f"speech is not recognised in {language[:20]!r}; there are: {', '.join(served.languages)}",
            param="session.audio.input.transcription.language",
        )
