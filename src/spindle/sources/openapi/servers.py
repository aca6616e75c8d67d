"""The server that an operation goes to, out of those that its document names."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any
from urllib.parse import urljoin

from spindle.documents.refs import Document, entries, shown
from spindle.domain.json_schema import JsonObject, is_array, is_object
from spindle.errors import ConfigurationError, did_you_mean
from spindle.http.addresses import same_origin

if TYPE_CHECKING:
    from spindle.domain.tool import ToolSpec

_VARIABLE = re.compile(r"\{([^{}]+)\}")
# Of a host no more than this: what else a document has in its place is for people to replace.
_WEB_ADDRESS = re.compile(
    r"https?://(?:[^/?#@\s]*@)?(?:\[[0-9A-Fa-f:.]+\]|[\w.{}-]+)(?::[\w{}]+)?(?:[/?#]|$)"
)


@dataclass(frozen=True, slots=True)
class ServerChoice:
    """The server that the user chose, and the values of its variables."""

    server: int | str | None = None
    """By its place in the document, or by its URL or description."""
    variables: Mapping[str, str] = field(default_factory=dict[str, str])
    overridden: bool = False
    """Calls go elsewhere anyway."""
    near: str | None = None
    """Rather one at the origin of this URL, which is also the one where the document names none."""


class Servers:
    """The servers of a document. An operation's own, or its path's, go before the document's."""

    def __init__(self, main: Document, given: Any, choice: ServerChoice) -> None:
        self._main = main
        self._choice = choice
        self._given = _known(given) or [{"url": choice.near or "/"}]
        self._own = self._chosen()
        self._variables: set[str] = set()
        self._addresses: dict[tuple[str, str], str | None] = {}

    def of(self, *owners: JsonObject, document: Document, problems: list[str]) -> str | None:
        """Returns the URL for an operation, or None where only the user can say it."""
        for owner in owners:
            found = _known(owner.get("servers"))
            if found:
                wanted = self._choice.server
                named = [server for server in found if isinstance(wanted, str) and _is(server, wanted)]
                server = (named or self._with_variables(found))[0]
                break
        else:
            server, document = self._own, self._main
        url = self._filled(server, problems).strip()
        key = (document.address, url)
        if key not in self._addresses:
            self._addresses[key] = _address(*key)
        return self._addresses[key]

    def homeless(self, specs: Sequence[ToolSpec]) -> list[str]:
        """Returns a note on operations that nobody can call before the user says where their API is."""
        usable = [spec for spec in specs if spec.unusable is None]
        count = sum(1 for spec in usable if "server" not in spec.metadata)
        if not count or self._choice.overridden:
            return []
        what = "its operations" if count == len(usable) else f"{count} of its operations"
        return [f"{what} cannot be called yet: the document does not say where the API is; set `base_url`"]

    def check(self) -> list[str]:
        """Returns remarks on the choice, once all operations are read. Refuses variables that nothing has."""
        for name in self._choice.variables:
            if name not in self._variables and not self._choice.overridden:
                raise ConfigurationError(
                    f"{shown(self._main.address)}: no server that is used has a variable {name!r}",
                    hint=did_you_mean(name, self._variables, "check `server_variables`"),
                )
        if len(self._given) > 1 and self._choice.server is None and not self._choice.overridden:
            used = self._own["url"]
            others = ", ".join(server["url"] for server in self._given if server is not self._own)
            return [f"of its servers {used} is used; set `server` for another: {others}"]
        return []

    def _chosen(self) -> JsonObject:
        wanted = self._choice.server
        if wanted is None:
            near = [server for server in self._given if self._is_near(server)]
            return self._with_variables(near or self._given)[0]
        if isinstance(wanted, int):
            if wanted < len(self._given):
                return self._given[wanted]
        else:
            found = [server for server in self._given if _is(server, wanted)]
            if found:
                return found[0]
        if self._choice.overridden:
            return self._given[0]
        listed = "; ".join(
            f"{number}: {server['url']}" + (f" ({text})" if (text := server.get("description")) else "")
            for number, server in enumerate(self._given)
        )
        raise ConfigurationError(
            f"{shown(self._main.address)} has no server {wanted!r}",
            hint=f"set `server` to one of these, by number, URL or description: {listed}",
        )

    def _is_near(self, server: JsonObject) -> bool:
        if self._choice.near is None:
            return False
        return same_origin(urljoin(self._main.address, server["url"]), self._choice.near)

    def _with_variables(self, servers: list[JsonObject]) -> list[JsonObject]:
        """Returns the first of several, or the first that has the variables which the user gave."""
        asked = set(self._choice.variables)
        return sorted(servers, key=lambda server: not asked.issubset(_VARIABLE.findall(server["url"])))

    def _filled(self, server: JsonObject, problems: list[str]) -> str:
        described = entries(server.get("variables"))

        def value(match: re.Match[str]) -> str:
            name = match[1]
            self._variables.add(name)
            variable = entries(described.get(name))
            given = self._choice.variables.get(name)
            allowed = variable.get("enum")
            if given is not None:
                if is_array(allowed) and allowed and given not in [str(item) for item in allowed]:
                    problems.append(f"the server's variable {name!r} should not be {given!r}, it says")
                return given
            if variable.get("default") is None:
                problems.append(f"the server's variable {name!r} has no value; give it in `server_variables`")
                return match[0]
            return str(variable["default"])

        return _VARIABLE.sub(value, server["url"])


def _known(servers: Any) -> list[JsonObject]:
    given: list[Any] = servers if is_array(servers) else []
    return [server for server in given if is_object(server) and isinstance(server.get("url"), str)]


def _address(document: str, url: str) -> str | None:
    """The address that a server's URL in a document means; None for what cannot be called."""
    try:
        url = url if document.startswith("file://") else urljoin(document, url)
    except ValueError:
        return None
    return url if _WEB_ADDRESS.match(url) else None


def _is(server: JsonObject, wanted: str) -> bool:
    return wanted in (server["url"], server["url"].rstrip("/"), server.get("description"), server.get("name"))
