"""Every part of Spindle that follows redirects or reads bodies, behind one and the same face."""

import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable

from spindle.auth.issuer import Issuer
from spindle.auth.oauth import OAuthHttp
from spindle.documents.fetch import Fetcher
from spindle.domain.call import Call
from spindle.domain.identity import Credential
from spindle.domain.serve import JwtConfig
from spindle.http.api import ApiCalls
from spindle.http.client import HttpClient
from spindle.http.request import Prepared
from spindle.sources.mcp.config import McpConfig
from spindle.sources.mcp.legacy_sse import open_sse_link
from spindle.sources.mcp.session_http import SessionHttp
from spindle.sources.openapi.config import OpenApiConfig
from spindle.sources.utcp.config import UtcpConfig
from spindle.sources.utcp.sending import Sender

LIMIT = 1000
SECONDS = 30.0
Send = Callable[..., Awaitable[object]]
"""Called with (method, url, headers, content); `public_only` where somebody else chose the address."""


async def openapi(
    method: str, url: str, headers: dict[str, str], content: bytes | None, public_only: bool = False
) -> object:
    calls = ApiCalls("api", OpenApiConfig(document="d.json", max_result_size=LIMIT))
    async with contextlib.aclosing(calls):
        prepared = Prepared(method, url, dict(headers), content)
        return await calls.perform(prepared, Call("t", {}), public_only=public_only, promised=False)


async def utcp(
    method: str, url: str, headers: dict[str, str], content: bytes | None, public_only: bool = False
) -> object:
    sender = Sender("api", UtcpConfig(document="m.json", max_result_size=LIMIT, allow_insecure=True))
    async with contextlib.aclosing(sender):
        prepared = Prepared(method, url, dict(headers), content)
        async with sender.exchange(prepared, remote=public_only) as answer:
            return answer.status, await sender.body(answer)


async def documents(
    method: str, url: str, headers: dict[str, str], content: bytes | None, public_only: bool = False
) -> object:
    async with contextlib.aclosing(HttpClient(30)) as http:
        fetcher = Fetcher(http, LIMIT, allow_private=False, timeout=SECONDS, headers=headers)
        fetcher.remote = public_only or None
        return await fetcher.fetch(url)


async def oauth(
    method: str, url: str, headers: dict[str, str], content: bytes | None, public_only: bool = False
) -> object:
    async with _opened(OAuthHttp()) as http:
        return await http.get(url, found_by="http://source.test" if public_only else None)


async def legacy_sse(
    method: str, url: str, headers: dict[str, str], content: bytes | None, public_only: bool = False
) -> object:
    credential = Credential(headers=tuple(headers.items()))
    async with (
        contextlib.aclosing(SessionHttp("s", McpConfig(url=url), credential)) as http,
        open_sse_link(http, "s", url, LIMIT),
    ):
        return None


async def keys(
    method: str, url: str, headers: dict[str, str], content: bytes | None, public_only: bool = False
) -> object:
    config = JwtConfig(issuer="http://issuer.test", audience="a", jwks_url=url)
    return await Issuer(config)._fetch()


@contextlib.asynccontextmanager
async def _opened(http: OAuthHttp) -> AsyncIterator[OAuthHttp]:
    try:
        yield http
    finally:
        await http.close()


FOLLOWING: dict[str, Send] = {
    "openapi": openapi, "utcp": utcp, "documents": documents, "oauth": oauth, "legacy_sse": legacy_sse,
}  # fmt: skip
READING: dict[str, Send] = {
    "openapi": openapi, "utcp": utcp, "documents": documents, "oauth": oauth, "keys": keys,
}  # fmt: skip
ANY_METHOD = ("openapi", "utcp")
