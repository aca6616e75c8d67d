"""One pooled HTTP client under one credential: reads the document, makes the calls."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import TYPE_CHECKING, Self

import httpx2

from spindle.domain.call import Call, Result
from spindle.domain.identity import Credential
from spindle.domain.tool import Tool, ToolSpec
from spindle.errors import ConfigurationError, ConnectionFailedError, ResultTooLargeError, ServerError
from spindle.sources.http import CONNECT_FAILURES, is_private, same_origin, shared_ssl_context
from spindle.sources.openapi.documents import file_address, load
from spindle.sources.openapi.fetch import Fetcher
from spindle.sources.openapi.operations import import_tools
from spindle.sources.openapi.request import Prepared, prepare
from spindle.sources.openapi.responses import to_error, to_result

if TYPE_CHECKING:
    from types import TracebackType

    from spindle.ports.source import Note
    from spindle.sources.openapi.config import OpenApiConfig

MAX_REDIRECTS = 5
# All that follows a redirect to somebody else.
_HARMLESS = frozenset({"accept", "content-type", "user-agent", "accept-language"})


class OpenApiSession:
    def __init__(
        self, name: str, config: OpenApiConfig, root: Path, credential: Credential, note: Note
    ) -> None:
        self._name = name
        self._config = config
        self._root = root
        self._credential = credential
        self._note = note
        self._client = httpx2.AsyncClient(
            verify=shared_ssl_context(),
            # How long an answer may take is the call's to say.
            timeout=httpx2.Timeout(None, connect=config.connect_timeout),
            limits=httpx2.Limits(max_connections=None, max_keepalive_connections=20),
        )

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._client.aclose()

    async def wait_closed(self) -> str:
        # There is nothing to lose: the pool opens a connection when it needs one.
        await asyncio.get_running_loop().create_future()
        raise AssertionError

    async def discover(self) -> list[ToolSpec]:
        config = self._config
        is_url = config.document.startswith(("http://", "https://"))
        address = config.document if is_url else file_address(self._root / config.document)
        fetcher = Fetcher(
            config.max_document_size, allow_private=config.allow_private, timeout=config.connect_timeout
        )
        documents = await load(address, fetcher)
        notes: list[str] = []
        specs = await asyncio.to_thread(
            import_tools, documents, config.server, remote=bool(fetcher.remote), note=notes.append
        )
        for line in notes:
            self._note(f"{self._name}.{line}")
        return specs

    async def invoke(self, tool: Tool, call: Call) -> Result:
        config = self._config
        prepared = prepare(tool, call.arguments, config.base_url, config.headers, self._credential)
        # Where the user sends it himself, by `base_url`, he knows what is there.
        from_elsewhere = bool(tool.spec.metadata.get("remote")) and config.base_url is None
        url = httpx2.URL(prepared.url)
        if from_elsewhere and not config.allow_private:
            await self._refuse_private(url)
        for _ in range(MAX_REDIRECTS + 1):
            response, body = await self._send(prepared, url)
            location = response.headers.get("location")
            if response.status_code not in (301, 302, 303, 307, 308) or not location:
                break
            following = url.join(location)
            if following.scheme not in ("http", "https"):
                raise ServerError(f"{self._name!r} redirects to {following.scheme}:, which is not followed")
            elsewhere = not same_origin(following, url)
            if elsewhere and not config.allow_private and not await is_private(url):
                await self._refuse_private(following)
            _redirect(prepared, response.status_code, elsewhere=elsewhere)
            url = following
        else:
            raise ServerError(f"{self._name!r} redirected more than {MAX_REDIRECTS} times")
        if response.status_code >= 300:
            raise to_error(self._name, response, body)
        return to_result(response, body, promised=tool.spec.output_schema is not None)

    async def _send(self, prepared: Prepared, url: httpx2.URL) -> tuple[httpx2.Response, bytes]:
        request = self._client.build_request(
            prepared.method, url, headers=prepared.headers, content=prepared.content
        )
        try:
            response = await self._client.send(request, stream=True)
        except httpx2.TransportError as error:
            raise ConnectionFailedError(
                f"cannot reach {self._name!r} at {url.host}: {str(error) or type(error).__name__}",
                hint="check that the API is there, and `base_url`",
                sent=not isinstance(error, CONNECT_FAILURES),
            ) from error
        body = bytearray()
        try:
            async for chunk in response.aiter_bytes():
                body += chunk
                if len(body) > self._config.max_result_size:
                    raise ResultTooLargeError(
                        f"{self._name!r}: the answer is larger than {self._config.max_result_size} bytes",
                        hint=f"ask for less, or raise sources.{self._name}.max_result_size",
                        status=response.status_code,
                    )
        except httpx2.DecodingError as error:
            raise ServerError(f"{self._name!r} sent an answer that cannot be unpacked: {error}") from error
        except httpx2.TransportError as error:
            raise ConnectionFailedError(
                f"lost {self._name!r} while it answered: {str(error) or type(error).__name__}"
            ) from error
        finally:
            await response.aclose()
        return response, bytes(body)

    async def _refuse_private(self, url: httpx2.URL) -> None:
        if await is_private(url):
            raise ConfigurationError(
                f"{self._name!r} leads to {url.host}, which is on this machine or a private network",
                hint=f"set sources.{self._name}.allow_private = true, or its base_url, if that is meant",
                sent=False,
            )


def _redirect(prepared: Prepared, status: int, *, elsewhere: bool) -> None:
    """Make the request what it must be at its next stop."""
    if status == 303 or (status in (301, 302) and prepared.method == "POST"):
        prepared.method = prepared.method if prepared.method == "HEAD" else "GET"
        prepared.content = None
        prepared.headers.pop("content-type", None)
    if elsewhere:
        prepared.headers = {name: value for name, value in prepared.headers.items() if name in _HARMLESS}
