"""Presets: popular servers by name, from `presets.toml`."""

from __future__ import annotations

import re
import sys
import tomllib
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cache, lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from spindle.errors import ConfigurationError

if TYPE_CHECKING:
    from spindle.domain.error_rules import ErrorRules

FILE = Path(__file__).parent / "presets.toml"
_VARIABLE = re.compile(r"\$\{(\w+)\}")


@dataclass(frozen=True, slots=True)
class PresetArgument:
    """The argument that a preset's program takes."""

    name: str
    help: str
    flag: str | None = None
    """The option that takes it; without one it is a word of its own."""
    required: bool = False


@dataclass(frozen=True, slots=True)
class Preset:
    """A popular server: a package with the version that is started, or a URL."""

    name: str
    description: str
    registry: str | None = None
    package: str | None = None
    version: str | None = None
    args: tuple[str, ...] = ()
    module: str | None = None
    env: dict[str, str] = field(default_factory=dict[str, str])
    argument: PresetArgument | None = None
    url: str | None = None
    auth: dict[str, Any] | None = None
    setup: str | None = None
    """A sentence about what a user must have first."""
    errors: dict[str, Any] | None = None
    """The categories of its errors, which it tells in sentences only."""

    @property
    def launched(self) -> tuple[str, ...]:
        """The command that fetches and starts the package."""
        package = f"{self.package}@{self.version}"
        return ("npx", "-y", package) if self.registry == "npm" else ("uvx", package)

    def table(self, arguments: Sequence[str] = ()) -> dict[str, Any]:
        """The source's settings as written to spindle.toml."""
        table: dict[str, Any] = {"description": self.description}
        if self.url is not None:
            if arguments:
                raise ConfigurationError(f"the preset {self.name!r} takes no arguments: it is {self.url}")
            return table | {"url": self.url} | ({"auth": dict(self.auth)} if self.auth else {})
        table["command"] = [*self._program(), *self.args, *self._arguments(arguments)]
        return table | ({"env": dict(self.env)} if self.env else {})

    def variables(self) -> list[str]:
        """The environment variables that it takes its secrets from."""
        texts = [*self.env.values(), *(self.auth or {}).values()]
        return [name for text in texts if isinstance(text, str) for name in _VARIABLE.findall(text)]

    def needs(self) -> str:
        """The variables and arguments that the user must supply, as text."""
        needed = self.variables()
        if self.argument is not None and self.argument.required:
            needed.append(f"--arg {self.argument.name}")
        if (self.auth or {}).get("type") == "oauth":
            needed.append("a login")
        return ", ".join(needed)

    def help(self) -> list[str]:
        """The lines that say what it is and what it needs."""
        lines = [f"{self.description}.", ""]
        if self.argument is not None:
            word = "needs" if self.argument.required else "takes"
            lines.append(f"It {word} --arg {self.argument.name}: {self.argument.help}.")
        if variables := self.variables():
            lines.append(f"It reads {' and '.join(variables)} from the environment.")
        lines += [self.setup] if self.setup else []
        if (self.auth or {}).get("type") == "oauth":
            lines.append(f"You log in with `spindle auth login {self.name}`.")
        example = f"spindle add {self.name}"
        if self.argument is not None:
            example += f" --arg {self.argument.name}"
        place = (
            f"It is at {self.url}"
            if self.url
            else f"It is started by {' '.join([*self.launched, *self.args])}"
        )
        return [*lines, place, "", example]

    def is_started_by(self, command: Sequence[str]) -> bool:
        """True if a command names the preset's package, in any version, its module, or a file of it."""
        from shutil import which

        if self.package is None or not command:
            return False
        names, installed = (self.package, self.module), f"/node_modules/{self.package}/"
        if any(_without_version(word) in names or Path(word).name == self.package for word in command):
            return True
        # What npm installs as a program is a link into its package.
        files = [which(command[0]) or "", *(word for word in command if "/" in word)]
        return any(installed in str(Path(file).resolve()) for file in files)

    def is_source(self, command: Sequence[str], url: str | None) -> bool:
        """True for the settings of a source that is this server."""
        if self.url is not None:
            return url is not None and url.rstrip("/") == self.url.rstrip("/")
        return self.is_started_by(command)

    def advice(self) -> str | None:
        """The advice on what to install if the preset's program is missing."""
        from shutil import which

        if self.url is not None or which(self._program()[0]):
            return None
        if self.registry == "npm":
            return "it comes with Node.js (https://nodejs.org)"
        return (
            f"it comes with uv (https://docs.astral.sh/uv); or install the server: pip install {self.package}"
        )

    def _program(self) -> tuple[str, ...]:
        from importlib.util import find_spec
        from shutil import which

        # Without uv, a server that is installed beside us can still be run by this Python.
        if self.module and which(self.launched[0]) is None and find_spec(self.module):
            return (sys.executable, "-m", self.module)
        return self.launched

    def _arguments(self, given: Sequence[str]) -> list[str]:
        argument = self.argument
        if argument is None:
            return list(given)
        if argument.required and not given:
            raise ConfigurationError(
                f"the preset {self.name!r} needs {argument.name}: {argument.help}",
                hint=f"spindle add {self.name} --arg {argument.name}",
            )
        # A word with a dash is an option of the server's own.
        return [
            word if argument.flag is None or word.startswith("-") else f"{argument.flag}={word}"
            for word in given
        ]


@cache
def presets() -> dict[str, Preset]:
    """All presets by name."""
    tables = tomllib.loads(FILE.read_text("utf-8"))
    return {name: _preset(name, table) for name, table in tables.items()}


@lru_cache(256)
def error_rules(command: tuple[str, ...], url: str | None) -> ErrorRules | None:
    """The rules for the errors of a source with this command or address, if it is a preset's server."""
    from spindle.domain.error_rules import ErrorRules

    for preset in presets().values():
        if preset.errors and preset.is_source(command, url):
            return ErrorRules(**preset.errors)
    return None


def _without_version(word: str) -> str:
    """A package without the version that it is asked for in: `@scope/name@1.0`, `name==1.0`, `name>=1`."""
    return word[:1] + re.split(r"[@=<>~!\[]", word[1:], maxsplit=1)[0]


def _preset(name: str, table: dict[str, Any]) -> Preset:
    argument = table.pop("argument", None)
    args = tuple(table.pop("args", ()))
    return Preset(name=name, args=args, argument=PresetArgument(**argument) if argument else None, **table)
