"""The HTTP of one session: its headers and the caller's credential on each request, and a note for the caller
of what became of it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from spindle.errors import ConfigurationError
from spindle.http.answer import HttpAnswer
from spindle.http.client import HttpClient
from spindle.http.exchange import MAX_REDIRECTS, REDIRECTS, RedirectPolicy, redirected
from spindle.http.failures import HttpFailure, LostError, RedirectError, UnreachableError
from spindle.http.request import Prepared, with_credential
from spindle.http.retry_after import retry_after
from spindle.sources.mcp.exchange import CallExchange, current_exchange

if TYPE_CHECKING:
    from collections.abc import Mapping

    from spindle.domain.identity import Credential
    from spindle.sources.mcp.config import McpConfig


_POLICY = RedirectPolicy(same_origin=True, keeps_method=True, may_lead_inside=True)


class SessionHttp:
    """Sends the requests of one session."""

    def __init__(self, name: str, config: McpConfig, credential: Credential) -> None:
        for header, value in (*config.headers.items(), *credential.headers, *credential.cookies):
            # The HTTP library would refuse it too, with the value in its message.
            if not value.isprintable():
                raise ConfigurationError(
                    f"the header {header} for {name!r} holds a character that cannot be sent",
                    hint="a line break at its end, perhaps",
                    source=name,
                )
        self.client = HttpClient(config.connect_timeout, keeps_cookies=True)
        # A small body may unpack to one of any size.
        self._headers = {"accept-encoding": "identity"} | {
            key.lower(): value for key, value in config.headers.items()
        }
        self._own = credential

    async def aclose(self) -> None:
        await self.client.aclose()

    def request(
        self, method: str, url: str, headers: Mapping[str, str], content: bytes | None = None
    ) -> Prepared:
        """A request with the credential of its caller; without a caller, with the session's own."""
        exchange = current_exchange.get()
        shown = exchange.credential if exchange is not None else None
        request = Prepared(method, url, {**self._headers, **headers}, content)
        return with_credential(request, shown if shown is not None else self._own)

    async def send(self, request: Prepared) -> HttpAnswer:
        """Sends a request, and follows redirects that stay with the server. Raises an HttpFailure."""
        followed = 0
        while True:
            answer = await self.client.send(request)
            if answer.status not in REDIRECTS:
                return answer
            try:
                following = redirected(answer, _POLICY)
            except RedirectError:
                await answer.aclose()
                raise
            if following is None:
                return answer
            await answer.aclose()
            if followed == MAX_REDIRECTS:
                raise RedirectError(f"redirected more than {MAX_REDIRECTS} times", answer.status)
            request, followed = following, followed + 1

    async def post(
        self, url: str, headers: Mapping[str, str], content: bytes, note: CallExchange
    ) -> HttpAnswer:
        """Posts a message. What comes back or fails is noted. Raises an HttpFailure."""
        note.begin()
        try:
            answer = await self.send(self.request("POST", url, headers, content))
        except RedirectError as failure:
            note.status = failure.status
            raise
        except HttpFailure as failure:
            note.failure = failure
            note.never_sent = isinstance(failure, UnreachableError) and not failure.sent
            raise
        note.status = answer.status
        if answer.status >= 300:
            note.challenge = answer.headers.get("www-authenticate")
            note.retry_after = retry_after(answer.headers)
        if answer.headers.get("content-encoding", "identity") != "identity":
            await answer.aclose()
            note.failure = LostError("the answer is compressed, which was not asked for")
            raise note.failure
        return answer
