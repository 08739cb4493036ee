"""Opens a WebSocket, and says in a sentence why it could not."""

from __future__ import annotations

import msgspec
from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import InvalidHandshake, InvalidStatus, InvalidURI

from duplex.client.events import Failure
from duplex.errors import TalkError


async def open_socket(*, url: str, api_key: str | None, timeout_s: float) -> ClientConnection:
    """Connect, straight and without a proxy.

    Raises:
        TalkError: no server, a refusal, or no answer within `timeout_s`; one sentence with the remedy.
    """
    try:
        return await connect(
            url,
            additional_headers={"Authorization": f"Bearer {api_key}"} if api_key else {},
            compression=None,  # deflate costs a multiple of the CPU for few bytes of audio
            max_size=16 << 20,
            open_timeout=timeout_s,
            close_timeout=2.0,
            proxy=None,
        )
    except InvalidStatus as error:
        raise TalkError(_refusal(url, error)) from None
    except TimeoutError:
        raise TalkError(f"the server at {url} did not answer within {timeout_s:g} s; is it busy?") from None
    except (InvalidURI, ValueError):
        raise TalkError(
            f"{url} is not the address of a server; give one like ws://127.0.0.1:8000/v1/realtime"
        ) from None
    except OSError as error:
        reason = error.strerror or str(error)
        raise TalkError(f"no server at {url} ({reason}); start one with `duplex serve`, or give --url") from None
    except (InvalidHandshake, EOFError) as error:
        raise TalkError(f"what answers at {url} speaks no WebSocket ({error}); check --url") from None


def _refusal(url: str, error: InvalidStatus) -> str:
    status = error.response.status_code
    said = _message(error.response.body or b"")
    match status:
        case 401 | 403:
            return f"the server at {url} refused ({status}{said}); give its key with --api-key"
        case 429 | 503:
            after = error.response.headers.get("Retry-After")
            remedy = f"try again in {after} s" if after and after.isdecimal() else "try again later"
            return f"the server at {url} has no room or is not ready ({status}{said}); {remedy}"
        case _:
            return f"the server at {url} refused ({status}{said}); check --url"


class _Body(msgspec.Struct):
    error: Failure


def _message(body: bytes | bytearray) -> str:
    try:
        message = msgspec.json.decode(body, type=_Body).error.message
    except msgspec.DecodeError:
        message = bytes(body[:200]).decode("utf-8", "replace").partition("\n")[0]
    return f": {message.strip().rstrip('.')}" if message.strip() else ""
