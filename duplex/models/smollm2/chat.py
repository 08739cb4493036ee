"""The chat template, rendered by us: what was said once is the same bytes in every later prompt, so its prefix stays
cached. Equal to the template in the GGUF file, but for its default system message, which we leave out."""

from __future__ import annotations

import re
from collections.abc import Sequence

from duplex.connector.payload import Message
from duplex.errors import StateError

STOP = ("<|im_end|>", "<|im_start|>")
"""Markers that end an answer; the first also is the model's own end token."""

END = "<|im_end|>\n"
"""What follows the text of each message."""

ANSWER = "<|im_start|>assistant\n"
"""What follows the last message and asks for the answer."""

_ROLES = frozenset({"system", "user", "assistant"})
_NAMED = (
    "repo_name|reponame|file_sep|filename|gh_stars|issue_start|issue_comment|issue_closed|jupyter_start|jupyter_text"
    "|jupyter_code|jupyter_output|jupyter_script|empty_output"
)
_SPECIAL = re.compile(rf"<(?=\||(?:{_NAMED})>)")


def escape(text: str) -> str:
    """`text` with no token in it that means something to the model: a space after the ``<`` makes it plain letters.

    Nobody can forge a turn by saying or typing a marker, in one piece or in nested ones. Half a surrogate pair, which
    is no text, becomes a question mark.
    """
    return _SPECIAL.sub("< ", text.encode(errors="replace").decode())


def render(message: Message) -> str:
    """One message as the model is to see it.

    Raises:
        StateError: the role is none of system, user, assistant.
    """
    if message.role not in _ROLES:
        raise StateError(f"a prompt cannot have the role {message.role!r}")
    return f"<|im_start|>{message.role}\n{escape(message.text)}{END}"


def prompt(messages: Sequence[Message], *, complete: bool = True) -> str:
    """All messages, and the request for an answer; or, where the last message is not complete, without its end."""
    if complete:
        return "".join(map(render, messages)) + ANSWER
    return "".join(map(render, messages)).removesuffix(END)
