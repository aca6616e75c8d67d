"""Penguiflow's presets, by the names and servers of Spindle's own."""

from __future__ import annotations

import shlex
import tomllib
from collections.abc import Iterator, Mapping
from functools import cache
from importlib.resources import files
from typing import Any

from spindle.compat.penguiflow.config import AuthType, ExternalToolConfig, TransportType

# Presets whose servers need an argument get the one that Penguiflow gives them.
_ARGUMENTS = {"filesystem": "/data"}


class _Presets(Mapping[str, ExternalToolConfig]):
    """Configurations of popular MCP servers by name."""

    def __getitem__(self, name: str) -> ExternalToolConfig:
        return _config(name, _tables()[name])

    def __iter__(self) -> Iterator[str]:
        return iter(_tables())

    def __len__(self) -> int:
        return len(_tables())


POPULAR_MCP_SERVERS: Mapping[str, ExternalToolConfig] = _Presets()


def get_preset(name: str) -> ExternalToolConfig:
    """Returns the configuration of a popular MCP server; raises ValueError for a name that is none."""
    try:
        return POPULAR_MCP_SERVERS[name]
    except KeyError:
        known = ", ".join(POPULAR_MCP_SERVERS)
        raise ValueError(f"there is no preset {name!r}; there are: {known}") from None


@cache
def _tables() -> dict[str, dict[str, Any]]:
    return tomllib.loads(files("spindle").joinpath("presets.toml").read_text("utf-8"))


def _config(name: str, table: dict[str, Any]) -> ExternalToolConfig:
    url = table.get("url")
    words: list[str] = [] if url else list(table["command"])
    argument = table.get("argument", {})
    if given := argument.get("default") or _ARGUMENTS.get(name):
        words.append(given)
    wants_login = table.get("auth", {}).get("type") == "oauth"
    return ExternalToolConfig(
        name=name,
        description=table["description"],
        transport=TransportType.MCP,
        connection=url or shlex.join(words),
        env=table.get("env", {}),
        auth_type=AuthType.OAUTH2_USER if wants_login else AuthType.NONE,
    )
