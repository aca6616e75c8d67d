"""One manual under one credential: lists its tools, and calls each as its template says."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from pydantic import ValidationError

from spindle.domain.call import Call, Result
from spindle.domain.identity import NO_CREDENTIAL, Credential
from spindle.domain.json_schema import JsonObject
from spindle.domain.tool import Tool, ToolSpec
from spindle.errors import AuthError, ConfigurationError, NotFoundError, PermissionDeniedError, SpindleError
from spindle.http.credentials import CredentialParts, named_parts
from spindle.http.failures import InsideError
from spindle.ports.source import Session
from spindle.remedies import Remedy
from spindle.sources.utcp.auths import Auths
from spindle.sources.utcp.http_calls import HttpCalls, within
from spindle.sources.utcp.manual import TYPE, Imported, Importer, Origin
from spindle.sources.utcp.programs import require_programs, run_commands
from spindle.sources.utcp.reading import ManualReader
from spindle.sources.utcp.sending import Renew, Sender
from spindle.sources.utcp.sockets import Sockets
from spindle.sources.utcp.templates import (
    TEMPLATE,
    AnyTemplate,
    Auth,
    CliTemplate,
    HttpLike,
    OAuth2,
    TextTemplate,
    WebSocketTemplate,
    problem_in,
)
from spindle.sources.utcp.variables import LOOSE, UsedValues, Variables, filled, restored, secrets_of

if TYPE_CHECKING:
    from spindle.ports.source import Note
    from spindle.sources.openapi.session import OpenApiSession
    from spindle.sources.utcp.config import UtcpConfig

DISCOVERY = '{"type": "utcp"}'
"""The message that asks a WebSocket service for its manual."""


class UtcpSession(Session):
    """A session with one manual: lists its tools, and calls each as its template says."""

    def __init__(self, name: str, config: UtcpConfig, root: Path, credential: Credential, note: Note) -> None:
        self._name = name
        self._config = config
        self._root = root
        self._credential = credential
        self._note = note
        self._variables = Variables(name, config.variables)
        self._sender = Sender(name, config)
        self._auths = Auths(self._sender, config.connect_timeout)
        self._origins = config.credential_origins(name)
        self._http = HttpCalls(name, self._sender, self._origins)
        self._sockets = Sockets(name, config, note)
        self._api: OpenApiSession | None = None
        self._secrets: dict[str, dict[str, str]] | None = None
        """The secrets of tools, which the store does not hold, since the manual was last read."""
        self._reading = asyncio.Lock()

    async def __aexit__(self, *_: object) -> None:
        if self._api is not None:
            await self._api.__aexit__(None, None, None)
        await self._sockets.close()
        await self._auths.close()
        await self._sender.aclose()

    # --- discovery

    async def discover(self) -> list[ToolSpec]:
        found = await self._read()
        for line in found.notes:
            self._note(line)
        return found.specs

    async def _read(self) -> Imported:
        importer = Importer(self._name, self._config, self._variables, self._origins)
        reader = ManualReader(
            self._name, self._config, self._root, self._sender, importer, self, self._credential
        )
        found = await reader.read()
        self._secrets = found.secrets
        return found

    async def _withheld(self, tool: Tool) -> Mapping[str, str]:
        """The secrets that are written in the manual itself, read from there."""
        wanted = tool.spec.metadata.get("withheld")
        if not wanted:
            return {}
        name = tool.spec.remote_name
        async with self._reading:
            secrets = (self._secrets or {}).get(name, {})
            if sorted(secrets) != wanted:
                secrets = (await self._read()).secrets.get(name, {})
        if sorted(secrets) != wanted:
            raise NotFoundError(f"{tool.name} is no longer what it was in its manual", remedy=Remedy("sync"))
        return secrets

    # --- what reading a manual through a call template needs

    def completed(self, template: JsonObject, manuals: tuple[str, ...], place: str) -> AnyTemplate:
        """A template with its variables replaced. Raises ConfigurationError where they may not go there."""
        complete, used = self._filled(template, manuals, place)
        if used.variables and isinstance(complete, (HttpLike, WebSocketTemplate)):
            self._origins.require(complete.url, f"variables that {place} uses")
        return complete

    def _filled(
        self, template: JsonObject, manuals: tuple[str, ...], place: str
    ) -> tuple[AnyTemplate, UsedValues]:
        used = UsedValues()

        def fill(text: str, at: str, strict: bool) -> str:
            done = self._variables.fill(text, manuals, f"{at} of {place}", strict=strict)
            if done != text:
                used.variables = True
                if at not in LOOSE:
                    used.add(done)
            return done

        used.secrets.update(secrets_of(template))
        complete = validated(filled(template, fill), place)
        if used.variables and isinstance(complete.auth, OAuth2):
            self._origins.require(complete.auth.token_url, f"variables that {place} uses")
        return complete, used

    async def shown(
        self, auth: Auth | None, credential: Credential, *, remote: bool
    ) -> tuple[CredentialParts, Renew | None]:
        return await self._auths.shown(auth, credential, remote=remote)

    async def manual_from(
        self,
        template: CliTemplate | WebSocketTemplate,
        origin: Origin,
        heard_from: Callable[[str | None], None],
    ) -> str:
        if template.call_template_type not in self._config.allowed_protocols:
            raise ConfigurationError(
                f"{origin.place} gets its manual by {template.call_template_type}, which is not allowed",
                hint=f"add it to sources.{self._name}.allowed_protocols",
            )
        tool = Tool(self._name, self._name, "utcp", ToolSpec(self._name), "")
        if isinstance(template, WebSocketTemplate):
            asking = template.model_copy(update={"message": DISCOVERY, "response_format": None})
            result = await self._over_websocket(
                asking, tool, Call(self._name, {}), NO_CREDENTIAL, remote=False, heard_from=heard_from
            )
        else:
            result = await self._run(template, tool, Call(self._name, {}), origin.manuals)
        if result.is_error:
            raise ConfigurationError(f"{origin.place}: no manual came: {result.text}")
        return result.text

    async def probe(self, tools: Sequence[Tool]) -> None:
        of_api = [tool for tool in tools if tool.spec.metadata[TYPE] == "openapi"]
        if of_api:
            self._api = self._api or self._open_api()
            await self._api.probe(of_api)
        origins: dict[bool, list[str]] = {True: [], False: []}
        for tool in tools:
            if tool.spec.metadata[TYPE] == "openapi":
                continue
            self._require_allowed(tool)
            template, used = await self._completed(tool)
            if isinstance(template, (HttpLike, WebSocketTemplate)):
                if used.variables and "{" not in _origin(template.url):
                    self._origins.require(template.url, f"variables that {tool.name} uses")
                await self._sender.check_scheme(template.url)
                bound = self._sender.is_bound(remote=bool(tool.spec.metadata["remote"]))
                if "{" not in (origin := _origin(template.url)):
                    origins[bound].append(origin)
            elif isinstance(template, CliTemplate):
                require_programs(self._name, template, self._root, self._declared)
            else:
                await self._text(template, tool)
        for bound, found in origins.items():
            await self._sender.reach(found, public_only=bound)

    # --- calls

    async def invoke(self, tool: Tool, call: Call) -> Result:
        how = tool.spec.metadata
        manuals = tuple(str(item) for item in how["manuals"])
        if how[TYPE] == "openapi":
            return await self._invoke_api(tool, call, manuals)
        self._require_allowed(tool)
        complete, used = await self._completed(tool)
        try:
            result = await self._call(complete, tool, call, manuals, own=used.variables)
        except SpindleError as error:
            raise used.hidden_in(error) from None
        return used.hidden_in_failure(result) if result.is_error else result

    async def _completed(self, tool: Tool) -> tuple[AnyTemplate, UsedValues]:
        """The template of a tool with its variables replaced, and the values to be hidden."""
        how = tool.spec.metadata
        manuals = tuple(str(item) for item in how["manuals"])
        template: JsonObject = restored(how["template"], await self._withheld(tool))
        return self._filled(template, manuals, tool.name)

    async def _call(
        self, template: AnyTemplate, tool: Tool, call: Call, manuals: tuple[str, ...], *, own: bool
    ) -> Result:
        """`own`: the template holds values that the user gave, which go only where credentials may."""
        remote = bool(tool.spec.metadata["remote"])
        match template:
            case HttpLike():
                credential = self._credential if self._origins.admit(template.url) else NO_CREDENTIAL
                shown, renew = await self._auths.shown(template.auth, credential, remote=remote)
                try:
                    return await self._http.call(template, tool, call, shown, renew, remote=remote, own=own)
                except AuthError as error:
                    if template.auth is None and credential is not self._credential:
                        error.hint = f"it got no credentials; {self._origins.way_out(template.url)}"
                    raise
            case WebSocketTemplate():
                if own:
                    self._origins.require(template.url, f"variables that {tool.name} uses")
                credential = self._credential if self._origins.admit(template.url) else NO_CREDENTIAL
                return await self._over_websocket(template, tool, call, credential, remote=remote)
            case CliTemplate():
                return await self._run(template, tool, call, manuals)
            case TextTemplate():
                return Result.of_text(await self._text(template, tool))

    def _require_allowed(self, tool: Tool) -> None:
        how = tool.spec.metadata
        origin = Origin("", (), how.get("address"))
        if how[TYPE] not in (self._config.allowed_protocols or origin.protocols):
            raise PermissionDeniedError(
                f"{tool.name} uses {how[TYPE]}, which its manual may not",
                hint=f"add it to sources.{self._name}.allowed_protocols if that is meant",
                sent=False,
            )

    async def _over_websocket(
        self,
        template: WebSocketTemplate,
        tool: Tool,
        call: Call,
        credential: Credential,
        *,
        remote: bool,
        heard_from: Callable[[str | None], None] = lambda _: None,
    ) -> Result:
        await self._sender.check_scheme(template.url)
        if template.auth is not None:
            credential = await self._auths.credential(template.auth, remote=remote)
        else:
            credential = named_parts(credential)
        async with within(tool, template.timeout):
            try:
                return await self._sockets.call(
                    template, tool, call, credential,
                    public_only=self._sender.is_bound(remote=remote), heard_from=heard_from,
                )  # fmt: skip
            except InsideError as failure:
                raise self._sender.error(failure) from None

    async def _run(self, template: CliTemplate, tool: Tool, call: Call, manuals: tuple[str, ...]) -> Result:
        properties: JsonObject = tool.input_schema.get("properties", {})
        defaults = {name: item["default"] for name, item in properties.items() if "default" in item}
        return await run_commands(
            self._name,
            tool.name,
            template,
            {**defaults, **call.arguments},
            find=lambda variable: self._variables.find(variable, manuals),
            root=self._root,
            declared=self._declared,
            limit=self._config.max_result_size,
        )

    @property
    def _declared(self) -> JsonObject:
        return {**self._config.env, **dict(self._credential.env)}

    async def _text(self, template: TextTemplate, tool: Tool) -> str:
        if template.content is not None:
            return template.content
        assert template.file_path is not None
        folder = (self._root / self._config.document).resolve().parent
        path = (folder / template.file_path).resolve()
        if not path.is_relative_to(folder) and not path.is_relative_to(self._root.resolve()):
            raise PermissionDeniedError(
                f"{tool.name} would read {path}, which is neither beside its manual nor in the workspace",
                sent=False,
            )
        return await asyncio.to_thread(_read_text, path, int(self._config.max_result_size))

    async def _invoke_api(self, tool: Tool, call: Call, manuals: tuple[str, ...]) -> Result:
        """A tool of an OpenAPI document, by the machinery of that kind."""
        credential = self._credential
        if "auth_tools" in tool.spec.metadata and credential == NO_CREDENTIAL:
            whole = restored(tool.spec.metadata, await self._withheld(tool))
            holder = {TYPE: "http", "url": "http://localhost", "auth": whole["auth_tools"]}
            auth = self._filled(holder, manuals, tool.name)[0].auth
            assert auth is not None
            credential = await self._auths.credential(auth, remote=bool(tool.spec.metadata.get("remote")))
        self._api = self._api or self._open_api()
        return await self._api.invoke(tool, replace(call, credential=credential))

    def _open_api(self) -> OpenApiSession:
        from spindle.sources.openapi.config import OpenApiConfig
        from spindle.sources.openapi.session import OpenApiSession

        config = self._config
        settings = OpenApiConfig(
            document=config.document,
            base_url=config.base_url,
            headers=config.headers,
            auth_hosts=config.auth_hosts,
            allow_private=config.allow_private,
            connect_timeout=config.connect_timeout,
            max_result_size=config.max_result_size,
        )
        return OpenApiSession(self._name, settings, self._root, self._note)


def validated(template: JsonObject, place: str) -> AnyTemplate:
    """The template after its variables were filled in; raises ConfigurationError if it is not valid."""
    try:
        return TEMPLATE.validate_python(template)
    except ValidationError as error:
        raise ConfigurationError(
            f"{place}: with its variables, {problem_in(error)}",
            hint="check the variables' values",
            sent=False,
        ) from None


def _origin(url: str) -> str:
    scheme, _, rest = _as_http(url).partition("://")
    return f"{scheme}://{rest.partition('/')[0].partition('?')[0]}/"


def _as_http(url: str) -> str:
    return url.replace("ws", "http", 1) if url.startswith("ws") else url


def _read_text(path: Path, limit: int) -> str:
    try:
        with path.open("rb") as file:
            data = file.read(limit + 1)
    except OSError as error:
        raise NotFoundError(f"cannot read {path}: {error.strerror or error}", sent=False) from None
    if len(data) > limit:
        raise ConfigurationError(f"{path} is larger than {limit} bytes", sent=False)
    return data.decode("utf-8", "replace")
