"""Requests to authorisation servers: bounded in time and size, only where it is safe to go, and with no
secret in any message."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any
from urllib.parse import urlencode, urlsplit

from spindle.domain.bounded import BoundedMap
from spindle.domain.json_schema import from_json, is_object, to_json
from spindle.errors import AuthError, ConnectionFailedError, ServerError, SpindleError
from spindle.http.addresses import host_of, is_loopback, is_wholly_inside, leads_inside

if TYPE_CHECKING:
    from spindle.http.answer import HttpAnswer
from spindle.http.client import HttpClient

TIMEOUT = 10.0
"""Seconds for one request in all. Two of them must fit into a lease."""
MAX_BODY = 256 * 1024
MAX_REDIRECTS = 3


@dataclass(frozen=True, slots=True)
class OAuthAnswer:
    """An authorisation server's answer: its status, body and challenge."""

    status: int
    body: bytes
    challenge: str | None = None

    def json(self) -> dict[str, Any] | None:
        """Returns the object that the body is; None for anything else."""
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
    """Sends the requests of an app's logins; no connection is opened until the first."""

    timeout = TIMEOUT

    def __init__(self) -> None:
        self._client: HttpClient | None = None
        self._outside: BoundedMap[str, None] = BoundedMap(10_000)
        """Origins that have answered from outside, whatever their names lead to by now."""

    async def close(self) -> None:
        """Closes all connections."""
        if self._client is not None:
            await self._client.aclose()
            self._client = None

    async def check(self, url: str, *, found_by: str | None) -> None:
        """Refuses a URL that must not be used. `found_by` is the source whose metadata named it; one that
        the user wrote needs no such proof of innocence, but must still be encrypted."""
        await self.check_address(url)
        if await self.is_bound(found_by) and await leads_inside(url):
            raise self.inside(url, found_by)

    async def check_address(self, url: str) -> None:
        """Raises AuthError for an address that no token may go to."""
        host = host_of(url)
        parts = urlsplit(url if host else "")
        if parts.scheme not in ("https", "http"):
            raise AuthError(f"{url[:200]!r} is not a web address")
        if parts.username or parts.password:
            raise AuthError("a URL that contains a user name is not accepted for OAuth")
        if parts.scheme == "http" and not is_loopback(host):
            raise AuthError(
                f"{parts.scheme}://{parts.netloc} is not encrypted, so no token may go there",
                hint="OAuth needs https, except on this very machine",
            )

    async def is_bound(self, found_by: str | None) -> bool:
        """True if a server outside named the address, so that it may not lead inside."""
        if found_by is None:
            return False
        return origin(found_by) in self._outside or not await is_wholly_inside(found_by)

    def inside(self, url: str, found_by: str | None) -> SpindleError:
        """Returns the error for an address that leads inside and may not."""
        return AuthError(
            f"metadata of {origin(found_by or url)} points at {origin(url)}, which is inside this network",
            hint="to allow it, set `issuer` in the source's `auth`",
        )

    async def get(self, url: str, *, found_by: str | None, follow: bool = True) -> OAuthAnswer:
        """Gets a URL without a credential, following a few redirects, each of which is checked."""
        headers = {"accept": "application/json, text/event-stream"}
        return await self._send("GET", url, headers, None, found_by, MAX_REDIRECTS if follow else 0)

    async def post_form(
        self, url: str, form: Mapping[str, str], headers: Mapping[str, str], *, found_by: str | None
    ) -> OAuthAnswer:
        """Posts a form. Redirects are not followed: their target would receive the form's content."""
        kind = "application/x-www-form-urlencoded"
        shown = {"accept": "application/json", "content-type": kind, **headers}
        return await self._send("POST", url, shown, urlencode(form).encode(), found_by, 0)

    async def post_json(self, url: str, value: Any, *, found_by: str | None) -> OAuthAnswer:
        """Posts a JSON value. Redirects are not followed."""
        headers = {"accept": "application/json", "content-type": "application/json"}
        return await self._send("POST", url, headers, to_json(value), found_by, 0)

    async def _send(
        self,
        method: str,
        url: str,
        headers: dict[str, str],
        content: bytes | None,
        found_by: str | None,
        redirects: int,
    ) -> OAuthAnswer:
        from spindle.http.exchange import RedirectPolicy, exchange
        from spindle.http.failures import HttpFailure, InsideError, RedirectError, TooLargeError, UnpackError
        from spindle.http.request import Prepared

        request = Prepared(method, url, {**headers, "accept-encoding": "identity"}, content)
        policy = RedirectPolicy(redirects, check=self.check_address)
        place = origin(url)
        try:
            async with (
                asyncio.timeout(self.timeout),
                exchange(self.opened(), request, policy, public_only=await self.is_bound(found_by)) as answer,
            ):
                if await answer.is_from_outside():
                    self._outside[origin(answer.url)] = None
                # A stream of events, which the source itself may answer with, never ends.
                body = b"" if answer.media_type == "text/event-stream" else await _read(answer, place)
        except TimeoutError:
            raise ConnectionFailedError(
                f"{place} did not answer within {self.timeout:g} s", hint="try again", sent=False
            ) from None
        except InsideError as failure:
            raise self.inside(f"{urlsplit(url).scheme}://{failure.host}", found_by) from None
        except (RedirectError, TooLargeError, UnpackError) as failure:
            raise ServerError(f"{place} {failure}", sent=False) from None
        except HttpFailure as failure:
            raise ConnectionFailedError(
                f"cannot reach {place}: {failure}", hint="check that it is up, and try again", sent=False
            ) from None
        return OAuthAnswer(answer.status, body, answer.headers.get("www-authenticate"))

    def opened(self) -> HttpClient:
        """Returns the client that requests are sent with."""
        from spindle.http.client import HttpClient

        if self._client is None:
            self._client = HttpClient(self.timeout)
        return self._client


async def _read(answer: HttpAnswer, place: str) -> bytes:
    if answer.headers.get("content-encoding", "identity") != "identity":
        # It was told not to. A small body may unpack to one of any size.
        raise ServerError(f"{place} sent a compressed answer, which was not asked for")
    return await answer.read(MAX_BODY)


_OWN_CODES = {
    # GitHub's
    "bad_refresh_token": "invalid_grant",
    "bad_verification_code": "invalid_grant",
    "incorrect_client_credentials": "invalid_client",
    # Slack's
    "bad_client_secret": "invalid_client",
    "code_already_used": "invalid_grant",
    "invalid_client_id": "invalid_client",
    "invalid_code": "invalid_grant",
    "invalid_refresh_token": "invalid_grant",
    "token_expired": "invalid_grant",
}
"""Codes of providers, and those of the standard that they mean."""


def refused(answer: OAuthAnswer, what: str, place: str, secrets: frozenset[str]) -> SpindleError:
    """The error that an answer other than success stands for: one of OAuth's own codes (OAuthProblem), or
    a failure that says nothing of the request."""
    found = answer.json() or {}
    code = found.get("error")
    # Some large providers refuse with the status of success.
    is_refusal = answer.status == 200 or (400 <= answer.status < 500 and answer.status != 429)
    if is_refusal and isinstance(code, str) and code:
        said = words(code, found.get("error_description"), secrets)
        known = _OWN_CODES.get(code, code)
        return OAuthProblem(f"{place} refused {what}: {said}", code=known, status=answer.status, sent=False)
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
