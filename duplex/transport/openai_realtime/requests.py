"""What a client wants of one response."""

from __future__ import annotations

from duplex.protocol.openai_realtime.client import ResponseCreate
from duplex.session.events import CreateResponse
from duplex.session.settings import ResponseOptions, SessionSettings
from duplex.transport.info import Served
from duplex.transport.openai_realtime import configuration
from duplex.transport.openai_realtime.refusal import unsupported


def requested(event: ResponseCreate, settings: SessionSettings, served: Served) -> CreateResponse:
    """The session's event. Raises ClientError where the response asks for what is not served.

    Args:
        settings: those that the response will start from.
    """
    patch = event.response
    if patch is None:
        return CreateResponse(event_id=event.event_id)
    if patch.conversation == "none":
        raise unsupported("responses outside the conversation are not served", param="response.conversation")
    if patch.input:
        raise unsupported("create items instead, then the response", param="response.input")
    if patch.tools:
        raise unsupported("a response has its session's tools; change those", param="response.tools")
    configuration.refuse_prompt(patch.prompt, param="response")
    output = patch.audio.output if patch.audio is not None else None
    if output is not None:
        configuration.check_format(output.format, param="response.audio.output.format")
    if output is not None and output.voice is not None:
        param = "response.audio.output.voice"
        if configuration.voice(output.voice, served, param=param) != configuration.voice_in_use(settings, served):
            raise unsupported("a response speaks with its session's voice; change that one", param=param)
    modality = patch.output_modalities
    limit = patch.max_output_tokens
    choice = patch.tool_choice
    options = ResponseOptions(
        instructions=patch.instructions,
        modality=configuration.modality(modality, param="response.output_modalities") if modality else None,
        max_output_tokens=configuration.token_limit(limit) if limit is not None else None,
        tool_choice=configuration.tool_choice(choice, param="response.tool_choice") if choice is not None else None,
        metadata=tuple((patch.metadata or {}).items()),
    )
    return CreateResponse(options=options, event_id=event.event_id)
