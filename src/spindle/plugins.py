"""The classes that serve each kind of source, built-in ones from a table, others from entry points; and the
checkers of new tools that packages bring."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from importlib import import_module
from typing import Any, cast

from spindle.errors import ConfigurationError
from spindle.ports.declared import is_declared
from spindle.ports.source import Source
from spindle.ports.tool_checker import ToolChecker

# A table, not entry points of our own: scanning the installed packages takes longer than all else
# that `spindle tools` does.
BUILT_IN: Mapping[str, str] = {
    "agents": "spindle.sources.agents:AgentsSource",
    "cli": "spindle.sources.cli:CliSource",
    "events": "spindle.sources.events:EventsSource",
    "flows": "spindle.sources.flows:FlowsSource",
    "http": "spindle.sources.http_api:HttpSource",
    "mcp": "spindle.sources.mcp:McpSource",
    "mods": "spindle.sources.mods:ModsSource",
    "openapi": "spindle.sources.openapi:OpenApiSource",
    "python": "spindle.sources.python:PythonSource",
    "utcp": "spindle.sources.utcp:UtcpSource",
    "websocket": "spindle.sources.websocket:WebSocketSource",
}
GROUP = "spindle.sources"
CHECKERS = "spindle.checkers"


@cache
def source_class(kind: str) -> type[Source[Any]] | None:
    """The class that serves a kind of source, or None if there is none."""
    if kind in BUILT_IN:
        module, _, name = BUILT_IN[kind].partition(":")
        return cast("type[Source[Any]]", getattr(import_module(module), name))
    from importlib.metadata import entry_points

    for entry in entry_points(group=GROUP, name=kind):
        try:
            found = entry.load()
        except Exception as error:
            raise ConfigurationError(
                f"the plugin for sources of kind {kind!r} ({entry.value}) cannot be loaded: {error!r}",
                hint="repair or uninstall the package that provides it",
            ) from error
        if not (isinstance(found, type) and issubclass(found, Source)):
            raise ConfigurationError(
                f"the plugin for sources of kind {kind!r} ({entry.value}) is not a kind of source",
                hint="its class must be a subclass of spindle.ports.source.Source",
            )
        return cast("type[Source[Any]]", found)
    return None


def kinds() -> list[str]:
    """The names of all kinds of source, built in or from plugins."""
    from importlib.metadata import entry_points

    return sorted({*BUILT_IN, *(entry.name for entry in entry_points(group=GROUP))})


def config_models(wanted: set[str]) -> dict[str, Any]:
    """The settings models of the given kinds; if one is unknown, of all kinds, so that an error can
    suggest one."""
    classes = {kind: source_class(kind) for kind in wanted}
    if None in classes.values():
        classes |= {kind: source_class(kind) for kind in kinds()}
    return {kind: cls.config_model() for kind, cls in classes.items() if cls is not None}


@cache
def checkers() -> Mapping[str, ToolChecker]:
    """The checkers of tools that installed packages bring, by name. All of them are used."""
    if not is_declared(CHECKERS):
        return {}
    from importlib.metadata import entry_points

    found: dict[str, ToolChecker] = {}
    for entry in entry_points(group=CHECKERS):
        try:
            check = entry.load()
        except Exception as error:
            raise ConfigurationError(
                f"the checker {entry.name!r} ({entry.value}) cannot be loaded: {error!r}",
                hint="repair or uninstall the package that provides it",
            ) from error
        if not callable(check):
            raise ConfigurationError(
                f"the checker {entry.name!r} ({entry.value}) cannot be called",
                hint="it must be a function as spindle.ports.tool_checker describes it",
            )
        found[entry.name] = cast("ToolChecker", check)
    return found
