"""The `[secrets]` table: secrets that are not sealed in the store, but read from a variable or a file."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, cast

from spindle.errors import ConfigurationError, suggest

NAME: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_-]{0,99}")
"""The name of a secret that flows read."""
MAX_SECRET: Final = 64 * 1024
"""Bytes of a file that holds a secret."""
_KEYS = ("env", "file", "readers")


@dataclass(frozen=True, slots=True)
class DeclaredSecret:
    """The place of a secret, and who may read it."""

    env: str | None = None
    file: Path | None = None
    readers: tuple[str, ...] = ()

    @property
    def place(self) -> str:
        """The place in words."""
        return f"the variable {self.env}" if self.env is not None else f"the file {self.file}"

    def read(self, name: str, environ: Mapping[str, str]) -> str:
        """Returns the secret. Raises ConfigurationError if it is not there."""
        if self.env is not None:
            value = environ.get(self.env)
            if not value:
                problem = "empty" if value is not None else "not set"
                raise ConfigurationError(
                    f"the environment variable {self.env} is {problem}: the secret {name} is read from it",
                    hint=f"set it (export {self.env}=…)",
                )
            return value
        assert self.file is not None
        try:
            with self.file.open("rb") as opened:
                data = opened.read(MAX_SECRET + 1)
            text = data.decode().removesuffix("\n").removesuffix("\r")
        except (OSError, UnicodeDecodeError) as error:
            reason = error.strerror if isinstance(error, OSError) else "it is not UTF-8 text"
            raise ConfigurationError(f"the secret {name} cannot be read from {self.file}: {reason}") from None
        if not text or len(data) > MAX_SECRET:
            problem = "is empty" if not text else f"has over {MAX_SECRET} bytes"
            raise ConfigurationError(f"the secret {name} cannot be read: {self.file} {problem}")
        return text


def read_secrets(table: Any, root: Path, where: str) -> dict[str, DeclaredSecret]:
    """Validates the `[secrets]` table. `where` names the file in error messages."""
    if not isinstance(table, dict):
        raise ConfigurationError(f"{where}: `secrets` must be a table: [secrets]")
    found: dict[str, DeclaredSecret] = {}
    for name, item in cast("dict[str, Any]", table).items():
        key = f"{where}: secrets.{name}"
        if not NAME.fullmatch(name):
            raise ConfigurationError(f"{key}: a name has letters, digits, - and _, and begins with a letter")
        if not isinstance(item, dict):
            raise ConfigurationError(
                f"{key} must say where the secret is, not what it is",
                hint=f'{{ env = "VARIABLE" }} or {{ file = "PATH" }}; or seal it: spindle secret set {name}',
            )
        found[name] = _declared(key, cast("dict[str, Any]", item), root)
    return found


def _declared(key: str, item: dict[str, Any], root: Path) -> DeclaredSecret:
    for part in item:
        if part not in _KEYS:
            meant = suggest(part, _KEYS)
            hint = f"did you mean `{meant}`?" if meant else f"known are: {', '.join(_KEYS)}"
            raise ConfigurationError(f"{key}.{part} is not a setting", hint=hint)
    env, file, readers = item.get("env"), item.get("file"), item.get("readers", [])
    if (env is None) == (file is None) or not all(isinstance(one, str) and one for one in (env or file,)):
        raise ConfigurationError(f"{key} needs either `env`, a variable's name, or `file`, a path")
    if not isinstance(readers, list) or not all(isinstance(one, str) for one in cast("list[Any]", readers)):
        raise ConfigurationError(f'{key}.readers must be a list such as ["alice", "group:ops", "*"]')
    path = None if file is None else root / Path(str(file)).expanduser()
    return DeclaredSecret(env, path, tuple(cast("list[str]", readers)))
