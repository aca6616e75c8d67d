"""OAuth 2 client credentials: a token of our own, fetched when needed and kept while it is good."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any
from urllib.parse import quote_plus, urlsplit

from spindle.domain.json_schema import JsonObject, from_json, is_object
from spindle.errors import AuthError, ConnectionFailedError, ServerError, SpindleError, from_status
from spindle.http.credentials import basic_header

if TYPE_CHECKING:
    import httpx2

MARGIN = 30.0
"""Seconds before its end that a token is no longer used; a tenth of its life where that is shorter."""
MAX_ANSWER = 1024 * 1024


class ClientCredentials:
    """The token of one client at one token endpoint. Parallel callers share one request for it."""

    def __init__(
        self,
        token_url: str,
        client_id: str,
        client_secret: str,
        scope: str | None = None,
        *,
        client: httpx2.AsyncClient,
        timeout: float = 30.0,
        check: Callable[[str], Awaitable[None]] | None = None,
        now: Callable[[], float] = time.monotonic,
    ) -> None:
        """`check` may refuse the endpoint before anything is sent there."""
        self._url = token_url
        self._id = client_id
        self._secret = client_secret
        self._scope = scope
        self._client = client
        self._timeout = timeout
        self._check = check
        self._now = now
        self._token: str | None = None
        self._good_until = float("inf")
        self._by_header = False
        self._fetching = asyncio.Lock()

    async def token(self) -> str:
        async with self._fetching:
            if self._token is None or self._now() >= self._good_until:
                self._token = None
                self._keep(await self._fetch())
            assert self._token is not None
            return self._token

    def refused(self, token: str) -> None:
        """A server did not take the token. Only the one in use is dropped: by now it may be another."""
        if token == self._token:
            self._token = None

    def _keep(self, answer: JsonObject) -> None:
        self._token = answer["access_token"]
        lifetime = _seconds(answer.get("expires_in"))
        # Without a lifetime it is good until a server refuses it.
        self._good_until = (
            float("inf") if lifetime is None else self._now() + lifetime - min(MARGIN, lifetime / 10)
        )

    async def _fetch(self) -> JsonObject:
        if self._check is not None:
            await self._check(self._url)
        status, answer = await self._ask()
        if status in (400, 401) and not self._by_header:
            # Some servers take the client's name and secret only in a header, others only in the body.
            self._by_header = True
            refusal = self._refusal(status, answer)
            status, answer = await self._ask()
            if status >= 300:
                self._by_header = False
                raise refusal
        if status >= 300:
            raise self._refusal(status, answer)
        token = answer.get("access_token")
        if not isinstance(token, str) or not token or not token.isprintable():
            raise ServerError(
                f"the token endpoint {self._shown} answered without an access token", sent=False
            )
        return answer

    async def _ask(self) -> tuple[int, JsonObject]:
        import httpx2

        fields = {"grant_type": "client_credentials"} | ({"scope": self._scope} if self._scope else {})
        headers = {"accept": "application/json"}
        if self._by_header:
            headers["authorization"] = basic_header(quote_plus(self._id), quote_plus(self._secret))
        else:
            fields |= {"client_id": self._id, "client_secret": self._secret}
        body = bytearray()
        try:
            async with (
                asyncio.timeout(self._timeout),
                # Not redirected: whoever it leads to would be given the secret.
                self._client.stream(
                    "POST", self._url, data=fields, headers=headers, follow_redirects=False
                ) as response,
            ):
                async for chunk in response.aiter_bytes():
                    body += chunk
                    if len(body) > MAX_ANSWER:
                        raise ServerError(
                            f"the token endpoint {self._shown} answered with more than {MAX_ANSWER} bytes",
                            sent=False,
                        )
        except (httpx2.HTTPError, httpx2.InvalidURL, TimeoutError) as error:
            raise ConnectionFailedError(
                f"cannot get a token from {self._shown}: {str(error) or type(error).__name__}",
                hint="check the token URL and that its server runs",
                sent=False,
            ) from error
        return response.status_code, _object(bytes(body))

    def _refusal(self, status: int, answer: JsonObject) -> SpindleError:
        said = " ".join(
            str(answer[key])[:300]
            for key in ("error", "error_description")
            if isinstance(answer.get(key), str)
        )
        message = f"the token endpoint {self._shown} answered with HTTP status {status}"
        message += f": {said}" if said else ""
        if status in (400, 401, 403):
            return AuthError(
                message, hint="check the client's id, secret and scope", status=status, sent=False
            )
        if status < 400:
            return ServerError(f"{message}; redirects are not followed there", status=status, sent=False)
        return from_status(status, message, sent=False)

    @property
    def _shown(self) -> str:
        parts = urlsplit(self._url)
        return f"{parts.scheme}://{parts.hostname or ''}{parts.path}"


def _seconds(value: Any) -> float | None:
    """`expires_in` is a number, which some servers write as text."""
    if isinstance(value, bool) or not isinstance(value, (int, float, str)):
        return None
    try:
        seconds = float(value)
    except ValueError:
        return None
    return seconds if 0 <= seconds < float("inf") else None


def _object(body: bytes) -> JsonObject:
    try:
        data: Any = from_json(body) if body else {}
    except ValueError:
        data = {}
    return data if is_object(data) else {}
