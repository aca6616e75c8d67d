"""Finding and reading manuals: a document may be one, lead to some, or be an OpenAPI document."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol
from urllib.parse import urljoin

from pydantic import ValidationError

from spindle.documents.fetch import ACCEPT, OPENAPI, Fetcher, complete, file_address, parse, read_file
from spindle.documents.refs import shown
from spindle.domain.identity import NO_CREDENTIAL, Credential
from spindle.domain.json_schema import JsonObject, is_array, is_object
from spindle.domain.tool import ToolSpec
from spindle.errors import ClientError, ConfigurationError, NotFoundError, SpindleError, from_status
from spindle.http.addresses import plain_url
from spindle.http.credentials import CredentialParts, named_parts
from spindle.http.failures import TooLargeError
from spindle.http.public import answered_inside
from spindle.http.request import Prepared, with_credential
from spindle.sources.openapi.operations import import_tools
from spindle.sources.openapi.servers import ServerChoice
from spindle.sources.utcp.manual import TYPE, Imported, Importer, Origin, describe, is_manual
from spindle.sources.utcp.requests import prepare
from spindle.sources.utcp.templates import (
    TEMPLATE,
    AnyTemplate,
    Auth,
    CliTemplate,
    HttpLike,
    TextTemplate,
    WebSocketTemplate,
    problem_in,
)
from spindle.sources.utcp.variables import withheld
from spindle.threads import in_turn

if TYPE_CHECKING:
    from spindle.sources.utcp.config import UtcpConfig
    from spindle.sources.utcp.sending import Renew, Sender

WELL_KNOWN = ("/.well-known/utcp", "/.well-known/utcp.json")
PLACES = ("/utcp", *WELL_KNOWN, "/utcp.json", "/utcp/manual")
"""The usual places of a manual below a base URL. What is well-known may also be at the root of its host."""
WHAT = "a UTCP manual"
_NOT_HERE = (NotFoundError, ClientError, ConfigurationError)
"""A server's answer where it has no manual: nothing, a refusal of the request, or something else."""
MAX_MANUALS = 50


class Asker(Protocol):
    """The parts of a session that a call template for a manual needs: variables, auth and other protocols."""

    def completed(self, template: JsonObject, manuals: tuple[str, ...], place: str) -> AnyTemplate: ...

    async def shown(
        self, auth: Auth | None, credential: Credential, *, remote: bool
    ) -> tuple[CredentialParts, Renew | None]: ...

    async def manual_from(
        self,
        template: CliTemplate | WebSocketTemplate,
        origin: Origin,
        heard_from: Callable[[str | None], None],
    ) -> str: ...


