"""Penguiflow's presets, by the names and servers of Spindle's own."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Mapping
from typing import Any

from spindle.compat.penguiflow.config import AuthType, ExternalToolConfig, TransportType
from spindle.presets import Preset, presets

# A preset whose server needs an argument gets the one that Penguiflow gives it.
_ARGUMENT = "/data"


class _Presets(Mapping[str, ExternalToolConfig]):
    """Configurations of popular MCP servers by name."""

    def __getitem__(self, name: str) -> ExternalToolConfig:
        return _config(presets()[name])

    def __iter__(self) -> Iterator[str]:
        return iter(presets())

    def __len__(self) -> int:
        return len(presets())


POPULAR_MCP_SERVERS: Mapping[str, ExternalToolConfig] = _Presets()


def get_preset(name: str) -> ExternalToolConfig:
    """Returns the configuration of a popular MCP server; raises ValueError for a name that is none."""
    try:
        return POPULAR_MCP_SERVERS[name]
    except KeyError:
        known = ", ".join(POPULAR_MCP_SERVERS)
        raise ValueError(f"there is no preset {name!r}; there are: {known}") from None


def _config(preset: Preset) -> ExternalToolConfig:
    needs_argument = preset.argument is not None and preset.argument.required
    table = preset.table([_ARGUMENT] if needs_argument else [])
    auth: dict[str, Any] = table.get("auth", {})
    auth_type = {"oauth": AuthType.OAUTH2_USER, "bearer": AuthType.BEARER}.get(auth.get("type", ""))
    return ExternalToolConfig(
        name=preset.name,
        description=preset.description,
        transport=TransportType.MCP,
        connection=preset.url or shlex.join(table["command"]),
        env=table.get("env", {}),
        auth_type=auth_type or AuthType.NONE,
        auth_config={"token": auth["token"]} if auth_type is AuthType.BEARER else {},
    )
