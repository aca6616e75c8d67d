"""Resources, prompts and completions of the sources that have them, under the source's name.

A prompt is called `source.prompt`. A resource keeps its address; where two sources have the same one,
the second is reached as `spindle://SOURCE/` followed by that address, quoted. Pages of MCP Apps are
offered as `ui://SOURCE/…`: programs know them by their scheme, and their tools name them.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, cast
from urllib.parse import quote, unquote

from spindle.domain import apps
from spindle.domain.bounded import BoundedMap
from spindle.domain.json_schema import JsonObject, is_array, is_object
from spindle.domain.resource import MAX_URI, fits_template, uri_problem
from spindle.errors import (
    ClientError,
    Interruption,
    InvalidArgumentsError,
    NotFoundError,
    SpindleError,
    did_you_mean,
)
from spindle.ports.list_budget import ListBudget, size_of
from spindle.ports.source import RelaySession
from spindle.threads import in_turn

if TYPE_CHECKING:
    from spindle.calls.requests import Client, SourceRequests
    from spindle.domain.identity import Principal
    from spindle.domain.peer import SessionHolder
    from spindle.ports.source import Note

UPDATED = "notifications/resources/updated"
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
        self._homes: BoundedMap[str, frozenset[str]] = BoundedMap(MAX_REMEMBERED)
        """By address, the sources with a resource that was listed, or that a tool returned a link to."""
        self._templates: BoundedMap[str, frozenset[str]] = BoundedMap(MAX_REMEMBERED)

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

    # --- prompts

    async def prompts(self, principal: Principal, client: Client | None = None) -> list[JsonObject]:
        """The prompts of all sources, under the names by which they are asked for."""
        found: list[JsonObject] = []
        for source, prompts in await self.listed(principal, "prompts", client=client):
            found += [{**prompt, "name": self.prompt_name(source, prompt["name"])} for prompt in prompts]
        return found

    async def prompt(self, principal: Principal, params: JsonObject, client: Client) -> JsonObject:
        """A prompt with its arguments filled in."""
        source, name = await self.prompt_home(principal, str(params["name"]), client)
        return await self.request(source, principal, "prompts/get", {**params, "name": name}, client=client)

    def prompt_name(self, source: str, name: str) -> str:
        """The name by which a prompt of a source is asked for."""
        return f"{source}.{name}" if self._catalog.sources.config(source).prefix else name

    async def prompt_home(
        self, principal: Principal, name: str, client: Client | None = None
    ) -> tuple[str, str]:
        """The source of a prompt, and its name there."""
        sources = self.sources(principal)
        source, dot, rest = name.partition(".")
        if dot and source in sources and self._catalog.sources.config(source).prefix:
            return source, rest
        known: dict[str, str] = {}
        plain = [name for name in sources if not self._catalog.sources.config(name).prefix]
        for home, prompts in await self.listed(principal, "prompts", plain, client):
            known |= {prompt["name"]: home for prompt in reversed(prompts)}
        if name in known:
            return known[name], name
        raise self.no_prompt(name, [prompt["name"] for prompt in await self.prompts(principal, client)])

    def no_prompt(self, name: str, known: Sequence[str]) -> NotFoundError:
        """The error for an unknown prompt."""
        return NotFoundError(f"there is no prompt {name!r}", hint=did_you_mean(name, known))

    # --- resources

    async def resources(self, principal: Principal, client: Client | None = None) -> list[JsonObject]:
        """The resources of all sources, each under an address of its own."""
        found: list[JsonObject] = []
        taken: set[str] = set()
        for source, items in await self.listed(principal, "resources", client=client):
            for item in items:
                uri = apps.offered(source, str(item["uri"]))
                self._remember(uri, source)
                if uri in taken:
                    uri = own_address(source, uri)
                taken.add(uri)
                found.append({**item, "uri": uri})
        return found

    async def templates(self, principal: Principal, client: Client | None = None) -> list[JsonObject]:
        """The templates of all sources, each once."""
        found: list[JsonObject] = []
        taken: set[str] = set()
        for source, items in await self.listed(principal, "templates", client=client):
            for item in items:
                template = apps.offered(source, str(item["uriTemplate"]))
                self._templates[template] = self._templates.get(template, frozenset()) | {source}
                if template in taken:
                    continue  # an expression cannot be quoted; whoever needs this one renames a source's
                taken.add(template)
                found.append({**item, "uriTemplate": template})
        return found

    async def read(self, principal: Principal, params: JsonObject, client: Client) -> JsonObject:
        """The contents of a resource."""
        uri = str(params["uri"])
        source, inner = await self.home(principal, uri, client)
        sent = {**params, "uri": inner}
        result = await self.request(source, principal, "resources/read", sent, client=client)
        if inner != uri and is_array(result.get("contents")):
            result["contents"] = [
                {**item, "uri": uri} if item.get("uri") == inner else item for item in result["contents"]
            ]
        return result

    async def home(self, principal: Principal, uri: str, client: Client | None = None) -> tuple[str, str]:
        """The source of a resource, and its address there."""
        sources = self.sources(principal)
        if (own := self.of_own(principal, uri)) is not None:
            return own
        checked_uri(uri)
        found = self._known_home(uri, sources)
        if found is None:
            await asyncio.gather(self.resources(principal, client), self.templates(principal, client))
            found = self._known_home(uri, sources)
        if found is None:
            raise NotFoundError(f"there is no resource {uri!r}", details={"uri": uri})
        return found, uri

    def of_own(self, principal: Principal, uri: str) -> tuple[str, str] | None:
        """The source and the address there, if the address is one of those that we made."""
        page = apps.taken_back(uri[: 4 * MAX_URI])
        if page is not None:
            return (page[0], checked_uri(page[1])) if page[0] in self.sources(principal) else None
        if not uri.startswith(OWN):
            return None
        # Quoting makes an address three times longer at most.
        source, _, quoted = uri[: 4 * MAX_URI].removeprefix(OWN).partition("/")
        return (source, checked_uri(unquote(quoted))) if source in self.sources(principal) else None

    def _known_home(self, uri: str, sources: Sequence[str]) -> str | None:
        """The first of these sources that is known to have a resource of this address: what others were shown
        does not count."""
        homes = self._homes.get(uri, frozenset())
        if homes.isdisjoint(sources):
            fitting = (of for template, of in self._templates.items() if fits_template(uri, template))
            homes = next((of for of in fitting if not of.isdisjoint(sources)), homes)
        return next((name for name in sources if name in homes), None)

    def _remember(self, uri: str, source: str) -> None:
        self._homes[uri] = self._homes.get(uri, frozenset()) | {source}

    def linked(self, uri: str, source: str) -> None:
        """A tool of this source returned a link, which may be in no list."""
        if uri not in self._homes and uri_problem(uri) is None:
            self._remember(uri, source)

    async def watch(
        self,
        source: str,
        principal: Principal,
        uri: str,
        changed: Callable[[], None],
        on_ready: Callable[[], None] | None = None,
        client: SessionHolder | None = None,
    ) -> None:
        """Watches a resource until cancelled, as the source shows it to this principal, or to the session of
        this client: what the source tells others is not heard. Keeps the source's session open."""
        async with self._catalog.session(source, principal, client) as (session, credential):
            if not isinstance(session, RelaySession) or "subscribe" not in session.offers:
                raise ClientError(f"{source!r} does not tell when its resources change", source=source)

            told = session.audience(credential)

            def notice(of: str, method: str, params: JsonObject, whose: str) -> None:
                if (of, method, whose) == (source, UPDATED, told) and _is_part(params.get("uri"), uri):
                    changed()

            notices = self._catalog.sources.notices
            notices.append(notice)
            try:
                await session.watch(uri, credential, on_ready)
            finally:
                notices.remove(notice)

    # --- completions

    async def complete(self, principal: Principal, params: JsonObject, client: Client) -> JsonObject:
        """The values that a source proposes for an argument."""
        ref = cast(JsonObject, params["ref"])
        if ref.get("type") == "ref/prompt":
            source, name = await self.prompt_home(principal, str(ref.get("name")), client)
            ref = {**ref, "name": name}
        else:
            uri = checked_uri(str(ref.get("uri")))
            sources = self.sources(principal)
            if self._templates.get(uri, frozenset()).isdisjoint(sources):
                await self.templates(principal, client)
            homes = self._templates.get(uri, frozenset())
            own = next((name for name in sources if name in homes), None)
            source = own or (await self.home(principal, uri, client))[0]
            if (page := apps.taken_back(uri)) is not None:
                ref = {**ref, "uri": page[1]}
        sent = {**params, "ref": ref}
        found = await self.request(source, principal, "completion/complete", sent, "completions", client)
        return found or {"completion": {"values": []}}

    # --- asking the sources

    async def listed(
        self,
        principal: Principal,
        what: str,
        sources: Sequence[str] | None = None,
        client: Client | None = None,
    ) -> list[tuple[str, list[JsonObject]]]:
        """The `resources`, `templates` or `prompts` of all sources, or of those named. One that fails, or
        that waits for its user's consent, is left out with a note."""

        async def ask(source: str) -> tuple[str, list[JsonObject]]:
            try:
                return source, await self.list_of(source, principal, what, client)
            except (SpindleError, Interruption) as error:
                self._note(f"{source}: its {what} could not be listed: {error.message}")
                return source, []

        names = self.sources(principal) if sources is None else sources
        return list(await asyncio.gather(*(ask(name) for name in names)))

    async def list_of(
        self, source: str, principal: Principal, what: str, client: Client | None = None
    ) -> list[JsonObject]:
        """The `resources`, `templates` or `prompts` of one source, every page."""
        offer, method, key, name = _LISTS[what]
        budget = ListBudget(source, self._catalog.sources.config(source), what)
        found: list[JsonObject] = []
        cursor: str | None = None
        while True:
            params: JsonObject = {"cursor": cursor} if cursor else {}
            page = await self._requests.request(source, principal, method, params, offer, client) or {}
            items = page.get(key)
            whole = [item for item in items if is_object(item)] if is_array(items) else []
            budget.take(len(whole), await in_turn(size_of, page))
            found += [
                item for item in whole if isinstance(item.get(name), str) and len(item[name]) <= MAX_URI
            ]
            cursor = page.get("nextCursor")
            if not isinstance(cursor, str):
                return found
            budget.turn(cursor)

    async def request(
        self,
        source: str,
        principal: Principal,
        method: str,
        params: JsonObject,
        offer: str | None = None,
        client: Client | None = None,
    ) -> JsonObject:
        """Makes a request of one source, and returns the result as it came; nothing if the source does not
        have the `offer` that it belongs to."""
        return await self._requests.request(source, principal, method, params, offer, client) or {}


_LISTS = {
    "resources": ("resources", "resources/list", "resources", "uri"),
    "templates": ("resources", "resources/templates/list", "resourceTemplates", "uriTemplate"),
    "prompts": ("prompts", "prompts/list", "prompts", "name"),
}
"""By what is listed: the capability, the request, the name of the list, and what tells its items apart."""


def _is_part(changed: Any, uri: str) -> bool:
    """True if what changed is this resource, or one below it, which servers may tell instead."""
    return changed == uri or (isinstance(changed, str) and changed.startswith(f"{uri.rstrip('/')}/"))


def checked_uri(uri: str) -> str:
    """Returns an address that somebody gave; raises if it is longer than any that he was shown."""
    if (problem := uri_problem(uri)) is not None:
        raise InvalidArgumentsError(problem, sent=False)
    return uri


def own_address(source: str, uri: str) -> str:
    """The address under which we offer a source's resource."""
    return f"{OWN}{source}/{quote(uri, safe='')}"
