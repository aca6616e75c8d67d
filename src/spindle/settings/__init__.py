"""`spindle.toml`: the user's file, the workspace's file merged over it, and the environment over both.

Reading is cheap and typed models are made only when something asks for them, because a listing
of the stored catalog needs neither.
"""

from __future__ import annotations

import os
import re
import time
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar, cast

from spindle.errors import ConfigurationError, suggest
from spindle.settings.expand import expand_address, has_reference

if TYPE_CHECKING:
    from pydantic import BaseModel

    from spindle.domain.agent import AgentConfig
    from spindle.domain.registry import RegistryConfig
    from spindle.domain.serve import ServeConfig
    from spindle.domain.source import SourceConfig
    from spindle.settings.auth import AuthSettings

FILE_NAME = "spindle.toml"
STATE_FOLDER = ".spindle"
TOOLS_FOLDER = "tools"
# The workspace's own folders, and the kinds of source that they are.
FOLDERS = {TOOLS_FOLDER: "python", "mods": "mods", "events": "events", "flows": "flows"}
TOP_LEVEL = ("agent", "auth", "mods", "registries", "serve", "sources", "store")

RawTable = dict[str, Any]
M = TypeVar("M", bound="BaseModel")

# Settings that say what a source is, as opposed to how it is used.
_PLACES = frozenset({"kind", "command", "url", "path", "module"})


@dataclass(frozen=True)
class Settings:
    """The configuration as written in the files and the environment, not yet validated."""

    root: Path
    raw: RawTable
    origins: Mapping[str, str] = field(default_factory=dict[str, str])
    """By source, the settings file that names it."""
    is_workspace: bool = True
    files: tuple[Path, ...] = ()
    """The files that were read, and those that would be read if they existed."""
    mark: str = ""
    """The value of `current_mark` when the files were read."""
    read_at: float = field(default_factory=time.time)
    environ: Mapping[str, str] = field(default_factory=lambda: os.environ, repr=False)
    own_files: Mapping[str, Path] = field(default_factory=dict[str, Path])
    """By source, the file with the rest of its settings, where its table names one (`file`)."""
    state: Path | None = None
    """The folder of the state, if it is not the usual one."""

    @cached_property
    def sources(self) -> dict[str, RawTable]:
        """The table of every enabled source, including the workspace's own folders."""
        tables: dict[str, RawTable] = {}
        written = cast("dict[str, RawTable]", self.raw.get("sources", {}))
        for folder, kind in FOLDERS.items():
            # Settings for a folder that does not exist yet are no mistake.
            meant = folder in written and not written[folder].keys() & _PLACES
            if self.is_workspace and (meant or (self.root / folder).is_dir()):
                tables[folder] = {"kind": kind, "path": folder, "prefix": False}
        if mods := self.raw.get("mods"):
            # Installed mods need neither the folder nor a workspace.
            tables.setdefault("mods", {"kind": "mods", "prefix": False})["mods"] = mods
        for name, table in written.items():
            if name in tables and not table.keys() & _PLACES:
                tables[name] |= table  # settings of the workspace's own folder, such as a timeout
            elif name in tables:
                raise ConfigurationError(
                    f"{self.origin(name)}: the name of sources.{name} is that of the workspace's own folder",
                    hint="choose another name for the source",
                )
            else:
                tables[name] = {"kind": "mcp", **table}
        return {name: table for name, table in tables.items() if _is_on(table.get("enabled", True))}

    @property
    def store(self) -> str:
        """The `store` setting as written, `${VAR}` included: a path, `:memory:` or a database address."""
        configured = self.raw.get("store")
        if isinstance(configured, str):
            is_path = configured != ":memory:" and "://" not in configured and not has_reference(configured)
            return str(self.root / configured) if is_path else configured
        return str(self.state_folder / "state.db")

    def store_address(self, environ: Mapping[str, str]) -> str:
        """The `store` setting with every `${VAR}` replaced. It may hold a password."""
        expanded = expand_address(self.store, environ, "store")
        return expanded if expanded == ":memory:" or "://" in expanded else str(self.root / expanded)

    @property
    def state_folder(self) -> Path:
        if self.state is not None:
            return self.state
        return self.root / STATE_FOLDER if self.is_workspace else user_folder() / "state"

    @cached_property
    def auth(self) -> AuthSettings:
        from spindle.settings.auth import read
        from spindle.settings.expand import expand_table

        table = self.raw.get("auth", {})
        if isinstance(table, dict):
            table = expand_table(cast(RawTable, table), self.environ, "auth")
        return read(table, self.root, str(self.root / FILE_NAME))

    def current_mark(self) -> str:
        """Returns a text that changes whenever a settings file does. Cheap: the files are not read."""
        if not self.files:
            return self.mark
        return " ".join([*(_mark_of(file) for file in self.files), *_folder_marks(self.root)])

    def reread(self, environ: Mapping[str, str] | None = None) -> Settings:
        """Reads the same files again and returns the new settings."""
        if not self.files:
            raise ConfigurationError("these settings were made in Python, so there is no file to read again")
        return _load(self.root if self.is_workspace else None, environ)

    def origin(self, source: str) -> str:
        """The file that configures a source."""
        return self.origins.get(source, FILE_NAME)

    def _place(self, source: str) -> str:
        """The files in which a mistake in a source's settings may be."""
        own = self.own_files.get(source)
        return f"{self.origin(source)} with {own}" if own else self.origin(source)

    def validate(
        self, models: Mapping[str, type[SourceConfig]], environ: Mapping[str, str] | None = None
    ) -> dict[str, SourceConfig]:
        """Returns all sources as typed settings, or raises one error that names every mistake."""
        from spindle.settings.validate import validate_sources

        return validate_sources(self.sources, self._place, models, os.environ if environ is None else environ)

    def serve(self, environ: Mapping[str, str] | None = None) -> ServeConfig:
        """The `[serve]` table, with every `${VAR}` replaced."""
        from spindle.domain.serve import ServeConfig

        return self._table(ServeConfig, "serve", environ)

    def agent(self, environ: Mapping[str, str] | None = None) -> AgentConfig:
        """The `[agent]` table: the defaults of every agent, with every `${VAR}` replaced."""
        from spindle.domain.agent import AgentConfig

        return self._table(AgentConfig, "agent", environ)

    def registries(self, environ: Mapping[str, str] | None = None) -> dict[str, RegistryConfig]:
        """The `[registries]` table by name, or the official registry where nothing is written."""
        from spindle.domain.registry import OFFICIAL, RegistryConfig
        from spindle.settings.validate import validate_table

        environ = os.environ if environ is None else environ
        file, written = str(self.root / FILE_NAME), cast(RawTable, self.raw.get("registries", {}))
        for name, table in written.items():
            if not isinstance(table, dict):
                raise ConfigurationError(f"{file}: registries.{name} must be a table: [registries.{name}]")
        found = {
            name: validate_table(RegistryConfig, f"registries.{name}", table, file, environ)
            for name, table in written.items()
        }
        return found or {"official": RegistryConfig(url=OFFICIAL)}

    def _table(self, model: type[M], name: str, environ: Mapping[str, str] | None) -> M:
        from spindle.settings.validate import validate_table

        environ = os.environ if environ is None else environ
        return validate_table(model, name, self.raw.get(name, {}), str(self.root / FILE_NAME), environ)


