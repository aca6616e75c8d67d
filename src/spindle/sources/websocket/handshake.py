"""Opening a connection, and what a refusal means."""

from __future__ import annotations

import ssl
from typing import TYPE_CHECKING
from urllib.parse import quote, urlsplit, urlunsplit

from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import InvalidHandshake, InvalidStatus, InvalidURI
from websockets.typing import Subprotocol

from spindle.errors import ConfigurationError, ConnectionFailedError, ServerError, SpindleError, from_status
from spindle.http.retry_after import retry_after

if TYPE_CHECKING:
    from spindle.domain.identity import Credential
    from spindle.sources.websocket.config import WebSocketConfig

CLOSE_TIMEOUT = 2.0


class _Connect(connect):
    def process_redirect(self, exc: Exception) -> Exception | str:
        # Our headers may be credentials of any name, which must not go to another server.
        return exc


async def open_connection(name: str, config: WebSocketConfig, credential: Credential) -> ClientConnection:
    """Opens the connection, or raises an error that says why it was refused."""
    headers = {**config.headers, **dict(credential.headers)}
    if credential.cookies:
        headers["Cookie"] = "; ".join(f"{key}={value}" for key, value in credential.cookies)
    pings = config.keep_alive or None
    try:
        return await _Connect(
            with_query(config.url, credential.query),
            additional_headers=headers,
            subprotocols=[Subprotocol(item) for item in config.subprotocols] or None,
            max_size=config.max_result_size,
            open_timeout=None,
            close_timeout=CLOSE_TIMEOUT,
            ping_interval=pings,
            ping_timeout=pings,
        )
    except InvalidStatus as error:
        raise _refused(name, error) from None
    except InvalidURI:
        raise ConfigurationError(
            f"the url of {name!r} is not an address of a WebSocket service",
            hint=f"see sources.{name}.url",
            source=name,
        ) from None
    except InvalidHandshake as error:
        raise ServerError(
            f"{name!r} does not answer as a WebSocket service: {error}",
            hint="check the path in its url, and `subprotocols`",
            sent=False,
        ) from None
    except ssl.SSLCertVerificationError as error:
        raise ConnectionFailedError(
            f"the certificate of {name!r} cannot be trusted: {error.verify_message}", sent=False
        ) from None
    except (OSError, EOFError) as error:
        raise ConnectionFailedError(f"cannot reach {name!r}: {error}", sent=False) from None


def with_query(url: str, pairs: tuple[tuple[str, str], ...]) -> str:
    """The URL with these query parameters added."""
    if not pairs:
        return url
    parts = urlsplit(url)
    added = "&".join(f"{quote(key, safe='')}={quote(value, safe='')}" for key, value in pairs)
    return urlunsplit(parts._replace(query=f"{parts.query}&{added}" if parts.query else added))


def _refused(name: str, error: InvalidStatus) -> SpindleError:
    response = error.response
    status = response.status_code
    message = f"{name!r} refused the connection with HTTP status {status}"
    if 300 <= status < 400:
        message += f": it has moved to {response.headers.get('Location', 'an unknown place')}"
    wait = retry_after(response.headers.get("Retry-After"))
    return from_status(status, message, retry_after=wait, sent=False)
