"""Resources, prompts and completions of the sources that have them, under the source's name.

A prompt is called `source.prompt`. A resource keeps its address; where two sources have the same one,
the second is reached as `spindle://SOURCE/` followed by that address, quoted.
"""

from __future__ import annotations

import asyncio
import re
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, cast
from urllib.parse import quote, unquote

from spindle.domain.json_schema import JsonObject, is_array, is_object
from spindle.errors import ClientError, Interruption, NotFoundError, ServerError, SpindleError, did_you_mean
from spindle.ports.source import RelaySession

if TYPE_CHECKING:
    from spindle.calls.requests import SourceRequests
    from spindle.domain.identity import Principal
    from spindle.ports.source import Note, SourceNotice

MAX_PAGES = 100
MAX_REMEMBERED = 10_000
OWN = "spindle://"

Offers = Callable[["Principal", str], bool]
"""True if the resources and prompts of this source exist for the principal."""


class SourceRelay:
    """Passes resources, prompts and completions of sources on to those who ask for them."""

    def __init__(self, requests: SourceRequests, offers: Offers, note: Note) -> None:
        self._requests = requests
        self._catalog = requests.catalog
        self._offers = offers
        self._note = note
        self._homes: OrderedDict[str, str] = OrderedDict()
        """By address, the source of a resource that was listed, or that a tool returned a link to."""
        self._templates: dict[str, str] = {}

    def sources(self, principal: Principal) -> list[str]:
        """The sources that may have resources and prompts for this principal."""
        sources = self._catalog.sources
        return [name for name in sources.names if sources.relays(name) and self._offers(principal, name)]

    def require(self, principal: Principal, source: str) -> None:
        """Raises if the source is none that has resources or prompts for this principal."""
        if source in self.sources(principal):
            return
        known = [name for name in self._catalog.sources.names if self._offers(principal, name)]
        if source in known:
            kind = self._catalog.sources.kind(source)
            raise ClientError(f"{source!r} is a source of kind {kind}, which has no resources or prompts")
        hint = did_you_mean(source, known, "`spindle sources` lists them")
        raise NotFoundError(f"there is no source {source!r}", hint=hint, source=source)

    @property
    def settings(self) -> dict[str, Mapping[str, Any]]:
        """The settings of the sources that offer more than tools; when they change, the offers may too."""
        sources = self._catalog.sources
        return {name: sources.table(name) for name in sources.names if sources.relays(name)}

    @property
    def notices(self) -> list[SourceNotice]:
        """The listeners for news from the servers of all sources."""
        return self._catalog.sources.notices

    # --- prompts

    async def prompts(self, principal: Principal) -> list[JsonObject]:
        """The prompts of all sources, under the names by which they are asked for."""
        found: list[JsonObject] = []
        for source, prompts in await self.listed(principal, "prompts"):
            found += [{**prompt, "name": self.prompt_name(source, prompt["name"])} for prompt in prompts]
        return found

    async def prompt(self, principal: Principal, params: JsonObject) -> JsonObject:
        """A prompt with its arguments filled in."""
        source, name = await self.prompt_home(principal, str(params["name"]))
        return await self.request(source, principal, "prompts/get", {**params, "name": name})

    def prompt_name(self, source: str, name: str) -> str:
        """The name by which a prompt of a source is asked for."""
        return f"{source}.{name}" if self._catalog.sources.config(source).prefix else name

    async def prompt_home(self, principal: Principal, name: str) -> tuple[str, str]:
        """The source of a prompt, and its name there."""
        sources = self.sources(principal)
        source, dot, rest = name.partition(".")
        if dot and source in sources and self._catalog.sources.config(source).prefix:
            return source, rest
        known: dict[str, str] = {}
        plain = [name for name in sources if not self._catalog.sources.config(name).prefix]
        for home, prompts in await self.listed(principal, "prompts", plain):
            known |= {prompt["name"]: home for prompt in reversed(prompts)}
        if name in known:
            return known[name], name
        raise self.no_prompt(name, [prompt["name"] for prompt in await self.prompts(principal)])

    def no_prompt(self, name: str, known: Sequence[str]) -> NotFoundError:
        """The error for an unknown prompt."""
        return NotFoundError(f"there is no prompt {name!r}", hint=did_you_mean(name, known))

    # --- resources

    async def resources(self, principal: Principal) -> list[JsonObject]:
        """The resources of all sources, each under an address of its own."""
        found: list[JsonObject] = []
        taken: set[str] = set()
        for source, items in await self.listed(principal, "resources"):
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
        """The templates of all sources, each once."""
        found: list[JsonObject] = []
        taken: set[str] = set()
        for source, items in await self.listed(principal, "templates"):
            for item in items:
                template = str(item["uriTemplate"])
                if template in taken:
                    continue  # an expression cannot be quoted; whoever needs this one renames a source's
                taken.add(template)
                self._templates[template] = source
                found.append(item)
        return found

    async def read(self, principal: Principal, params: JsonObject) -> JsonObject:
        """The contents of a resource."""
        uri = str(params["uri"])
        source, inner = await self.home(principal, uri)
        result = await self.request(source, principal, "resources/read", {**params, "uri": inner})
        if inner != uri and is_array(result.get("contents")):
            result["contents"] = [
                {**item, "uri": uri} if item.get("uri") == inner else item for item in result["contents"]
            ]
        return result

    async def home(self, principal: Principal, uri: str) -> tuple[str, str]:
        """The source of a resource, and its address there."""
        sources = self.sources(principal)
        if (own := self.of_own(principal, uri)) is not None:
            return own
        found = self._known_home(uri)
        if found is None:
            await asyncio.gather(self.resources(principal), self.templates(principal))
            found = self._known_home(uri)
        if found is None or found not in sources:
            raise NotFoundError(f"there is no resource {uri!r}", details={"uri": uri})
        return found, uri

    def of_own(self, principal: Principal, uri: str) -> tuple[str, str] | None:
        """The source and the address there, if the address is one of those that we made."""
        if not uri.startswith(OWN):
            return None
        source, _, quoted = uri.removeprefix(OWN).partition("/")
        return (source, unquote(quoted)) if source in self.sources(principal) else None

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

    async def watch(
        self, source: str, principal: Principal, uri: str, on_ready: Callable[[], None] | None = None
    ) -> None:
        """Watches a resource until cancelled, and reports its changes to `notices` of the sources. Keeps the
        source's session open."""
        async with self._catalog.session(source, principal) as (session, credential):
            if not isinstance(session, RelaySession) or "subscribe" not in session.offers:
                raise ClientError(f"{source!r} does not tell when its resources change", source=source)
            await session.watch(uri, credential, on_ready)

    # --- completions

    async def complete(self, principal: Principal, params: JsonObject) -> JsonObject:
        """The values that a source proposes for an argument."""
        ref = cast(JsonObject, params["ref"])
        if ref.get("type") == "ref/prompt":
            source, name = await self.prompt_home(principal, str(ref.get("name")))
            ref = {**ref, "name": name}
        else:
            uri = str(ref.get("uri"))
            if uri not in self._templates:
                await self.templates(principal)
            source = self._templates.get(uri) or (await self.home(principal, uri))[0]
        found = await self.request(
            source, principal, "completion/complete", {**params, "ref": ref}, "completions"
        )
        return found or {"completion": {"values": []}}

    # --- asking the sources

    async def listed(
        self, principal: Principal, what: str, sources: Sequence[str] | None = None
    ) -> list[tuple[str, list[JsonObject]]]:
        """The `resources`, `templates` or `prompts` of all sources, or of those named. One that fails, or
        that waits for its user's consent, is left out with a note."""

        async def ask(source: str) -> tuple[str, list[JsonObject]]:
            try:
                return source, await self.list_of(source, principal, what)
            except (SpindleError, Interruption) as error:
                self._note(f"{source}: its {what} could not be listed: {error.message}")
                return source, []

        names = self.sources(principal) if sources is None else sources
        return list(await asyncio.gather(*(ask(name) for name in names)))

    async def list_of(self, source: str, principal: Principal, what: str) -> list[JsonObject]:
        """The `resources`, `templates` or `prompts` of one source, every page."""
        offer, method, key, name = _LISTS[what]
        found: list[JsonObject] = []
        cursor: str | None = None
        for _ in range(MAX_PAGES):
            params: JsonObject = {"cursor": cursor} if cursor else {}
            page = await self._requests.request(source, principal, method, params, offer) or {}
            items = page.get(key)
            whole = [item for item in items if is_object(item)] if is_array(items) else []
            found += [item for item in whole if isinstance(item.get(name), str)]
            cursor = page.get("nextCursor")
            if not isinstance(cursor, str):
                return found
        raise ServerError(f"{source!r} has more than {MAX_PAGES} pages of {what}")

    async def request(
        self, source: str, principal: Principal, method: str, params: JsonObject, offer: str | None = None
    ) -> JsonObject:
        """Makes a request of one source, and returns the result as it came; nothing if the source does not
        have the `offer` that it belongs to."""
        return await self._requests.request(source, principal, method, params, offer) or {}


_LISTS = {
    "resources": ("resources", "resources/list", "resources", "uri"),
    "templates": ("resources", "resources/templates/list", "resourceTemplates", "uriTemplate"),
    "prompts": ("prompts", "prompts/list", "prompts", "name"),
}
"""By what is listed: the capability, the request, the name of the list, and what tells its items apart."""


def own_address(source: str, uri: str) -> str:
    """The address under which we offer a source's resource."""
    return f"{OWN}{source}/{quote(uri, safe='')}"


def fits_template(uri: str, template: str) -> bool:
    """True if an address may come from a template. Every expression may stand for anything, since only the
    source knows exactly."""
    parts = re.split(r"\{[^{}]*\}", template)
    return re.fullmatch(".*".join(re.escape(part) for part in parts), uri, re.DOTALL) is not None