class ManualReader:
    """Finds and reads the manuals of a source."""

    def __init__(
        self, name: str, config: UtcpConfig, root: Path, sender: Sender, importer: Importer, asker: Asker,
        credential: Credential,
    ) -> None:  # fmt: skip
        self._name = name
        self._config = config
        self._root = root
        self._sender = sender
        self._importer = importer
        self._asker = asker
        self._credential = credential

    async def read(self) -> Imported:
        found = Imported()
        config = self._config
        if config.utcp_mode == "base_url":
            data, origin = await self._at_the_usual_places()
        elif not config.is_url:
            path = self._root / config.document
            data, origin = self._file(path), Origin(str(path), self._own_manuals)
        elif config.utcp_mode == "manual_url":
            data, origin = await self._download(config.document, self._own_manuals)
        else:
            data, origin = await self._at_the_address_or_usual_places()
        await self._take(data, origin, found)
        return found

    @property
    def _own_manuals(self) -> tuple[str, ...]:
        return (self._name,)

    # --- getting documents

    async def _at_the_address_or_usual_places(self) -> tuple[bytes, Origin]:
        here: tuple[bytes, Origin] | None = None
        problem: SpindleError | None = None
        try:
            here = await self._download(self._config.document, self._own_manuals)
            if _is_ours(await in_turn(self._parsed, *here)):
                return here
        except _NOT_HERE as error:
            problem = error
        try:
            return await self._at_the_usual_places()
        except NotFoundError as nowhere:
            if problem is not None:
                problem.hint = f"nor is there a manual below it, at {', '.join(PLACES)}; {nowhere.hint}"
                raise problem from None
            assert here is not None
            return here  # it is some other document, and which one is said when it is read

    async def _at_the_usual_places(self) -> tuple[bytes, Origin]:
        if not self._config.is_url:
            raise ConfigurationError(
                f"sources.{self._name}.document must be a URL with utcp_mode = 'base_url'", source=self._name
            )
        base = self._config.document.partition("?")[0].partition("#")[0].rstrip("/")
        root = urljoin(base, "/").rstrip("/")
        addresses = [f"{base}{place}" for place in PLACES] + [f"{root}{place}" for place in WELL_KNOWN]
        tried: list[str] = []
        for address in dict.fromkeys(addresses):
            place = address.removeprefix(base)
            try:
                data, origin = await self._download(address, self._own_manuals)
                if is_manual(await in_turn(self._parsed, data, origin)):
                    return data, origin
                tried.append(f"{place}: not a manual")
            except _NOT_HERE as error:
                tried.append(f"{place}: {error.status or error.message}")
        raise NotFoundError(
            f"there is no UTCP manual below {base} ({'; '.join(tried)})",
            hint="give the manual's own address as `document`; kind = 'http' looks for other documents too",
        )

    async def _download(
        self, address: str, manuals: tuple[str, ...], template: HttpLike | None = None
    ) -> tuple[bytes, Origin]:
        if template is None:
            headers = {"accept": ACCEPT}
            headers |= {name.lower(): value for name, value in self._config.headers.items()}
            named = named_parts(self._credential)
            prepared, renew = with_credential(Prepared("GET", address, headers), named), None
        else:
            said, renew = await self._asker.shown(template.auth, NO_CREDENTIAL, remote=False)
            prepared = prepare(template, {}, said)
        place = plain_url(address)
        async with self._sender.exchange(prepared, remote=False, renew=renew) as answer:
            if answer.status >= 300:
                raise _refused(place, answer.status)
            # Where it comes from in the end: a server here may have sent us elsewhere. Asked while it still
            # comes, because a connection that is over no longer tells.
            remote = answer.sent_from_outside or not await answer.is_from_inside()
            try:
                data = await answer.read(self._config.max_document_size)
            except TooLargeError:
                raise self._too_large(place) from None
        return data, Origin(place, manuals, plain_url(answer.url), remote=remote)

    def _file(self, path: Path) -> bytes:
        limit = self._config.max_document_size
        data = read_file(path, limit, f"sources.{self._name}.document")
        if len(data) > limit:
            raise self._too_large(str(path))
        return data

    def _parsed(self, data: bytes, origin: Origin) -> JsonObject:
        return parse(origin.place, data, WHAT, self._config.max_document_size).root

    def _too_large(self, place: str) -> SpindleError:
        return ConfigurationError(
            f"{place} is larger than {self._config.max_document_size} bytes",
            hint=f"raise sources.{self._name}.max_document_size if that is meant",
        )

    # --- what they are

    async def _take(self, data: bytes, origin: Origin, found: Imported) -> None:
        root = await in_turn(self._parsed, data, origin)
        if is_array(root.get("manual_call_templates")):
            await self._take_all(root["manual_call_templates"], origin, found)
        elif isinstance(root.get(TYPE), str):
            await self._take_template(root, origin, found)
        else:
            await self._take_document(root, data, origin, found)

    async def _take_all(self, templates: list[Any], origin: Origin, found: Imported) -> None:
        """The settings of a UTCP client: several manuals, each under its own name."""
        if len(templates) > MAX_MANUALS:
            raise ConfigurationError(f"{origin.place} names more than {MAX_MANUALS} manuals")
        failed: SpindleError | None = None
        for index, template in enumerate(templates):
            place = f"{origin.place}#/manual_call_templates/{index}"
            try:
                if not is_object(template):
                    raise ConfigurationError(f"{place} is not a call template")
                name = str(template.get("name") or f"manual{index}")
                await self._take_template(template, replace(origin, place=place), found, prefix=f"{name}.")
            except SpindleError as error:
                # One manual that cannot be read does not cost the others.
                failed = failed or error
                found.notes.append(f"{place} was left out: {error.message}")
        if failed is not None and not found.specs:
            raise failed

    async def _take_template(
        self, node: JsonObject, origin: Origin, found: Imported, prefix: str = ""
    ) -> None:
        if origin.address is not None:
            raise ConfigurationError(
                f"{origin.place} is a call template, and one from a URL is not followed",
                hint="give the manual's own address as `document`, or save the template as a file",
            )
        kind = node.get(TYPE)
        name = node.get("name")
        # A name in a file of the user's own may be used as UTCP does: its variables are named after it.
        manuals = (self._name, name) if isinstance(name, str) and name else (self._name,)
        try:
            TEMPLATE.validate_python(node)
        except ValidationError as error:
            raise ConfigurationError(
                f"{origin.place}: {problem_in(error)}",
                hint="MCP servers are sources of kind mcp" if kind == "mcp" else None,
            ) from None
        template = self._asker.completed(node, manuals, origin.place)
        origin = replace(origin, manuals=manuals)
        match template:
            case HttpLike():
                data, origin = await self._download(template.url, manuals, template)
            case TextTemplate():
                data = self._text(template, origin)
            case _:
                peers: list[str | None] = []
                data = (await self._asker.manual_from(template, origin, peers.append)).encode()
                if isinstance(template, WebSocketTemplate):
                    remote = not await answered_inside(template.url, peers[-1])
                    origin = replace(origin, address=plain_url(template.url), remote=remote)
        auth_tools = node.get("auth_tools")
        base_url = template.base_url if isinstance(template, TextTemplate) else None
        root = await in_turn(self._parsed, data, origin)
        await self._take_document(root, data, origin, found, prefix, auth_tools, base_url)

    async def _take_document(
        self,
        root: JsonObject,
        data: bytes,
        origin: Origin,
        found: Imported,
        prefix: str = "",
        auth_tools: Any = None,
        base_url: str | None = None,
    ) -> None:
        if is_manual(root):
            self._importer.take(root, origin, found, prefix)
            return
        is_api = "openapi" in root or "swagger" in root
        if is_api and self._config.utcp_mode != "manual_url":
            await self._take_api(data, origin, found, prefix, auth_tools, base_url)
            return
        if is_api:
            raise ConfigurationError(
                f"{origin.place} is an OpenAPI document, and utcp_mode = 'manual_url' wants a manual",
                hint="leave out `utcp_mode`, or use kind = 'openapi'",
            )
        tools = root.get("tools")
        problem = (
            "its `tools` is not a list" if tools is not None else f"it has no `tools` ({describe(root)})"
        )
        raise ConfigurationError(f"{origin.place} is not {WHAT}: {problem}")

    async def _take_api(
        self, data: bytes, origin: Origin, found: Imported, prefix: str, auth_tools: Any, base_url: str | None
    ) -> None:
        """An OpenAPI document, by the machinery of that kind."""
        address = origin.address or file_address(self._root / self._config.document)
        config = self._config
        fetcher = Fetcher(
            self._sender.http,
            config.max_document_size,
            allow_private=config.allow_private,
            timeout=config.connect_timeout,
        )
        fetcher.remote = origin.remote
        notes: list[str] = []
        documents = await complete(
            await in_turn(parse, address, data, OPENAPI, config.max_document_size), data, fetcher
        )
        choice = ServerChoice(overridden=base_url is not None or config.base_url is not None)
        specs = await in_turn(import_tools, documents, choice, remote=origin.remote, note=notes.append)
        extra: JsonObject = {TYPE: "openapi", "manuals": list(origin.manuals)}
        secrets: dict[str, str] = {}
        if is_object(auth_tools):
            kept, secrets = withheld({"auth_tools": auth_tools})
            extra |= kept | ({"withheld": sorted(secrets)} if secrets else {})
        if base_url is not None:
            extra["server"] = base_url
        # Notes begin with the tool that they are about, or are about the document as a whole.
        of_tool = f".{prefix}"
        found.notes += [
            f"{self._name}{of_tool + line[1:] if line.startswith('.') else line}" for line in notes
        ]
        made = [_as_ours(spec, extra, prefix) for spec in specs]
        found.specs += made
        if secrets:
            found.secrets |= {spec.remote_name: secrets for spec in made}

    def _text(self, template: TextTemplate, origin: Origin) -> bytes:
        if template.content is not None:
            return template.content.encode()
        assert template.file_path is not None
        return self._file((self._root / self._config.document).parent / template.file_path)


def _is_ours(root: JsonObject) -> bool:
    """True if a document is one that this kind of source reads, or leads to one."""
    leads = is_array(root.get("manual_call_templates")) or isinstance(root.get(TYPE), str)
    return leads or is_manual(root) or "openapi" in root or "swagger" in root


def _as_ours(spec: ToolSpec, extra: JsonObject, prefix: str) -> ToolSpec:
    return replace(spec, remote_name=f"{prefix}{spec.remote_name}", metadata={**spec.metadata, **extra})


def _refused(address: str, status: int) -> SpindleError:
    error = from_status(status, f"{shown(address)} answered with HTTP status {status}")
    if status in (401, 403):
        error.hint = "give the source's `auth`, or download the manual and give the file as `document`"
    elif status in (404, 410):
        error.hint = "check `document`; without `utcp_mode` the usual places below it are tried too"
    return error
