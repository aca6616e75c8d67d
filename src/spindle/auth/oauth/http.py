"""Requests to authorisation servers: bounded in time and size, only where it is safe to go, and with no
secret in any message."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from spindle.domain.json_schema import from_json, is_object
from spindle.errors import AuthError, ConnectionFailedError, ServerError, SpindleError
from spindle.http.addresses import is_loopback, leads_inside

if TYPE_CHECKING:
    import ssl

    import httpx2

TIMEOUT = 10.0
"""Seconds for one request in all. Two of them must fit into a lease."""
MAX_BODY = 256 * 1024
MAX_REDIRECTS = 3

IsPrivate = Callable[[str], Awaitable[bool]]
"""Whether a URL leads to this machine or a network of its own."""


@dataclass(frozen=True, slots=True)
class Answer:
    status: int
    body: bytes
    challenge: str | None = None

    def json(self) -> dict[str, Any] | None:
        try:
            found = from_json(self.body)
        except ValueError:
            return None
        return found if is_object(found) else None


class OAuthProblem(AuthError):  # noqa: N818 - it is one among errors: what RFC 6749 calls an error response
    """The provider refused, with one of OAuth's own codes."""

    def __init__(self, message: str, *, code: str = "", **fields: Any) -> None:
        super().__init__(message, **fields)
        self.code = code


class OAuthHttp:
    """One client for all requests of an app; nothing is opened until the first."""

    def __init__(
        self,
        is_private: IsPrivate | None = None,
        ssl_context: Callable[[], ssl.SSLContext] | None = None,
    ) -> None:
        self._is_private = is_private or leads_inside
        self._ssl_context = ssl_context
        self._client: httpx2.AsyncClient | None = None

    async def close(self) -> None:
        if self._client is not None:
            await self._client.aclose()
            self._client = None

    async def check(self, url: str, *, found_by: str | None) -> None:
        """Refuse a URL that must not be used. `found_by` is the source whose metadata named it; one that
        the user wrote needs no such proof of innocence, but must still be encrypted."""
        try:
            parts = urlsplit(url)
            host = parts.hostname or ""
        except ValueError:
            parts, host = urlsplit(""), ""
        if parts.scheme not in ("https", "http") or not host:
            raise AuthError(f"{url[:200]!r} is not a URL of the web")
        if parts.username or parts.password:
            raise AuthError("a URL with a user's name in it is not used for OAuth")
        if parts.scheme == "http" and not is_loopback(host):
            raise AuthError(
                f"{parts.scheme}://{parts.netloc} is not encrypted, so no token may go there",
                hint="OAuth needs https, except on this very machine",
            )
        if found_by is None or await self._is_private(found_by):
            return
        if await self._is_private(url):
            raise AuthError(
                f"metadata of {origin(found_by)} points at {origin(url)}, which is inside this network",
                hint="to allow it, set `issuer` in the source's `auth`",
            )

    async def get(self, url: str, *, found_by: str | None, follow: bool = True) -> Answer:
        """GET without a credential, following a few redirects, each of which is checked."""
        import httpx2

        for _ in range(MAX_REDIRECTS + 1):
            await self.check(url, found_by=found_by)
            request = httpx2.Request("GET", url, headers={"accept": "application/json, text/event-stream"})
            answer, location = await self._send(request)
            if not follow or location is None:
                return answer
            url = str(httpx2.URL(url).join(location))
        raise ServerError(f"{origin(url)} redirects without an end")

    async def post_form(
        self, url: str, form: Mapping[str, str], headers: Mapping[str, str], *, found_by: str | None
    ) -> Answer:
        import httpx2

        await self.check(url, found_by=found_by)
        shown = {"accept": "application/json", **headers}
        return (await self._send(httpx2.Request("POST", url, data=dict(form), headers=shown)))[0]

    async def post_json(self, url: str, value: Any, *, found_by: str | None) -> Answer:
        import httpx2

        await self.check(url, found_by=found_by)
        request = httpx2.Request("POST", url, json=value, headers={"accept": "application/json"})
        return (await self._send(request))[0]

    async def _send(self, request: httpx2.Request) -> tuple[Answer, str | None]:
        import httpx2

        place = origin(str(request.url))
        request.headers["accept-encoding"] = "identity"
        try:
            async with asyncio.timeout(TIMEOUT):
                response = await self._opened().send(request, stream=True)
                try:
                    challenge = response.headers.get("www-authenticate")
                    location = response.headers.get("location") if response.is_redirect else None
                    kind = response.headers.get("content-type", "")
                    # A stream of events, which the source itself may answer with, never ends.
                    body = b"" if kind.startswith("text/event-stream") else await _read(response, place)
                finally:
                    await response.aclose()
        except TimeoutError:
            raise ConnectionFailedError(
                f"{place} did not answer within {TIMEOUT:g} s", hint="try again", sent=False
            ) from None
        except (httpx2.TransportError, httpx2.StreamError) as error:
            reason = str(error) or type(error).__name__
            raise ConnectionFailedError(
                f"cannot reach {place}: {reason}", hint="check that it is up, and try again", sent=False
            ) from None
        return Answer(response.status_code, body, challenge), location

    def _opened(self) -> httpx2.AsyncClient:
        import httpx2

        if self._client is None:
            self._client = httpx2.AsyncClient(
                verify=self._ssl_context() if self._ssl_context else httpx2.create_ssl_context(),
                follow_redirects=False,
                timeout=TIMEOUT,
            )
        return self._client


async def _read(response: httpx2.Response, place: str) -> bytes:
    body = bytearray()
    if response.headers.get("content-encoding", "identity") != "identity":
        # It was told not to. A small body may unpack to one of any size.
        raise ServerError(f"{place} sent a compressed answer, which was not asked for")
    async for chunk in response.aiter_raw():
        body += chunk
        if len(body) > MAX_BODY:
            raise ServerError(f"the answer of {place} is larger than {MAX_BODY} bytes")
    return bytes(body)


def refused(answer: Answer, what: str, place: str, secrets: frozenset[str]) -> SpindleError:
    """The error that an answer other than success stands for: one of OAuth's own codes (OAuthProblem), or
    a failure that says nothing of the request."""
    found = answer.json() or {}
    code = found.get("error")
    if 400 <= answer.status < 500 and answer.status != 429 and isinstance(code, str) and code:
        said = words(code, found.get("error_description"), secrets)
        return OAuthProblem(f"{place} refused {what}: {said}", code=code, status=answer.status, sent=False)
    # A 2xx that is not what the standard says may have come from a proxy's login page.
    said = f"answered {what} with HTTP status {answer.status}"
    if answer.status < 300:
        said = f"answered {what} with something that is not what OAuth prescribes"
    elif answer.status < 400:
        said = f"redirects {what}, which is not followed"
    retryable = answer.status < 300 or answer.status == 429 or answer.status >= 500
    return ServerError(
        f"{place} {said}", retryable=retryable, hint="try again" if retryable else None, status=answer.status,
        sent=False,
    )  # fmt: skip


def words(code: str, description: Any, secrets: frozenset[str]) -> str:
    """A provider's error as it may be shown: short, on one line, without anything secret."""
    text = f"{code}: {description}" if isinstance(description, str) and description else code
    for secret in sorted(secrets, key=len, reverse=True):
        if len(secret) >= 4:
            text = text.replace(secret, "•••")
    return " ".join(text.split())[:200]


def origin(url: str) -> str:
    """A URL as it may be shown: without path and query."""
    try:
        parts = urlsplit(url)
        return f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}"
    except ValueError:
        return "a URL that is none"
