"""`spindle.toml`: the user's file, the workspace's file merged over it, and the environment over both.

Reading is cheap and typed models are made only when something asks for them, because a listing
of the stored catalog needs neither.
"""

from __future__ import annotations

import os
import time
import tomllib
from collections.abc import Mapping
from copy import deepcopy
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar, cast

from spindle.domain.toml_text import read_toml
from spindle.errors import ConfigurationError
from spindle.settings.expand import expand_address, has_reference
from spindle.settings.places import FILE_NAME as FILE_NAME
from spindle.settings.places import data_folder as data_folder
from spindle.settings.places import trust_marks, user_folder, workspace_root
from spindle.settings.tables import RawTable, apply_environment, check_top_level
from spindle.trust import TRUSTED, Verdict, granted, judge
from spindle.trust import mark as mark_trusted
from spindle.trust.coverage import Coverage, cover

if TYPE_CHECKING:
    from pydantic import BaseModel

    from spindle.domain.agent import AgentConfig
    from spindle.domain.engine import EngineConfig
    from spindle.domain.registry import RegistryConfig
    from spindle.domain.retention import RetentionConfig
    from spindle.domain.sampling import SamplingConfig
    from spindle.domain.serve import ServeConfig
    from spindle.domain.source import SourceConfig
    from spindle.domain.up import UpConfig
    from spindle.settings.at_rest import AtRestSettings
    from spindle.settings.auth import AuthSettings
    from spindle.settings.secrets import DeclaredSecret

STATE_FOLDER = ".spindle"
MAX_FILE = 4_000_000
TOOLS_FOLDER = "tools"
# The workspace's own folders, and the kinds of source that they are.
FOLDERS = {TOOLS_FOLDER: "python", "mods": "mods", "events": "events", "flows": "flows"}

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
    verdict: Verdict = TRUSTED
    """Says if anything of the workspace may run. Settings made in Python are the program's own."""
    written: RawTable = field(default_factory=dict[str, Any], repr=False)
    """The workspace's own settings, without the user's and the environment."""
    is_given: bool = True
    """True if the program or the person named the workspace as trusted, so that no mark is needed."""

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
        if mods := self.raw.get("mods"):  # installed ones need neither the folder nor a workspace
            tables.setdefault("mods", {"kind": "mods", "prefix": False})["mods"] = mods
        if agents := self.raw.get("agents"):
            tables["agents"] = {"kind": "agents", "prefix": False, "agents": agents}
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
        self.require_trust()
        expanded = expand_address(self.store, environ, "store")
        return expanded if expanded == ":memory:" or "://" in expanded else str(self.root / expanded)

    @property
    def state_folder(self) -> Path:
        if self.state is not None:
            return self.state
        return self.root / STATE_FOLDER if self.is_workspace else user_folder() / "state"

    @cached_property
    def at_rest(self) -> AtRestSettings:
        from spindle.settings.at_rest import read_at_rest

        return read_at_rest(self.raw.get("at_rest", {}), str(self.root / FILE_NAME))

    @cached_property
    def auth(self) -> AuthSettings:
        from spindle.settings.auth import read
        from spindle.settings.expand import expand_table

        self.require_trust()
        table = self.raw.get("auth", {})
        if isinstance(table, dict):
            table = expand_table(cast(RawTable, table), self.environ, "auth")
        return read(table, self.root, str(self.root / FILE_NAME))

    @cached_property
    def secrets(self) -> Mapping[str, DeclaredSecret]:
        """The `[secrets]` table: secrets that are read from the environment or a file."""
        from spindle.settings.secrets import read_secrets

        return read_secrets(self.raw.get("secrets", {}), self.root, str(self.root / FILE_NAME))

    def require_trust(self) -> None:
        """Raises UntrustedError if nothing of the workspace may run. All that expands `${VAR}`, and all that
        opens the workspace, begins here."""
        self.verdict.require(self.root)

    def require_trust_still(self) -> None:
        """Raises UntrustedError if the files changed since, and somebody else may have done it."""
        if self.is_workspace and not self.is_given and not granted(self.root, os.environ):
            judge(self.root, self.cover, trust_marks()).require(self.root)

    def trust_mark(self) -> str:
        """Returns a text that changes when a person trusts the workspace once more."""
        return _mark_of(trust_marks().file(os.path.realpath(self.root)))

    def cover(self) -> Coverage:
        """The files of the workspace that can run, as they are now."""
        mine = user_folder() / FILE_NAME
        files = [file for file in self.files if file != mine]
        return cover(self.root, files, FOLDERS, self.written)

    def trust(self, *, exact: bool | None = None) -> None:
        """Marks the workspace as trusted in the state that it is in."""
        mark_trusted(self.cover(), trust_marks(), exact=exact)

    def current_mark(self) -> str:
        """Returns a text that changes whenever a settings file does. Cheap: the files are not read."""
        if not self.files:
            return self.mark
        return " ".join([*(_mark_of(file) for file in self.files), *_folder_marks(self.root)])

    def reread(self, environ: Mapping[str, str] | None = None) -> Settings:
        """Reads the same files again and returns the new settings. Raises ConfigurationError if a file that
        was there is gone or empty: it is being written, or was lost."""
        if not self.files:
            raise ConfigurationError("these settings were made in Python, so there is no file to read again")
        for file, mark in zip(self.files, self.mark.split(), strict=False):
            was_filled = mark != "-" and mark.split(".")[1] != "0"
            if file.name == FILE_NAME and was_filled and not _read_text(file).strip():
                missing = "empty" if file.exists() else "gone"
                hint = "write it again, or restart if that is meant"
                raise ConfigurationError(f"{file} is {missing}", hint=hint)
        return _load(self.root if self.is_workspace else None, environ, self.is_given)

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

        self.require_trust()
        return validate_sources(self.sources, self._place, models, os.environ if environ is None else environ)

    def serve(self, environ: Mapping[str, str] | None = None) -> ServeConfig:
        """The `[serve]` table, with every `${VAR}` replaced."""
        from spindle.domain.serve import ServeConfig

        return self._table(ServeConfig, "serve", environ)

    def agent(self, environ: Mapping[str, str] | None = None) -> AgentConfig:
        """The `[agent]` table: the defaults of every agent, with every `${VAR}` replaced."""
        from spindle.domain.agent import AgentConfig

        return self._table(AgentConfig, "agent", environ)

    def sampling(self, environ: Mapping[str, str] | None = None) -> SamplingConfig:
        """The `[sampling]` table: the model that answers servers which ask for one."""
        from spindle.domain.sampling import SamplingConfig

        return self._table(SamplingConfig, "sampling", environ)

    def retention(self, environ: Mapping[str, str] | None = None) -> RetentionConfig:
        """The `[retention]` table: how long what was recorded is kept."""
        from spindle.domain.retention import RetentionConfig

        return self._table(RetentionConfig, "retention", environ)

    def engine(self, environ: Mapping[str, str] | None = None) -> EngineConfig:
        """The `[engine]` table: who executes submitted runs."""
        from spindle.domain.engine import EngineConfig

        return self._table(EngineConfig, "engine", environ)

    def up(self, environ: Mapping[str, str] | None = None) -> UpConfig:
        """The `[up]` table: the process that keeps the workspace open for the command line."""
        from spindle.domain.up import UpConfig

        return self._table(UpConfig, "up", environ)

    def registries(self, environ: Mapping[str, str] | None = None) -> dict[str, RegistryConfig]:
        """The `[registries]` table by name, or the official registry where nothing is written."""
        from spindle.domain.registry import OFFICIAL, RegistryConfig
        from spindle.settings.validate import validate_table

        self.require_trust()
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

        self.require_trust()
        environ = os.environ if environ is None else environ
        return validate_table(model, name, self.raw.get(name, {}), str(self.root / FILE_NAME), environ)


