"""A session of one credential: looks for a description, makes the calls."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from spindle import plugins
from spindle.documents.fetch import Fetcher, complete
from spindle.domain.call import Call, Result
from spindle.domain.identity import Credential
from spindle.domain.tool import Tool, ToolSpec
from spindle.http.addresses import same_origin
from spindle.http.api import ApiCalls
from spindle.http.credentials import cookie_header, named_parts
from spindle.http.origins import CredentialOrigins
from spindle.ports.source import Session
from spindle.sources.http_api import request_tool
from spindle.sources.http_api.places import FoundDocument, addresses, look
from spindle.sources.openapi.operations import import_tools
from spindle.sources.openapi.request import prepare
from spindle.sources.openapi.servers import ServerChoice
from spindle.threads import in_turn

if TYPE_CHECKING:
    from spindle.ports.source import Note
    from spindle.sources.http_api.config import HttpConfig

UTCP = "utcp"
MANUAL = "utcp_manual"
"""In a tool's metadata: the address of the UTCP manual that it is from."""


class HttpApiSession(Session):
    """A session with an HTTP API: uses its description if there is one, else makes any request."""

    def __init__(
        self,
        name: str,
        config: HttpConfig,
        root: Path,
        credential: Credential,
        note: Note,
        on_change: Callable[[], None],
    ) -> None:
        self._name = name
        self._config = config
        self._root = root
        self._credential = credential
        self._note = note
        self._on_change = on_change
        self._calls = ApiCalls(name, config)
        self._origins = CredentialOrigins(name, (config.url,), config.auth_hosts)
        self._delegates: dict[str, Delegate] = {}

    async def __aexit__(self, *_: object) -> None:
        for delegate in self._delegates.values():
            await delegate.aclose()
        await self._calls.aclose()

    async def discover(self) -> list[ToolSpec]:
        config = self._config
        if not config.discover:
            return self._request_tool()
        found = await look(config.url, self._fetcher, config.connect_timeout)
        if isinstance(found, FoundDocument):
            place = found.document.address
            if found.kind == "openapi":
                self._note(f"{self._name}: its OpenAPI document is at {place}")
                return await self._operations(found)
            if plugins.source_class(UTCP) is not None:
                self._note(f"{self._name}: its UTCP manual is at {place}")
                # Asked for where it was found: what a redirect leads to is not what the user named.
                return await self._manual(found.asked)
            self._note(f"{self._name}: there is a UTCP manual at {place}, and nothing here that reads it")
        else:
            count = len(addresses(config.url))
            self._note(
                f"{self._name}: no OpenAPI document or UTCP manual at any of {count} usual places, so that"
                f" `{request_tool.NAME}` is its one tool"
            )
            for refusal in found[:3]:
                self._note(f"{self._name}: {refusal}")
        return self._request_tool()

    async def probe(self, tools: Sequence[Tool]) -> None:
        manuals = {tool.spec.metadata[MANUAL] for tool in tools if MANUAL in tool.spec.metadata}
        for place in manuals:
            session = await self._delegate(place).session()
            await session.probe([tool for tool in tools if tool.spec.metadata.get(MANUAL) == place])
        if not manuals:
            await self._calls.reach([self._config.url], public_only=False)

    def _request_tool(self) -> list[ToolSpec]:
        return [request_tool.spec(self._config)]

    async def invoke(self, tool: Tool, call: Call) -> Result:
        config, metadata = self._config, tool.spec.metadata
        if MANUAL in metadata:
            session = await self._delegate(metadata[MANUAL]).session()
            return await session.invoke(tool, call)
        below = None
        if request_tool.MARK in metadata:
            prepared = request_tool.prepare(call.arguments, config, self._credential)
            # A caller who may ask for anything would find the address that redirects to anywhere.
            below = config.url
        else:
            prepared = prepare(tool, call.arguments, None, config.headers, self._credential, self._origins)
        # All of it goes to the origin that the user named.
        return await self._calls.perform(
            prepared, call, public_only=False, promised=tool.spec.output_schema is not None, below=below
        )

    def _fetcher(self) -> Fetcher:
        config = self._config
        named = dict(named_parts(self._credential).headers)
        if self._credential.cookies:
            named["cookie"] = cookie_header(self._credential.cookies)
        return Fetcher(
            self._calls.http,
            config.max_document_size,
            allow_private=config.allow_private,
            timeout=config.connect_timeout,
            headers={**config.headers, **named},
        )

    async def _operations(self, found: FoundDocument) -> list[ToolSpec]:
        documents = await complete(found.document, found.data, found.fetcher)
        notes: list[str] = []
        choice = ServerChoice(overridden=True, near=self._config.url)
        specs = await in_turn(import_tools, documents, choice, remote=False, note=notes.append)
        # Operations are called at the origin that the user named, whatever host the document has in mind.
        moved: set[str] = set()
        here = [self._here(spec, moved) for spec in specs]
        for line in notes:
            self._note(f"{self._name}{line}")
        for server in sorted(moved):
            self._note(f"{self._name}: operations that the document has at {server} go to {self._config.url}")
        return here

    def _here(self, spec: ToolSpec, moved: set[str]) -> ToolSpec:
        server = spec.metadata.get("server")
        if server and same_origin(server, self._config.url):
            return spec
        if server:
            moved.add(server)
        return replace(spec, metadata={**spec.metadata, "server": self._config.url})

    async def _manual(self, place: str) -> list[ToolSpec]:
        session = await self._delegate(place).session()
        return [replace(spec, metadata={**spec.metadata, MANUAL: place}) for spec in await session.discover()]

    def _delegate(self, place: str) -> Delegate:
        if place not in self._delegates:

            def opened() -> Any:
                kind = plugins.source_class(UTCP)
                assert kind is not None
                model = kind.config_model()
                own = self._config.model_dump(by_alias=True, exclude_unset=True, exclude={"kind", "url"})
                shared = {key: value for key, value in own.items() if key in model.model_fields}
                config = model.model_validate({**shared, "kind": UTCP, "document": place})
                source = kind(self._name, config, self._root, self._note)
                return source.open(self._credential, self._on_change)

            self._delegates[place] = Delegate(opened)
        return self._delegates[place]


class Delegate:
    """A session of another kind of source inside ours, opened when it is first needed. One task of its own
    enters and leaves it, as a session wants."""

    def __init__(self, open_: Callable[[], AbstractAsyncContextManager[Session]]) -> None:
        self._open = open_
        self._owner: asyncio.Task[None] | None = None
        self._ready: asyncio.Future[Session] | None = None
        self._closing = asyncio.Event()

    async def session(self) -> Session:
        if self._ready is None or (self._ready.done() and self._ready.exception() is not None):
            self._ready = asyncio.get_running_loop().create_future()
            self._owner = asyncio.create_task(self._own(self._ready))
        return await asyncio.shield(self._ready)

    async def aclose(self) -> None:
        self._closing.set()
        if self._owner is not None:
            await self._owner

    async def _own(self, ready: asyncio.Future[Session]) -> None:
        try:
            async with self._open() as session:
                ready.set_result(session)
                await self._closing.wait()
        except Exception as error:
            if ready.done():
                raise
            ready.set_exception(error)
