"""Resources, prompts and completions of the sources that have them, passed on under the source's name.

A prompt is called `source.prompt`. A resource keeps its address; where two sources have the same one,
the second is reached as `spindle://SOURCE/` followed by that address, quoted. Large files that tools
returned are resources too.
"""

from __future__ import annotations

import asyncio
import base64
import re
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar, cast
from urllib.parse import quote, unquote

from mcp_types import (
    CLIENT_CAPABILITIES_META_KEY,
    CLIENT_INFO_META_KEY,
    LOG_LEVEL_META_KEY,
    PROTOCOL_VERSION_META_KEY,
    SERVER_INFO_META_KEY,
)

from spindle.domain.json_schema import JsonObject, is_array, is_object
from spindle.domain.trail import META_KEY
from spindle.errors import NotFoundError, ResultTooLargeError, ServerError, SpindleError, suggest
from spindle.ports.source import RelaySession

if TYPE_CHECKING:
    from spindle.app import Spindle
    from spindle.domain.identity import Principal
    from spindle.ports.source import Note
    from spindle.serving.access import ServingAccess

T = TypeVar("T")

MAX_PAGES = 100
MAX_REMEMBERED = 10_000
MAX_FILE = 16 * 1024 * 1024
OWN = "spindle://"
FILES = "files"

_FILE_NAME = re.compile(r"[0-9a-f]{32}\.[A-Za-z0-9]+")
_OURS = frozenset(
    {
        PROTOCOL_VERSION_META_KEY,
        CLIENT_INFO_META_KEY,
        CLIENT_CAPABILITIES_META_KEY,
        LOG_LEVEL_META_KEY,
        META_KEY,
        "progressToken",
    }
)


