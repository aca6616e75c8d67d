"""A session: reads the document, makes the calls, each with its caller's own credential."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from spindle.documents.fetch import Fetcher, file_address, load
from spindle.domain.call import Call, Result
from spindle.domain.source import ApiKeyAuth
from spindle.domain.tool import Tool, ToolSpec
from spindle.errors import AuthError
from spindle.http.api import ApiCalls
from spindle.http.credentials import NAME_IT, is_nameless
from spindle.ports.source import Session
from spindle.sources.openapi.operations import import_tools
from spindle.sources.openapi.request import base_of, prepare
from spindle.sources.openapi.servers import ServerChoice
from spindle.threads import in_turn

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
        self._origins = config.credential_origins(name, config.named_server)

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
        specs = await in_turn(import_tools, documents, choice, remote=bool(fetcher.remote), note=notes.append)
        for line in notes:
            self._note(f"{self._name}{line}")
        key = config.auth
        if isinstance(key, ApiKeyAuth) and not any(map(_may_get_credential, specs)):
            self._note(
                f"{self._name}: its document says that no operation wants a credential, so that `auth` is not"
                " sent; `headers` always are"
            )
        for server in self._strangers(specs):
            self._note(
                f"{self._name}: operations at {server} are refused the source's credentials;"
                f" {self._origins.way_out(server)}"
            )
        return specs

    def _strangers(self, specs: Sequence[ToolSpec]) -> list[str]:
        """The servers that calls would show credentials to, and that no setting names."""
        config = self._config
        if config.base_url is not None:
            return []
        wanted = [spec for spec in specs if config.headers or (config.auth and _may_get_credential(spec))]
        servers = dict.fromkeys(
            str(spec.metadata["server"]) for spec in wanted if spec.metadata.get("server")
        )
        return [server for server in servers if not self._origins.admit(server)]

    async def probe(self, tools: Sequence[Tool]) -> None:
        for server in self._strangers([tool.spec for tool in tools]):
            raise self._origins.refusal(server, "credentials")
        bases = {base_of(tool, self._config.base_url): self._is_bound(tool) for tool in tools}
        for bound in (True, False):
            await self._calls.reach([base for base in bases if bases[base] is bound], public_only=bound)

    def _is_bound(self, tool: Tool) -> bool:
        """True if the call may not lead to this machine and its networks."""
        # Where the user sends it himself, by `base_url`, he knows what is there.
        from_elsewhere = bool(tool.spec.metadata.get("remote")) and self._config.base_url is None
        return from_elsewhere and not self._config.allow_private

    async def invoke(self, tool: Tool, call: Call) -> Result:
        config = self._config
        prepared = prepare(
            tool, call.arguments, config.base_url, config.headers, call.credential, self._origins
        )
        try:
            return await self._calls.perform(
                prepared,
                call,
                public_only=self._is_bound(tool),
                promised=tool.spec.output_schema is not None,
            )
        except AuthError as error:
            if is_nameless(call.credential) and not _wants_credential(tool.spec):
                error.hint = f"the document does not say where the API key goes; {NAME_IT}"
            raise


def _may_get_credential(spec: ToolSpec) -> bool:
    return spec.metadata.get("security") is None or _wants_credential(spec)


def _wants_credential(spec: ToolSpec) -> bool:
    return any(spec.metadata.get("security") or ())