def load(
    path: Path | str | None = None, environ: Mapping[str, str] | None = None, *, trusted: bool | None = None
) -> Settings:
    """Reads the settings of the workspace at `path` (a folder or its spindle.toml), or of the nearest one
    at or above the current folder. Without a workspace only the user's own settings apply.

    A workspace that the program names is trusted; one that is found needs a person's mark, and so does any
    with `trusted=False`. The `verdict` of the settings says if it has one."""
    return _load(workspace_root(path), environ, path is not None if trusted is None else trusted)


def _load(root: Path | None, environ: Mapping[str, str] | None, trusted: bool) -> Settings:
    environ = os.environ if environ is None else environ
    files = [user_folder() / FILE_NAME] + ([root / FILE_NAME] if root else [])
    folder = root or Path.cwd()
    # Taken before reading, so that a change made meanwhile is noticed.
    marks, folder_marks = [_mark_of(file) for file in files], _folder_marks(folder)
    raw: RawTable = {}
    sources: dict[str, RawTable] = {}
    origins: dict[str, str] = {}
    own_files: dict[str, Path] = {}
    written: RawTable = {}
    for file in tuple(files):
        table = _read(file)
        written = deepcopy(table) if root else {}
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
                if written:
                    written["sources"] = {**written["sources"], name: below}
    check_top_level(raw, root / FILE_NAME if root else files[0])
    raw["sources"] = sources
    apply_environment(raw, environ)
    mark = " ".join([*marks, *folder_marks])
    settings = Settings(
        folder, raw, origins, root is not None, tuple(files), mark, environ=environ, own_files=own_files,
        written=written, is_given=trusted,
    )  # fmt: skip
    if root and not trusted and not granted(root, os.environ):
        settings = replace(settings, verdict=judge(root, settings.cover, trust_marks()))
    # A mistake in these tables is reported at once.
    if "auth" in raw and settings.verdict.trusted:
        _ = settings.auth
    if "at_rest" in raw:
        _ = settings.at_rest
    if "sampling" in raw and settings.verdict.trusted:
        settings.sampling(environ)
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
    return f"{stat.st_mtime_ns}.{stat.st_size}.{stat.st_ino}"  # `reread` looks at the size


def _folder_marks(root: Path) -> list[str]:
    """A folder that appears is a new source."""
    return [str((root / folder).is_dir()) for folder in FOLDERS]


def _read_text(file: Path) -> str:
    try:
        if file.exists() and not file.is_file():
            raise ConfigurationError(f"cannot read {file}: it is not a file")
        with file.open("rb") as handle:
            data = handle.read(MAX_FILE + 1)
        text = data.decode("utf-8")
    except FileNotFoundError:
        return ""
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigurationError(f"cannot read {file}: {error}") from None
    if len(data) > MAX_FILE:
        raise ConfigurationError(f"{file} has more than {MAX_FILE // 1_000_000} MB")
    return text


def _read(file: Path) -> RawTable:
    text = _read_text(file)
    try:
        return read_toml(text)
    except tomllib.TOMLDecodeError as error:
        raise ConfigurationError(
            f"{file} is not valid TOML: {error}", hint="fix that line; strings need quotes, tables [brackets]"
        ) from None


def _is_on(value: Any) -> bool:
    return value.lower() not in ("false", "no", "off", "0") if isinstance(value, str) else bool(value)


def _merge(below: RawTable, above: RawTable) -> None:
    for key, value in above.items():
        under = below.get(key)
        if isinstance(under, dict) and isinstance(value, dict):
            _merge(cast(RawTable, under), cast(RawTable, value))
        else:
            below[key] = value