class SourceRelay:
    """Passes resources, prompts and completions of sources on to clients."""

    def __init__(self, app: Spindle, access: ServingAccess, note: Note) -> None:
        self._app = app
        self._access = access
        self._note = note
        self._homes: OrderedDict[str, str] = OrderedDict()
        """By address, the source of a resource that was listed, or that a tool returned a link to."""
        self._templates: dict[str, str] = {}
        self._issued: OrderedDict[tuple[str, str], None] = OrderedDict()

    def sources(self, principal: Principal) -> list[str]:
        catalog = self._app.catalog
        return [
            name
            for name in catalog.sources.names
            if catalog.sources.relays(name) and self._access.offers(principal, name)
        ]

    @property
    def settings(self) -> dict[str, Mapping[str, Any]]:
        """The settings of the sources that offer more than tools; when they change, the offers may too."""
        sources = self._app.catalog.sources
        return {name: sources.table(name) for name in sources.names if sources.relays(name)}

    # --- prompts

    async def prompts(self, principal: Principal) -> list[JsonObject]:
        found: list[JsonObject] = []
        for source, prompts in await self._everywhere(principal, "prompts", "prompts/list", "prompts"):
            found += [{**prompt, "name": self._prompt_name(source, prompt["name"])} for prompt in prompts]
        return found

    async def prompt(self, principal: Principal, params: JsonObject) -> JsonObject:
        source, name = await self._prompt_home(principal, str(params["name"]))
        return await self._relay(source, principal, "prompts/get", {**params, "name": name})

    def _prompt_name(self, source: str, name: str) -> str:
        return f"{source}.{name}" if self._app.catalog.sources.config(source).prefix else name

    async def _prompt_home(self, principal: Principal, name: str) -> tuple[str, str]:
        sources = self.sources(principal)
        source, dot, rest = name.partition(".")
        if dot and source in sources and self._app.catalog.sources.config(source).prefix:
            return source, rest
        known: dict[str, str] = {}
        plain = [name for name in sources if not self._app.catalog.sources.config(name).prefix]
        listed = await self._everywhere(principal, "prompts", "prompts/list", "prompts", plain)
        for home, prompts in listed:
            known |= {prompt["name"]: home for prompt in reversed(prompts)}
        if name in known:
            return known[name], name
        meant = suggest(name, [prompt["name"] for prompt in await self.prompts(principal)])
        raise NotFoundError(
            f"there is no prompt {name!r}", hint=f"did you mean {meant!r}?" if meant else None
        )

    # --- resources

    async def resources(self, principal: Principal) -> list[JsonObject]:
        found: list[JsonObject] = []
        taken: set[str] = set()
        for source, items in await self._everywhere(principal, "resources", "resources/list", "resources"):
            for item in items:
                uri = str(item["uri"])
                if uri in taken:
                    uri = own_address(source, uri)
                else:
                    self._remember(uri, source)
                taken.add(uri)
                found.append({**item, "uri": uri})
        return found

    async def templates(self, principal: Principal) -> list[JsonObject]:
        found: list[JsonObject] = []
        taken: set[str] = set()
        method = "resources/templates/list"
        for source, items in await self._everywhere(principal, "resources", method, "resourceTemplates"):
            for item in items:
                template = str(item["uriTemplate"])
                if template in taken:
                    continue  # an expression cannot be quoted; whoever needs this one renames a source's
                taken.add(template)
                self._templates[template] = source
                found.append(item)
        return found

    async def read(self, principal: Principal, params: JsonObject) -> JsonObject:
        uri = str(params["uri"])
        if uri.startswith(f"{OWN}{FILES}/"):
            return await self._read_file(principal, uri)
        source, inner = await self.home(principal, uri)
        result = await self._relay(source, principal, "resources/read", {**params, "uri": inner})
        if inner != uri and is_array(result.get("contents")):
            result["contents"] = [
                {**item, "uri": uri} if item.get("uri") == inner else item for item in result["contents"]
            ]
        return result

    async def home(self, principal: Principal, uri: str) -> tuple[str, str]:
        """The source of a resource, and its address there."""
        sources = self.sources(principal)
        if uri.startswith(OWN):
            source, _, quoted = uri.removeprefix(OWN).partition("/")
            if source in sources:
                return source, unquote(quoted)
        found = self._known_home(uri)
        if found is None:
            await asyncio.gather(self.resources(principal), self.templates(principal))
            found = self._known_home(uri)
        if found is None or found not in sources:
            raise NotFoundError(f"there is no resource {uri!r}", details={"uri": uri})
        return found, uri

    def _known_home(self, uri: str) -> str | None:
        found = self._homes.get(uri)
        if found is None:
            matching = (home for template, home in self._templates.items() if fits_template(uri, template))
            found = next(matching, None)
        return found

    def _remember(self, uri: str, source: str) -> None:
        self._homes[uri] = source
        self._homes.move_to_end(uri)
        if len(self._homes) > MAX_REMEMBERED:
            self._homes.popitem(last=False)

    def linked(self, uri: str, source: str) -> None:
        """A tool of this source returned a link, which may be in no list."""
        if uri not in self._homes:
            self._remember(uri, source)

    async def watch(self, source: str, principal: Principal, uri: str) -> None:
        """Watches a resource until cancelled, and reports its changes. Keeps the source's session open."""
        async with self._session(source, principal) as (session, credential):
            if "subscribe" in session.offers:
                await session.watch(uri, credential)

    # --- completions

    async def complete(self, principal: Principal, params: JsonObject) -> JsonObject:
        ref = cast(JsonObject, params["ref"])
        if ref.get("type") == "ref/prompt":
            source, name = await self._prompt_home(principal, str(ref.get("name")))
            ref = {**ref, "name": name}
        else:
            uri = str(ref.get("uri"))
            if uri not in self._templates:
                await self.templates(principal)
            source = self._templates.get(uri) or (await self.home(principal, uri))[0]
        async with self._session(source, principal) as (session, _):
            if "completions" not in session.offers:
                return {"completion": {"values": []}}
        return await self._relay(source, principal, "completion/complete", {**params, "ref": ref})

    # --- files that tools returned

    def file_link(self, principal: Principal, path: str) -> str:
        name = Path(path).name
        self._issued[(principal.id, name)] = None
        if len(self._issued) > MAX_REMEMBERED:
            self._issued.popitem(last=False)
        return f"{OWN}{FILES}/{name}"

    async def _read_file(self, principal: Principal, uri: str) -> JsonObject:
        name = uri.removeprefix(f"{OWN}{FILES}/")
        if not _FILE_NAME.fullmatch(name) or (principal.id, name) not in self._issued:
            raise NotFoundError(f"there is no resource {uri!r}", details={"uri": uri})
        path = self._app.settings.state_folder / "files" / name
        try:
            data = await asyncio.to_thread(_read_bounded, path)
        except FileNotFoundError:
            raise NotFoundError(f"there is no resource {uri!r} any more", details={"uri": uri}) from None
        return {"contents": [{"uri": uri, "blob": base64.b64encode(data).decode()}]}

    # --- asking the sources

    def _session(self, source: str, principal: Principal) -> Any:
        return self._app.catalog.session(source, principal)

    async def _everywhere(
        self, principal: Principal, offer: str, method: str, key: str, sources: list[str] | None = None
    ) -> list[tuple[str, list[JsonObject]]]:
        """The lists of all sources. A source that fails is left out with a note."""

        async def ask(source: str) -> tuple[str, list[JsonObject]]:
            try:
                return source, await self._list(source, principal, offer, method, key)
            except SpindleError as error:
                self._note(f"{source}: {method} failed: {error.message}")
                return source, []

        names = self.sources(principal) if sources is None else sources
        return list(await asyncio.gather(*(ask(name) for name in names)))

    async def _list(
        self, source: str, principal: Principal, offer: str, method: str, key: str
    ) -> list[JsonObject]:
        found: list[JsonObject] = []
        cursor: str | None = None
        for _ in range(MAX_PAGES):
            params: JsonObject = {"cursor": cursor} if cursor else {}

            async def ask(session: RelaySession, credential: Any, params: JsonObject = params) -> JsonObject:
                if offer not in session.offers:
                    return {}
                return await session.relay(method, params, credential)

            page = await self._within(source, principal, method, ask)
            items = page.get(key)
            found += [item for item in items if is_object(item)] if is_array(items) else []
            cursor = page.get("nextCursor")
            if not isinstance(cursor, str):
                return found
        raise ServerError(f"{source!r} has more than {MAX_PAGES} pages of {key}")

    async def _relay(self, source: str, principal: Principal, method: str, params: JsonObject) -> JsonObject:
        async def ask(session: RelaySession, credential: Any) -> JsonObject:
            return await session.relay(method, without_ours(params), credential)

        result = await self._within(source, principal, method, ask)
        meta = result.get("_meta")
        if is_object(meta) and SERVER_INFO_META_KEY in meta:
            # Who answers is Spindle.
            result["_meta"] = {name: value for name, value in meta.items() if name != SERVER_INFO_META_KEY}
        return result

    async def _within(
        self, source: str, principal: Principal, method: str, ask: Callable[[RelaySession, Any], Awaitable[T]]
    ) -> T:
        limit = self._app.catalog.sources.config(source).timeout
        try:
            async with self._session(source, principal) as (session, credential), asyncio.timeout(limit):
                return await ask(session, credential)
        except TimeoutError:
            raise ServerError(f"{source!r} did not answer {method} within {limit:g} s") from None


def own_address(source: str, uri: str) -> str:
    """The address under which we offer a source's resource."""
    return f"{OWN}{source}/{quote(uri, safe='')}"


def fits_template(uri: str, template: str) -> bool:
    """True if an address may come from a template. Every expression may stand for anything, since only the
    source knows exactly."""
    parts = re.split(r"\{[^{}]*\}", template)
    return re.fullmatch(".*".join(re.escape(part) for part in parts), uri, re.DOTALL) is not None


def without_ours(params: JsonObject) -> JsonObject:
    """The parameters without what a client said to us about itself."""
    meta = params.get("_meta")
    if not is_object(meta):
        return params
    kept = {key: value for key, value in meta.items() if key not in _OURS}
    rest = {key: value for key, value in params.items() if key != "_meta"}
    return {**rest, "_meta": kept} if kept else rest


def _read_bounded(path: Path) -> bytes:
    with path.open("rb") as file:
        data = file.read(MAX_FILE + 1)
    if len(data) > MAX_FILE:
        raise ResultTooLargeError(
            f"{path.name} is larger than {MAX_FILE} bytes",
            hint="it is in the workspace's .spindle/files folder",
        )
    return data
