"""A session: reads the document, makes the calls, each with its caller's own credential."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import TYPE_CHECKING

from spindle.documents.fetch import Fetcher, file_address, load
from spindle.domain.call import Call, Result
from spindle.domain.tool import Tool, ToolSpec
from spindle.http.api import ApiCalls
from spindle.ports.source import Session
from spindle.sources.openapi.operations import import_tools
from spindle.sources.openapi.request import prepare
from spindle.sources.openapi.servers import ServerChoice

if TYPE_CHECKING:
    from spindle.ports.source import Note
    from spindle.sources.openapi.config import OpenApiConfig


class OpenApiSession(Session):
    """A session that reads the document and makes calls, each with its caller's credential."""

    per_call_credentials = True

    def __init__(self, name: str, config: OpenApiConfig, root: Path, note: Note) -> None:
        self._name = name
        self._config = config
        self._root = root
        self._note = note
        self._calls = ApiCalls(name, config)

    async def __aexit__(self, *_: object) -> None:
        await self._calls.aclose()

    async def discover(self) -> list[ToolSpec]:
        config = self._config
        address = config.document if config.is_url else file_address(self._root / config.document)
        fetcher = Fetcher(
            self._calls.http,
            config.max_document_size,
            allow_private=config.allow_private,
            timeout=config.connect_timeout,
        )
        documents = await load(address, fetcher)
        notes: list[str] = []
        choice = ServerChoice(config.server, config.server_variables, overridden=config.base_url is not None)
        specs = await asyncio.to_thread(
            import_tools, documents, choice, remote=bool(fetcher.remote), note=notes.append
        )
        for line in notes:
            self._note(f"{self._name}{line}")
        return specs

    async def invoke(self, tool: Tool, call: Call) -> Result:
        config = self._config
        prepared = prepare(tool, call.arguments, config.base_url, config.headers, call.credential)
        # Where the user sends it himself, by `base_url`, he knows what is there.
        from_elsewhere = bool(tool.spec.metadata.get("remote")) and config.base_url is None
        return await self._calls.perform(
            prepared,
            call,
            public_only=from_elsewhere and not config.allow_private,
            promised=tool.spec.output_schema is not None,
        )
