"""Presets: popular servers by name, from `presets.toml`."""

from __future__ import annotations

import sys
import tomllib
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

from spindle.errors import ConfigurationError

FILE = Path(__file__).parent.parent / "presets.toml"


@dataclass(frozen=True, slots=True)
class PresetArgument:
    """The argument that follows the preset's own command."""

    name: str
    help: str
    required: bool = False
    default: str | None = None


@dataclass(frozen=True, slots=True)
class Preset:
    """A popular server, with the command that starts it."""

    name: str
    description: str
    registry: str
    package: str
    command: tuple[str, ...]
    module: str | None = None
    env: dict[str, str] = field(default_factory=dict[str, str])
    argument: PresetArgument | None = None

    def table(self, arguments: Sequence[str]) -> dict[str, Any]:
        """The source's settings as written to spindle.toml."""
        table: dict[str, Any] = {
            "description": self.description,
            "command": [*self._program(), *self._arguments(arguments)],
        }
        if self.env:
            table["env"] = dict(self.env)
        return table

    def needs(self) -> str:
        """The variables and arguments that the user must supply, as text."""
        needed = list(self.env)
        if self.argument is not None and (self.argument.required or self.argument.default):
            needed.append(self.argument.default or self.argument.name)
        return ", ".join(needed)

    def advice(self) -> str | None:
        """The advice on what to install if the preset's program is missing."""
        from shutil import which

        program = self._program()[0]
        if which(program):
            return None
        if self.registry == "npm":
            return f"{program} was not found: it comes with Node.js (https://nodejs.org)"
        return (
            f"{program} was not found: install uv (https://docs.astral.sh/uv), or pip install {self.package}"
        )

    def _program(self) -> tuple[str, ...]:
        from importlib.util import find_spec
        from shutil import which

        # Without uv, a server that is installed beside us can still be run by this Python.
        if self.module and which(self.command[0]) is None and find_spec(self.module):
            return (sys.executable, "-m", self.module)
        return self.command

    def _arguments(self, given: Sequence[str]) -> Sequence[str]:
        if given or self.argument is None:
            return given
        if self.argument.default is not None:
            return [self.argument.default]
        if self.argument.required:
            raise ConfigurationError(
                f"the preset {self.name!r} needs {self.argument.name}: {self.argument.help}",
                hint=f"spindle add {self.name} -- {self.argument.name}",
            )
        return ()


@cache
def presets() -> dict[str, Preset]:
    """All presets by name."""
    tables = tomllib.loads(FILE.read_text("utf-8"))
    return {name: _preset(name, table) for name, table in tables.items()}


def _preset(name: str, table: dict[str, Any]) -> Preset:
    argument = table.pop("argument", None)
    command = tuple(table.pop("command"))
    return Preset(
        name=name, command=command, argument=PresetArgument(**argument) if argument else None, **table
    )  # fmt: skip
