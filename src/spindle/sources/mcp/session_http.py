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
    from collections.abc import Awaitable, Mapping

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
        self,
        method: str,
        url: str,
        headers: Mapping[str, str],
        content: bytes | None = None,
        credential: Credential | None = None,
    ) -> Prepared:
        """A request with the credential of its caller; without a caller, with the session's own."""
        if credential is None and (exchange := current_exchange.get()) is not None:
            credential = exchange.credential
        request = Prepared(method, url, {**self._headers, **headers}, content)
        return with_credential(request, credential if credential is not None else self._own)

    async def send(self, request: Prepared) -> HttpAnswer:
        """Sends a request, and follows redirects that stay with the server. Raises an HttpFailure."""
        return await self._followed(await self.client.send(request))

    async def _followed(self, answer: HttpAnswer) -> HttpAnswer:
        followed = 0
        while answer.status in REDIRECTS:
            try:
                following = redirected(answer, _POLICY)
                if following is None:
                    break
                if followed == MAX_REDIRECTS:
                    raise RedirectError(f"redirected more than {MAX_REDIRECTS} times", answer.status)
            except RedirectError:
                answer.release()
                raise
            answer.release()
            answer, followed = await self.client.send(following), followed + 1
        return answer

    async def post(
        self, url: str, headers: Mapping[str, str], content: bytes, note: CallExchange
    ) -> HttpAnswer:
        """Posts a message. What comes back or fails is noted. Raises an HttpFailure."""
        note.begin()
        return await self._noted(self.send(self.request("POST", url, headers, content)), note)

    async def answered(self, answer: HttpAnswer, note: CallExchange) -> HttpAnswer:
        """The answer to what was posted at once, noted in the same way. Raises an HttpFailure."""
        return await self._noted(self._after(answer), note)

    async def _after(self, answer: HttpAnswer) -> HttpAnswer:
        await self.client.answered(answer)
        return await self._followed(answer)

    async def _noted(self, sending: Awaitable[HttpAnswer], note: CallExchange) -> HttpAnswer:
        try:
            answer = await sending
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
            answer.release()
            note.failure = LostError("the answer is compressed, which was not asked for")
            raise note.failure
        return answer
