"""Entries of a registry as data. They are somebody else's text: each field is checked when it is read."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Final, Literal, TypeVar

from spindle.domain.json_schema import JsonObject, is_array, is_object
from spindle.errors import ServerError
from spindle.registry import names
from spindle.registry.names import shown

META: Final = "io.modelcontextprotocol.registry/official"
MAX_PARTS: Final = 100
"""Packages, remotes, arguments or variables in one list."""

TRANSPORTS: Final = ("stdio", "streamable-http", "sse")
Part = Literal["positional", "named", "variable"]
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class EntryInput:
    """A value that an entry fixes, or that a user gives: an argument, a variable or a header."""

    name: str
    """The name of the variable or header, the option, or the hint of a positional argument."""
    part: Part = "variable"
    description: str = ""
    value: str | None = None
    default: str | None = None
    placeholder: str | None = None
    choices: tuple[str, ...] = ()
    format: str = "string"
    required: bool = False
    secret: bool = False
    repeated: bool = False
    variables: tuple[EntryInput, ...] = ()


@dataclass(frozen=True, slots=True)
class Remote:
    """A server that runs elsewhere, reached by its URL."""

    transport: str
    url: str
    headers: tuple[EntryInput, ...] = ()
    variables: tuple[EntryInput, ...] = ()

    @property
    def type(self) -> str:
        return "remote"


@dataclass(frozen=True, slots=True)
class Package:
    """A server that is started on this machine."""

    type: str
    identifier: str
    version: str | None
    transport: str = "stdio"
    base_url: str | None = None
    sha256: str | None = None
    runner_hint: str | None = None
    runner_arguments: tuple[EntryInput, ...] = ()
    arguments: tuple[EntryInput, ...] = ()
    environment: tuple[EntryInput, ...] = ()


@dataclass(frozen=True, slots=True)
class ServerEntry:
    """One version of one server."""

    name: str
    version: str
    title: str = ""
    description: str = ""
    website: str = ""
    repository: str = ""
    status: str = "active"
    status_message: str = ""
    published_at: str = ""
    is_latest: bool = True
    packages: tuple[Package, ...] = ()
    remotes: tuple[Remote, ...] = ()
    raw: JsonObject = field(default_factory=JsonObject, repr=False)
    """The `server` object as it came."""

    @property
    def kinds(self) -> tuple[str, ...]:
        """The ways to use it: types of packages, and `remote`."""
        return tuple(dict.fromkeys(offer.type for offer in (*self.packages, *self.remotes)))


class EntryError(ServerError):
    """An entry that is not of the form that registries promise, or that is hostile."""


def read_entry(answer: object) -> ServerEntry:
    """Returns the entry in a part of a registry's answer: `{"server": …, "_meta": …}`."""
    if not is_object(answer) or not is_object(answer.get("server")):
        raise EntryError("an entry without `server`")
    server: JsonObject = answer["server"]
    meta_table = answer.get("_meta")
    found: Any = meta_table.get(META) if is_object(meta_table) else None
    meta: JsonObject = found if is_object(found) else {}
    name, version = _text(server, "name"), _text(server, "version")
    if not names.is_server_name(name):
        raise EntryError(f"{shown(name)!r} is not the name of a server")
    if not names.is_version(version):
        raise EntryError(f"{name}: {shown(version)!r} is not a version")
    repository = server.get("repository")
    return ServerEntry(
        name,
        version,
        title=_line(server, "title"),
        description=_line(server, "description"),
        website=_line(server, "websiteUrl"),
        repository=_line(repository, "url") if is_object(repository) else "",
        status=_line(meta, "status") or "active",
        status_message=_line(meta, "statusMessage"),
        published_at=_line(meta, "publishedAt"),
        is_latest=meta.get("isLatest") is not False,
        packages=_each(server, "packages", lambda item: _package(item, version)),
        remotes=_each(server, "remotes", _remote),
        raw=server,
    )


