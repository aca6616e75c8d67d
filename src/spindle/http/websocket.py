"""Opening WebSockets: to checked addresses, and with the errors that a refusal means."""

from __future__ import annotations

import socket
import ssl
from typing import TYPE_CHECKING

from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import InvalidHandshake, InvalidStatus, InvalidURI
from websockets.typing import Subprotocol
from websockets.uri import parse_uri

from spindle.errors import ConfigurationError, ConnectionFailedError, ServerError, SpindleError, from_status
from spindle.http.credentials import cookie_header
from spindle.http.proxies import is_proxied
from spindle.http.public import connect_public, public_addresses
from spindle.http.request import with_query
from spindle.http.retry_after import retry_after

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from spindle.domain.identity import Credential

CLOSE_TIMEOUT = 2.0


class _Connect(connect):
    def process_redirect(self, exc: Exception) -> Exception | str:
        # Our headers may be credentials of any name, which must not go to another server.
        return exc


async def open_websocket(
    name: str,
    url: str,
    credential: Credential,
    *,
    headers: Mapping[str, str],
    max_size: int,
    keep_alive: float | None,
    subprotocols: Sequence[str] = (),
    public_only: bool = False,
) -> ClientConnection:
    """Opens the connection of the source `name`. Redirects are not followed. `public_only`: somebody else
    chose the address, so it may not be one of ours; raises InsideError where it is."""
    shown = {**headers, **dict(credential.headers)}
    if credential.cookies:
        shown["Cookie"] = cookie_header(credential.cookies)
    made: socket.socket | None = None
    try:
        made = await _checked(url) if public_only else None
        return await _Connect(
            with_query(url, credential.query),
            additional_headers=shown,
            subprotocols=[Subprotocol(item) for item in subprotocols] or None,
            max_size=max_size,
            open_timeout=None,
            close_timeout=CLOSE_TIMEOUT,
            ping_interval=keep_alive,
            ping_timeout=keep_alive,
            # The library resolves no name for a socket that it is given, and TLS still asks for the name.
            sock=made,
        )
    except BaseException as error:
        if made is not None:
            made.close()
        if isinstance(error, Exception):
            raise _as_error(name, error) from None
        raise


async def _checked(url: str) -> socket.socket | None:
    """A connected socket; None where a proxy makes the connection, and we can only look."""
    target = parse_uri(url)
    if is_proxied():
        await public_addresses(target.host)
        return None
    return await connect_public(target.host, target.port)


def _as_error(name: str, error: Exception) -> Exception:
    match error:
        case InvalidStatus():
            return _refused(name, error)
        case InvalidURI():
            return ConfigurationError(
                f"the url of {name!r} is not an address of a WebSocket service",
                hint=f"see sources.{name}.url",
                source=name,
            )
        case InvalidHandshake():
            return ServerError(
                f"{name!r} does not answer as a WebSocket service: {error}",
                hint="check the path in its url, and `subprotocols`",
                sent=False,
            )
        case ssl.SSLCertVerificationError():
            return ConnectionFailedError(
                f"the certificate of {name!r} cannot be trusted: {error.verify_message}",
                sent=False,
                unreachable=True,
            )
        case OSError() | EOFError():
            return ConnectionFailedError(
                f"cannot reach {name!r}: {error}",
                hint="check `url`, and that its server runs",
                sent=False,
                unreachable=True,
            )
        case _:
            return error


def _refused(name: str, error: InvalidStatus) -> SpindleError:
    response = error.response
    status = response.status_code
    message = f"{name!r} refused the connection with HTTP status {status}"
    # The library's own mapping raises for a header that comes twice.
    headers = {key.lower(): value for key, value in response.headers.raw_items()}
    if 300 <= status < 400:
        message += f": it has moved to {headers.get('location', 'an unknown place')}"
    wait = retry_after(headers)
    return from_status(status, message, retry_after=wait, sent=False)
