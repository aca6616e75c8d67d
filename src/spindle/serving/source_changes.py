"""Sources that are added over the admin API."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, cast

from spindle import settings
from spindle.catalog.sources import SourceSet
from spindle.domain.identity import LOCAL, Principal
from spindle.domain.json_schema import JsonObject, is_object
from spindle.errors import ConfigurationError, InvalidArgumentsError, PermissionDeniedError, did_you_mean
from spindle.presets import presets
from spindle.threads import in_thread

if TYPE_CHECKING:
    from spindle.app import Spindle

_WAYS: Final = ("preset", "url", "command", "mcpServers")
_KEYS: Final = frozenset({"name", "arguments", "pinned", "env", "headers", *_WAYS})
MAX_ADDED: Final = 50


def require_owner(principal: Principal, what: str = "add sources") -> None:
    """Raises PermissionDeniedError for anybody but the owner of the workspace. A source may be a program, and
    whoever may add one can run what they like as the owner; a token for the admin API is no such right. Nor
    is it one to change a flow, which others run with their rights."""
    if principal.id != LOCAL.id or not principal.admin:
        raise PermissionDeniedError(
            f"only the owner of the workspace may {what}",
            hint="the owner signs in with a link from the terminal, or does it there",
        )


def tables_of(body: JsonObject) -> dict[str, JsonObject]:
    """Returns the settings of the sources that are to be added, by name. Raises InvalidArgumentsError."""
    for key in body:
        if key not in _KEYS:
            raise InvalidArgumentsError(
                f"there is no {key!r}", hint=did_you_mean(key, _KEYS, "see the document")
            )
    given = [way for way in _WAYS if body.get(way)]
    if len(given) != 1:
        raise InvalidArgumentsError("say what to add", hint=f"give one of {', '.join(_WAYS)}")
    if given == ["mcpServers"]:
        return _servers(body["mcpServers"])
    name = _text(body.get("name") or (body.get("preset") if given == ["preset"] else ""), "name")
    table: JsonObject
    if given == ["preset"]:
        known = presets()
        wanted = _text(body["preset"], "preset")
        if wanted not in known:
            raise InvalidArgumentsError(
                f"there is no preset {wanted!r}",
                hint=did_you_mean(wanted, known, f"known are {', '.join(sorted(known))}"),
            )
        table = known[wanted].table(_texts(body.get("arguments") or [], "arguments"))
    elif given == ["url"]:
        table = {"url": _text(body["url"], "url")}
    else:
        table = {"command": _words(body["command"])}
    for key in ("env", "headers"):
        if body.get(key):
            table[key] = {**table.get(key, {}), **_pairs(body[key], key)}
    if body.get("pinned") is True:
        table = {"pinned": True, **table}
    return {name: table}


def _servers(given: Any) -> dict[str, JsonObject]:
    """The entries that MCP clients keep: a command with its words, or a URL."""
    if is_object(given) and is_object(given.get("mcpServers")):
        given = given["mcpServers"]  # the whole file was pasted
    if not is_object(given) or not given:
        raise InvalidArgumentsError("mcpServers must be an object: names with a command or a url each")
    if len(given) > MAX_ADDED:
        raise InvalidArgumentsError(f"{len(given)} servers are more than {MAX_ADDED} at once")
    found: dict[str, JsonObject] = {}
    for name, entry in given.items():
        if not is_object(entry):
            raise InvalidArgumentsError(f"mcpServers.{name} is not an object")
        if isinstance(entry.get("url"), str):
            table: JsonObject = {"url": entry["url"]}
        elif isinstance(entry.get("command"), str):
            table = {"command": [entry["command"], *_texts(entry.get("args") or [], f"{name}.args")]}
        else:
            raise InvalidArgumentsError(f"mcpServers.{name} has neither a command nor a url")
        for key in ("env", "headers"):
            if entry.get(key):
                table[key] = _pairs(entry[key], f"{name}.{key}")
        found[name] = table
    return found


async def add_sources(app: Spindle, tables: dict[str, JsonObject]) -> list[JsonObject]:
    """Writes sources to spindle.toml, all or none, puts them in force and asks them for their tools. Raises
    InvalidArgumentsError for a name that is taken and for settings that are none."""
    if not app.settings.is_workspace:
        raise ConfigurationError("there is no workspace to add a source to", hint="create one: `spindle new`")
    file = Path(app.settings.root) / settings.FILE_NAME
    for name, table in tables.items():
        if name in app.catalog.sources.names:
            raise InvalidArgumentsError(
                f"there is a source {name!r} already",
                hint="choose another name, or change it in spindle.toml",
            )
        if name in settings.FOLDERS:
            raise InvalidArgumentsError(
                f"{name!r} is the name of the workspace's own {name}", hint="choose another"
            )
        alone = settings.Settings(
            file.parent, {"sources": {name: table}}, {name: str(file)}, is_workspace=False
        )
        try:
            SourceSet(alone, lambda _sentence: None).validate()
        except ConfigurationError as error:
            raise InvalidArgumentsError(error.message, hint=error.hint) from None

    def write() -> None:
        from spindle.settings.edit import add_source

        for name, table in tables.items():
            add_source(file, name, table)

    await in_thread(write, "adding sources")
    await app.reload()
    return [report.to_dict() for report in await app.sync(*tables)]


def _text(value: Any, what: str) -> str:
    if not isinstance(value, str) or not value.strip() or len(value) > 4096:
        raise InvalidArgumentsError(f"{what} must be a text")
    return value.strip()


def _texts(value: Any, what: str) -> list[str]:
    items = cast("list[Any]", value) if isinstance(value, list) else [value]
    return [_text(item, what) for item in items]


def _words(value: Any) -> list[str]:
    if not isinstance(value, str):
        return _texts(value, "command")
    try:
        return shlex.split(_text(value, "command"))
    except ValueError as error:
        raise InvalidArgumentsError(
            f"the command cannot be read: {error}", hint="look at its quotes"
        ) from None


def _pairs(value: Any, what: str) -> dict[str, str]:
    if not is_object(value):
        raise InvalidArgumentsError(f"{what} must be an object of texts")
    return {key: str(item) for key, item in value.items()}
