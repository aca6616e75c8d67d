"""Asks a registry of MCP servers: the endpoints under `/v0.1/servers`, within bounds."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Final
from urllib.parse import quote, urlencode

from spindle.documents.bounds import Bounds
from spindle.documents.places import TextError
from spindle.documents.text import read_any
from spindle.domain.identity import KEY_HEADER, NO_CREDENTIAL, Credential
from spindle.domain.json_schema import JsonObject, is_array, is_object
from spindle.domain.registry import OFFICIAL, RegistryConfig
from spindle.domain.source import ApiKeyAuth, BasicAuth, BearerAuth
from spindle.errors import CallTimeoutError, ConfigurationError, NotFoundError, ServerError, SpindleError
from spindle.http.client import HttpClient
from spindle.http.credentials import basic, bearer, key
from spindle.http.exchange import RedirectPolicy, exchange
from spindle.http.failures import HttpFailure, as_error
from spindle.http.request import Prepared, with_credential
from spindle.http.responses import to_error
from spindle.registry.entry import EntryError, ServerEntry, read_entry

PAGE_SIZE: Final = 100
MAX_PAGES: Final = 20
"""Pages that one search reads."""
MAX_ANSWER: Final = 8 * 1024 * 1024
_BOUNDS: Final = Bounds(size=MAX_ANSWER, depth=40, unfolded=10_000)
_ROOT: Final = "/v0.1/servers"


@dataclass(slots=True)
class Found:
    """The entries that a search found, and the cursor from which it can continue."""

    entries: list[ServerEntry] = field(default_factory=list[ServerEntry])
    cursor: str | None = None
    unreadable: int = 0
    """Entries that were left out because they are not of the promised form."""


class RegistryClient:
    """One registry, asked over HTTP."""

    def __init__(self, name: str, config: RegistryConfig, http: HttpClient) -> None:
        self.name = name
        self.config = config
        self._http = http
        self.is_inside = False
        """True if the last answer came from this machine or its networks. Only such a registry may name
        servers there."""

    async def search(self, words: Sequence[str], limit: int, cursor: str | None = None) -> Found:
        """Returns the latest versions of servers in whose name, title or description all words stand."""
        wanted = [word.lower() for word in words if word]
        # A registry looks for one text in names; the other words are looked for here.
        asked = max(wanted, key=len, default="")
        found, seen = Found(), {cursor}
        for _ in range(MAX_PAGES):
            size = min(PAGE_SIZE, limit - len(found.entries)) if len(wanted) < 2 else PAGE_SIZE
            query = {"version": "latest", "limit": str(size), "search": asked, "cursor": cursor or ""}
            page = await self._get(f"?{urlencode({name: value for name, value in query.items() if value})}")
            servers = page.get("servers")
            if not is_array(servers):
                raise self._broken("an answer without `servers`")
            for item in servers:
                self._take(found, item, wanted)
            cursor = found.cursor = _cursor(page)
            # A page is taken whole, also where it goes beyond the limit: its rest could not be asked for.
            if cursor is None or len(found.entries) >= limit:
                return found
            if cursor in seen:
                raise self._broken("gives the same page again and again")
            seen.add(cursor)
        return found

    def _take(self, found: Found, item: Any, wanted: Sequence[str]) -> None:
        try:
            entry = read_entry(item)
        except EntryError:
            found.unreadable += 1
            return
        text = f"{entry.name} {entry.title} {entry.description}".lower()
        # The one word that the registry was asked for may stand where only it looks.
        if len(wanted) < 2 or all(word in text for word in wanted):
            found.entries.append(entry)

    async def server(self, name: str, version: str | None = None) -> ServerEntry:
        """Returns one server, by default its latest version."""
        place = f"/{quote(name, safe='')}/versions/{quote(version or 'latest', safe='')}"
        try:
            entry = read_entry(await self._get(place))
        except EntryError as error:
            raise self._broken(error.message, error.hint) from None
        if entry.name != name or version not in (None, entry.version):
            raise self._broken(f"answered with {entry.name}@{entry.version}, which was not asked for")
        return entry

    async def versions(self, name: str) -> list[ServerEntry]:
        """Returns all versions of a server, as far as their entries can be read."""
        page = await self._get(f"/{quote(name, safe='')}/versions")
        found = Found()
        for item in page.get("servers") or ():
            self._take(found, item, ())
        return [entry for entry in found.entries if entry.name == name]

    async def _get(self, rest: str) -> JsonObject:
        url = f"{self.config.url}{_ROOT}{rest}"
        request = with_credential(
            Prepared("GET", url, {"accept": "application/json"}), _credential(self.config)
        )
        try:
            async with asyncio.timeout(self.config.timeout):
                data = await self._read(request)
        except TimeoutError:
            raise CallTimeoutError(
                f"the registry {self.name!r} did not answer within {self.config.timeout:g} s",
                hint=f"try again, or raise registries.{self.name}.timeout",
            ) from None
        except HttpFailure as failure:
            raise self._failed(failure) from failure
        # A page in HTML is a text of YAML, too.
        if not data[:1024].lstrip().startswith((b"{", b"[")):
            raise self._broken("did not answer with JSON")
        try:
            answer = read_any(data, _BOUNDS)
        except TextError as error:
            raise self._broken(f"did not answer with JSON: {error.problem}") from None
        if not is_object(answer):
            raise self._broken("did not answer with a JSON object")
        return answer

    async def _read(self, request: Prepared) -> bytes:
        policy = RedirectPolicy(most=3)
        async with exchange(self._http, request, policy, timeout=self.config.timeout) as answer:
            self.is_inside = await answer.is_from_inside() and not answer.sent_from_outside
            if answer.status < 300:
                return await answer.read(MAX_ANSWER)
            error = to_error(self.name, answer, (await answer.read(64 * 1024)))
        error.message = error.message.replace(f"{self.name!r}", f"the registry {self.name!r}", 1)
        if isinstance(error, NotFoundError):
            error.hint = f"is {self.config.url} a registry of MCP servers that knows v0.1?"
        elif error.status in (401, 403):
            error.hint = f"set registries.{self.name}.auth"
        error.details = None
        raise error

    def _failed(self, failure: HttpFailure) -> SpindleError:
        error = as_error(
            failure,
            f"registry {self.name}",
            reach_hint=f"check the network, and registries.{self.name}.url"
            if self.config.url != OFFICIAL
            else "check the network; [registries] can name another registry",
            inside_hint="only a registry that is itself inside may lead there",
            size_setting="limit",
        )
        error.message = error.message.replace(f"'registry {self.name}'", f"the registry {self.name!r}")
        if isinstance(error, ServerError):
            error.hint = None
        return error

    def _broken(self, what: str, hint: str | None = None) -> ServerError:
        return ServerError(f"the registry {self.name!r}: {what}", hint=hint)


def _cursor(page: JsonObject) -> str | None:
    metadata = page.get("metadata")
    found = metadata.get("nextCursor") if is_object(metadata) else None
    return found if isinstance(found, str) and found and len(found) <= 2048 else None


def _credential(config: RegistryConfig) -> Credential:
    match config.auth:
        case BearerAuth(token=token):
            return bearer(token)
        case BasicAuth(username=username, password=password):
            return basic(username, password)
        case ApiKeyAuth(name=name, value=value, location=location):
            return key(name or KEY_HEADER, value, location)
        case _:
            return NO_CREDENTIAL


class Registries:
    """All registries of the settings, asked in their order."""

    def __init__(self, configs: dict[str, RegistryConfig]) -> None:
        self._http = HttpClient(10.0)
        self.clients = [RegistryClient(name, config, self._http) for name, config in configs.items()]

    async def __aenter__(self) -> Registries:
        return self

    async def __aexit__(self, *_error: object) -> None:
        await self._http.aclose()

    @property
    def http(self) -> HttpClient:
        """The client for what the registries lead to."""
        return self._http

    async def find(self, name: str, version: str | None = None) -> tuple[RegistryClient, ServerEntry]:
        """Returns a server and the first registry that knows it."""
        missing: NotFoundError | None = None
        for client in self.clients:
            try:
                return client, await client.server(name, version)
            except NotFoundError as error:
                missing = error
        if missing is None:
            raise ConfigurationError("no registry is configured", hint="see [registries] in spindle.toml")
        asked = ", ".join(client.name for client in self.clients)
        at = f" in version {version}" if version else ""
        raise NotFoundError(
            f"there is no server {name!r}{at} in the registry {asked!r}",
            hint=f"`spindle registry search {name.rpartition('/')[2]}` looks for it"
            if version is None
            else f"`spindle registry show {name}` lists its versions",
        )


def chosen(configs: dict[str, RegistryConfig], named: str | None) -> dict[str, RegistryConfig]:
    """Returns the registries to ask: all, the one of a name, or the one at a URL."""
    if named is None:
        return configs
    if named in configs:
        return {named: configs[named]}
    if "://" in named:
        from urllib.parse import urlsplit

        from pydantic import ValidationError

        try:
            config = RegistryConfig(url=named)
        except ValidationError:
            raise ConfigurationError(f"{named!r} is not the address of a registry") from None
        known = next((other for other in configs.values() if other.url == config.url), config)
        return {urlsplit(named).hostname or named: known}
    from spindle.errors import did_you_mean

    hint = did_you_mean(named, configs, f"known are {', '.join(configs)}; or give a URL")
    raise NotFoundError(f"there is no registry {named!r} in the settings", hint=hint)