def load(path: Path | str | None = None, environ: Mapping[str, str] | None = None) -> Settings:
    """Reads the settings of the workspace at `path` (a folder or its spindle.toml), or of the nearest one
    at or above the current folder. Without a workspace only the user's own settings apply."""
    return _load(workspace_root(path), environ)


def _load(root: Path | None, environ: Mapping[str, str] | None) -> Settings:
    environ = os.environ if environ is None else environ
    files = [user_folder() / FILE_NAME] + ([root / FILE_NAME] if root else [])
    folder = root or Path.cwd()
    # Taken before reading, so that a change made meanwhile is noticed.
    marks, folder_marks = [_mark_of(file) for file in files], _folder_marks(folder)
    raw: RawTable = {}
    sources: dict[str, RawTable] = {}
    origins: dict[str, str] = {}
    own_files: dict[str, Path] = {}
    for file in tuple(files):
        table = _read(file)
        own_sources = table.pop("sources", {})
        _merge(raw, table)
        if not isinstance(own_sources, dict):
            raise ConfigurationError(f"{file}: `sources` must be a table such as [sources.NAME]")
        for name, settings in cast("dict[str, Any]", own_sources).items():
            if not isinstance(settings, dict):
                raise ConfigurationError(f"{file}: sources.{name} must be a table: [sources.{name}]")
            sources[name] = cast(RawTable, settings)
            origins[name] = str(file)
            own_files.pop(name, None)
            if "file" in settings:
                own_files[name] = own = _own_file(sources[name].pop("file"), file, name)
                files.append(own)
                marks.append(_mark_of(own))
                below = _read(own)
                _merge(below, sources[name])
                sources[name] = below
    _check_top_level(raw, root / FILE_NAME if root else files[0])
    raw["sources"] = sources
    _apply_environment(raw, environ)
    mark = " ".join([*marks, *folder_marks])
    settings = Settings(
        folder, raw, origins, root is not None, tuple(files), mark, environ=environ, own_files=own_files
    )
    if "auth" in raw:
        _ = settings.auth  # reports a mistake in the table at once
    return settings


def _own_file(written: Any, file: Path, name: str) -> Path:
    """The file that `file` in a source's table names."""
    own = file.parent / written if isinstance(written, str) else None
    if own is None or not own.is_file():
        problem = f"there is no file {own}" if own else "must be the path of a file"
        raise ConfigurationError(
            f"{file}: sources.{name}.file: {problem}", hint=f"correct it, or take [sources.{name}] out"
        )
    return own


def _mark_of(file: Path) -> str:
    try:
        stat = file.stat()
    except OSError:
        return "-"
    return f"{stat.st_mtime_ns}.{stat.st_size}.{stat.st_ino}"


