"""Calls of tools as HTTP requests: limits on sizes, files to the file store, errors in the source's words."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterable
from dataclasses import replace
from typing import TYPE_CHECKING, Protocol

from spindle.domain.call import INLINE_LIMIT, Result
from spindle.errors import SpindleError
from spindle.http.answer import HttpAnswer
from spindle.http.client import HttpClient
from spindle.http.exchange import RedirectPolicy, followed
from spindle.http.failures import HttpFailure, TooLargeError, as_error
from spindle.http.request import Prepared
from spindle.http.responses import is_file, to_error, to_file, to_result

if TYPE_CHECKING:
    from types import TracebackType

    from spindle.domain.call import Call, FileKeeper

_PIECE = 1024 * 1024
MAX_REACHED = 5
"""Addresses of one source that are tried: a document may name hundreds."""


class ApiSettings(Protocol):
    """The settings that count for requests, whatever kind of source they are of."""

    @property
    def connect_timeout(self) -> float: ...
    @property
    def allow_private(self) -> bool: ...
    @property
    def max_result_size(self) -> int: ...


class DownloadSettings(ApiSettings, Protocol):
    """The settings of sources that keep large answers as files."""

    @property
    def max_download_size(self) -> int: ...


class ApiClient:
    """Makes the requests of one session, over connections that are kept."""

    reach_hint = "check that the API is there, and `base_url`"
    inside_hint = "set sources.{name}.allow_private = true, or its base_url, if that is meant"

    def __init__(self, name: str, settings: ApiSettings) -> None:
        self.name = name
        self.http = HttpClient(settings.connect_timeout)
        self._settings = settings
        self._policy = RedirectPolicy(may_lead_inside=settings.allow_private)

    async def aclose(self) -> None:
        await self.http.aclose()

    def answer(
        self,
        prepared: Prepared,
        *,
        public_only: bool,
        below: str | None = None,
        check: Callable[[str], Awaitable[None]] | None = None,
    ) -> contextlib.AbstractAsyncContextManager[HttpAnswer, None]:
        """Sends a request and hands over its answer. What goes wrong, while it is read too, is raised in the
        words of this source."""
        policy = self._policy
        if below is not None or check is not None:
            policy = replace(policy, below=below, check=check)
        return _Answering(self, prepared, policy, public_only)

    async def reach(self, urls: Iterable[str], *, public_only: bool) -> None:
        """Raises a SpindleError for the first of these addresses at which nobody answers. Any answer will do:
        it is asked without a credential, and for nothing in particular."""
        for url in list(dict.fromkeys(urls))[:MAX_REACHED]:
            prepared = Prepared("GET", url, {"accept": "*/*"})
            async with self.answer(prepared, public_only=public_only):
                pass

    @property
    def limit(self) -> int:
        """The most bytes that a result may have."""
        return self._settings.max_result_size

    async def body(self, answer: HttpAnswer) -> bytes:
        """The whole of an answer that becomes a result."""
        return await answer.read(self.limit)

    def error(self, failure: HttpFailure, size_setting: str = "max_result_size") -> SpindleError:
        """Returns what a failure is to the user of this source."""
        inside_hint = self.inside_hint.format(name=self.name)
        return as_error(
            failure, self.name, reach_hint=self.reach_hint, inside_hint=inside_hint, size_setting=size_setting
        )


class _Answering(contextlib.AbstractAsyncContextManager[HttpAnswer, None]):
    """An answer, while somebody reads it. A class, because a generator costs every call more."""

    __slots__ = ("_answer", "_client", "_policy", "_prepared", "_public_only")

    def __init__(
        self, client: ApiClient, prepared: Prepared, policy: RedirectPolicy, public_only: bool
    ) -> None:
        self._client = client
        self._prepared = prepared
        self._policy = policy
        self._public_only = public_only
        self._answer: HttpAnswer | None = None

    async def __aenter__(self) -> HttpAnswer:
        try:
            self._answer = await followed(
                self._client.http, self._prepared, self._policy, public_only=self._public_only
            )
        except HttpFailure as failure:
            raise self._client.error(failure) from failure
        return self._answer

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._answer is not None:
            self._answer.release()
        if isinstance(error, HttpFailure):
            raise self._client.error(error) from error


class ApiCalls(ApiClient):
    """Makes requests whose answers are results of tools."""

    def __init__(self, name: str, settings: DownloadSettings) -> None:
        super().__init__(name, settings)
        self._max_download = settings.max_download_size

    async def perform(
        self,
        prepared: Prepared,
        call: Call,
        *,
        public_only: bool,
        promised: bool,
        below: str | None = None,
    ) -> Result:
        """`public_only`: somebody else chose the address, so it may not be one of ours. `promised`: the
        tool has an output schema. `below`: where redirects may lead, if not anywhere."""
        for name, value in call.key_in("header").items():
            prepared.headers.setdefault(name.lower(), value)
        async with self.answer(prepared, public_only=public_only, below=below) as answer:
            if answer.status >= 300:
                raise to_error(self.name, answer, await self.body(answer))
            if call.files is not None and is_file(answer):
                try:
                    return await self._download(answer, call.files, promised)
                except TooLargeError as failure:
                    raise self.error(failure, "max_download_size") from failure
            return to_result(answer, await self.body(answer), promised=promised)

    async def _download(self, answer: HttpAnswer, files: FileKeeper, promised: bool) -> Result:
        """Returns a small body in the result, and streams a large one into a file."""
        size = 0
        head = bytearray()
        async with contextlib.aclosing(answer.chunks(self._max_download, _PIECE)) as chunks:
            async for chunk in chunks:
                head += chunk
                if len(head) > INLINE_LIMIT:
                    break
            else:
                return to_result(answer, bytes(head), promised=promised)

            async def whole() -> AsyncGenerator[bytes]:
                nonlocal size
                size = len(head)
                yield bytes(head)
                async for chunk in chunks:
                    size += len(chunk)
                    yield chunk

            async with contextlib.aclosing(whole()) as pieces:
                path = await files.keep_stream(pieces, answer.media_type)
        return to_file(answer, size, path=path)