def _package(item: JsonObject, server_version: str) -> Package:
    kind, identifier = _text(item, "registryType"), _text(item, "identifier")
    if kind != "mcpb" and kind in ("npm", "pypi", "oci", "nuget", "cargo"):
        if not names.is_identifier(kind, identifier):
            raise EntryError(f"{shown(identifier)!r} is not the name of a package of type {kind}")
    elif not names.is_plain(identifier):
        raise EntryError(f"{shown(identifier)!r} is not an address of a package")
    version = _text(item, "version") or None
    if version is not None and not names.is_version(version):
        raise EntryError(f"{shown(identifier)}: {shown(version)!r} is not one exact version")
    sha256 = _text(item, "fileSha256").lower() or None
    if sha256 is not None and not names.is_sha256(sha256):
        raise EntryError(f"{shown(identifier)}: `fileSha256` is not a SHA-256")
    transport = item.get("transport")
    way = _text(transport, "type") if is_object(transport) else "stdio"
    return Package(
        shown(kind, 40),
        identifier,
        version or (server_version if kind == "mcpb" else None),
        transport=way if way in TRANSPORTS else shown(way, 40) or "stdio",
        base_url=_plain(item, "registryBaseUrl") or None,
        sha256=sha256,
        runner_hint=_line(item, "runtimeHint") or None,
        runner_arguments=_each(item, "runtimeArguments", _argument),
        arguments=_each(item, "packageArguments", _argument),
        environment=_each(item, "environmentVariables", _variable),
    )


def _remote(item: JsonObject) -> Remote:
    transport = _text(item, "type")
    return Remote(
        transport if transport in TRANSPORTS else shown(transport, 40),
        _plain(item, "url"),
        headers=_each(item, "headers", _header),
        variables=_variables(item),
    )


def _argument(item: JsonObject) -> EntryInput:
    if item.get("type") == "named":
        name = _text(item, "name")
        if not names.is_flag(name):
            raise EntryError(f"{shown(name)!r} is not the name of an option")
        return _input(item, name, "named")
    return _input(item, _line(item, "valueHint") or _line(item, "name"), "positional")


def _variable(item: JsonObject) -> EntryInput:
    name = _text(item, "name")
    if not names.is_variable(name):
        raise EntryError(f"{shown(name)!r} is not the name of an environment variable")
    return _input(item, name, "variable")


def _header(item: JsonObject) -> EntryInput:
    name = _text(item, "name")
    if not names.is_header(name):
        raise EntryError(f"{shown(name)!r} is not the name of a header")
    return _input(item, name, "variable")


def _input(item: JsonObject, name: str, part: Part) -> EntryInput:
    return EntryInput(
        name,
        part,
        description=_line(item, "description"),
        value=_plain(item, "value") if "value" in item else None,
        default=_plain(item, "default") if "default" in item else None,
        placeholder=_line(item, "placeholder") or None,
        choices=tuple(shown(str(choice)) for choice in _list(item, "choices")),
        format=_line(item, "format") or "string",
        required=item.get("isRequired") is True,
        secret=item.get("isSecret") is True,
        repeated=item.get("isRepeated") is True,
        variables=_variables(item),
    )


def _variables(item: JsonObject) -> tuple[EntryInput, ...]:
    inner = item.get("variables")
    if not is_object(inner):
        return ()
    if len(inner) > MAX_PARTS:
        raise EntryError(f"more than {MAX_PARTS} variables in one value")
    return tuple(
        _input(table, shown(name, 128), "variable") for name, table in inner.items() if is_object(table)
    )


def _each(item: JsonObject, key: str, read: Callable[[JsonObject], T]) -> tuple[T, ...]:
    return tuple(read(part) for part in _list(item, key) if is_object(part))


def _list(item: JsonObject, key: str) -> list[Any]:
    found = item.get(key)
    if found is None:
        return []
    if not is_array(found):
        raise EntryError(f"`{key}` is not a list")
    if len(found) > MAX_PARTS:
        raise EntryError(f"`{key}` has more than {MAX_PARTS} parts")
    return found


def _text(item: object, key: str) -> str:
    found = item.get(key) if is_object(item) else None
    if found is None:
        return ""
    if not isinstance(found, (str, int, float, bool)):
        raise EntryError(f"`{key}` is not a text")
    text = str(found).lower() if isinstance(found, bool) else str(found)
    if len(text) > names.MAX_TEXT:
        raise EntryError(f"`{key}` is longer than {names.MAX_TEXT} characters")
    return text


def _line(item: object, key: str) -> str:
    """A text that is only shown."""
    return shown(" ".join(_text(item, key).split()), 1000)


def _plain(item: JsonObject, key: str) -> str:
    """A text that is used."""
    text = _text(item, key)
    if not names.is_plain(text):
        raise EntryError(
            f"`{key}` is {shown(text)!r}, which has control characters or refers to the user's settings",
            hint="an entry may not do that; tell those who publish it",
        )
    return text