def _folder_marks(root: Path) -> list[str]:
    """A folder that appears is a new source."""
    return [str((root / folder).is_dir()) for folder in FOLDERS]


def workspace_root(path: Path | str | None) -> Path | None:
    """The folder of the workspace at `path`, which must exist, or of the nearest one at or above the
    current folder."""
    if path is not None:
        given = Path(path).expanduser().resolve()
        if given.name == FILE_NAME and given.is_file():
            return given.parent
        if not given.is_dir():
            raise ConfigurationError(
                f"there is no folder {given}", hint="create a workspace with `spindle new PATH`"
            )
        return given
    here = Path.cwd()
    for folder in (here, *here.parents):
        if (folder / FILE_NAME).is_file():
            return folder
    return None


def user_folder() -> Path:
    """The folder of the user's own settings and state, apart from any workspace."""
    home = os.environ.get("SPINDLE_HOME")
    if home:
        return Path(home).expanduser()
    from platformdirs import user_config_path

    return user_config_path("spindle")


def data_folder() -> Path:
    """The folder of the user's own data other than settings, such as the key for stored secrets."""
    if os.environ.get("SPINDLE_HOME"):
        return user_folder()
    from platformdirs import user_data_path

    return user_data_path("spindle")


def _read(file: Path) -> RawTable:
    try:
        text = file.read_text("utf-8")
    except FileNotFoundError:
        return {}
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigurationError(f"cannot read {file}: {error}") from None
    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise ConfigurationError(
            f"{file} is not valid TOML: {error}", hint="fix that line; strings need quotes, tables [brackets]"
        ) from None


_VARIABLE = re.compile(r"SPINDLE_([A-Z0-9]+(?:_[A-Z0-9]+)*(?:__[A-Z0-9]+(?:_[A-Z0-9]+)*)+|STORE)")


def _apply_environment(raw: RawTable, environ: Mapping[str, str]) -> None:
    """Applies the environment: SPINDLE_SECTION__KEY=value sets section.key."""
    for variable, text in sorted(environ.items()):
        match = _VARIABLE.fullmatch(variable)
        if not match:
            continue
        *folders, last = match[1].split("__")
        section = (folders[0] if folders else last).lower()
        if section not in TOP_LEVEL:
            raise ConfigurationError(
                f"the environment variable {variable} sets `{section}`, which is not a setting",
                hint=_did_you_mean(section),
            )
        node, inside = raw, ""
        for step in folders:
            inside = _existing_key(node, step, inside)
            inner = node.setdefault(inside, {})
            if not isinstance(inner, dict):
                raise ConfigurationError(f"{variable} sets a key inside {inside!r}, which is not a table")
            node = cast(RawTable, inner)
        node[_existing_key(node, last, inside)] = _value_of(text)


def _existing_key(node: RawTable, step: str, inside: str) -> str:
    """Finds the key that an upper-case variable means, so that a source called `my-Server` can be set."""
    for key in node:
        if key.upper().replace("-", "_") == step:
            return key
    return step if inside == "env" else step.lower()


def _value_of(text: str) -> Any:
    """Parses lists, tables and quoted text as TOML. Anything else stays text, which fields that want a
    number or a boolean convert themselves: a token made of digits must not become a number."""
    if text[:1] not in ("[", "{", '"', "'") or "\n" in text:
        return text
    try:
        return tomllib.loads(f"value = {text}")["value"]
    except tomllib.TOMLDecodeError:
        return text


def _is_on(value: Any) -> bool:
    return value.lower() not in ("false", "no", "off", "0") if isinstance(value, str) else bool(value)


def _merge(below: RawTable, above: RawTable) -> None:
    for key, value in above.items():
        under = below.get(key)
        if isinstance(under, dict) and isinstance(value, dict):
            _merge(cast(RawTable, under), cast(RawTable, value))
        else:
            below[key] = value


def _check_top_level(raw: RawTable, file: Path) -> None:
    for key in raw:
        if key not in TOP_LEVEL:
            raise ConfigurationError(f"{file}: `{key}` is not a setting", hint=_did_you_mean(key))
    for key in ("agent", "registries", "serve"):
        if not isinstance(raw.get(key, {}), dict):
            raise ConfigurationError(f"{file}: `{key}` must be a table: [{key}]")
    mods: Any = raw.get("mods", {})
    tables = cast(RawTable, mods) if isinstance(mods, dict) else {"": None}
    for name, table in tables.items():
        if not isinstance(table, dict):
            where = f"mods.{name}" if name else "mods"
            raise ConfigurationError(f"{file}: `{where}` must be a table such as [mods.{name or 'NAME'}]")
    if not isinstance(raw.get("store", ""), str):
        raise ConfigurationError(f'{file}: `store` must be text: a path, ":memory:", or "postgresql://…"')


def _did_you_mean(key: str) -> str:
    meant = suggest(key, TOP_LEVEL)
    return f"did you mean `{meant}`?" if meant else f"known are: {', '.join(TOP_LEVEL)}"
