"""Edits `spindle.toml` by program. Comments and order stay, and two processes at once lose nothing."""

from __future__ import annotations

import contextlib
import itertools
import os
import time
import tomllib
from collections.abc import Callable, Generator, Mapping, Sequence
from pathlib import Path
from typing import Any, cast

from spindle import settings
from spindle.domain.toml_text import read_toml
from spindle.errors import ConfigurationError
from spindle.owner_only import make_folder, open_file
from spindle.settings import user_folder
from spindle.trust import granted

LOCK_TIMEOUT = 15.0
OWN_FOLDER = "sources"
"""The folder beside spindle.toml for sources whose settings are too long for it."""


def add_source(
    file: Path, name: str, table: Mapping[str, Any], *, replace: bool = False, own_text: str | None = None
) -> None:
    """Adds `[sources.NAME]` at the end of the file, or in place of the table that it replaces. `own_text` is
    the text of the file that the table names as `file`; both are written, or none."""
    with locked(file):
        before, data = _read(file)
        known = _sources_in(data, file)
        own = file.parent / table["file"] if own_text is not None else None
        if not replace and (name in known or (own is not None and own.exists())):
            what = (
                f"{file} already has a source {name!r}" if name in known else f"there is already a file {own}"
            )
            raise ConfigurationError(what, hint="choose another name, or give --replace")
        wanted = {**data, "sources": {**known, name: _plain(table)}}
        edits = (_swapped, _set_in_place, _moved) if name in known else (_appended, _set_in_place)
        text = _first_that_means(wanted, file, edits, before, name, table)
        if own is not None and own_text is not None:
            # First, so that the table never names a file that is not there.
            own.parent.mkdir(parents=True, exist_ok=True)
            replace_file(own, own_text)
        replace_file(file, text)
        if known.get(name, {}).get("file") != table.get("file"):
            _drop_own_file(file, known.get(name, {}))


def set_in_source(file: Path, name: str, key: str, value: Mapping[str, Any]) -> None:
    """Sets `key = { … }` in [sources.NAME] and leaves everything else as it is."""
    with locked(file):
        before, data = _read(file)
        known = _sources_in(data, file)
        if name not in known:
            raise ConfigurationError(f"{file} has no source {name!r}")
        wanted = {**data, "sources": {**known, name: {**known[name], key: _plain(value)}}}
        replace_file(file, _first_that_means(wanted, file, (_set_key,), before, name, key, value))


def add_table(file: Path, name: str, table: Mapping[str, Any]) -> None:
    """Adds `[NAME]` at the end of the file, which must not have one."""
    import tomlkit

    with locked(file):
        before, data = _read(file)
        if name in data:
            raise ConfigurationError(f"{file} already has [{name}]", hint="change it by hand")
        added = tomlkit.dumps({name: _plain(table)}).strip("\n") + "\n"
        gap = (
            "" if not before.strip() else _newline(before) if before.endswith("\n") else _newline(before) * 2
        )
        replace_file(file, before + gap + added.replace("\n", _newline(before)))


def remove_source(file: Path, name: str) -> bool:
    """Removes a source from the file. Returns False if the file has no such source."""
    with locked(file):
        before, data = _read(file)
        if name not in _sources_in(data, file):
            return False
        rest = {key: value for key, value in data["sources"].items() if key != name}
        wanted = {**data, "sources": rest}
        text = _first_that_means(wanted, file, (_cut, _deleted_in_place), before, name)
        # A server that runs takes an empty file for one that was lost, and goes on with what it knows.
        replace_file(file, text if text.strip() else f"{text}# no sources\n")
        _drop_own_file(file, data["sources"][name])
        return True


def _drop_own_file(file: Path, table: Mapping[str, Any]) -> None:
    """Deletes the file that the table of a source named, if it is one that we write."""
    folder = file.parent / OWN_FOLDER
    written = table.get("file")
    if isinstance(written, str) and (file.parent / written).parent == folder:
        with contextlib.suppress(OSError):  # gone already, or others are in the folder
            (file.parent / written).unlink(missing_ok=True)
            folder.rmdir()


Edit = Callable[..., str]


def _first_that_means(wanted: dict[str, Any], file: Path, edits: Sequence[Edit], *given: Any) -> str:
    """Returns the result of the first edit that gives the file the wanted meaning. The first edits only
    add or cut whole lines, so nothing else in the file can change; some forms of TOML need more than that."""
    import tomlkit.exceptions

    for edit in edits:
        with contextlib.suppress(tomllib.TOMLDecodeError, tomlkit.exceptions.TOMLKitError):
            text = edit(*given)
            if _meaning(read_toml(text)) == _meaning(wanted):
                return text
    raise ConfigurationError(
        f"{file} is written in a way that cannot be edited by program",
        hint="edit its `sources` by hand; nothing was changed",
    )


def _meaning(data: dict[str, Any]) -> dict[str, Any]:
    """The content of a file, without an empty table of sources, which means the same as none."""
    return {key: value for key, value in data.items() if key != "sources" or value}


def _appended(text: str, name: str, table: Mapping[str, Any]) -> str:
    added = _rendered(text, name, table)
    if not text.strip():
        return text + added
    newline = _newline(text)
    return text + ("" if text.endswith("\n") else newline) + newline + added


def _swapped(text: str, name: str, table: Mapping[str, Any]) -> str:
    return _cut(text, name, instead=_rendered(text, name, table))


def _rendered(text: str, name: str, table: Mapping[str, Any]) -> str:
    import tomlkit

    added = tomlkit.dumps({"sources": {name: _plain(table)}}).strip("\n") + "\n"
    return added.replace("\n", _newline(text))


def _newline(text: str) -> str:
    return "\r\n" if "\r\n" in text else "\n"


def _cut(text: str, name: str, instead: str = "") -> str:
    return without_table(text, ["sources", name], instead)


def without_table(text: str, path: Sequence[str], instead: str = "") -> str:
    """Cuts the lines of a table and its sub-tables. Comments above the next table, or apart at the end,
    belong to something else and stay."""
    kept: list[str] = []
    tail: list[str] = []
    cutting = False
    for line in text.splitlines(keepends=True):
        header = _header_path(line) if line.lstrip().startswith("[") else []
        if header:
            was_cutting, cutting = cutting, header[: len(path)] == [*path]
            if was_cutting and not cutting:
                kept += tail
            elif cutting and not was_cutting:
                kept.append(instead)
                instead = ""
        if not cutting:
            kept.append(line)
        elif line.strip() and not line.lstrip().startswith("#"):
            tail = []
        else:
            tail.append(line)
    if cutting and any(line.strip() for line in tail):
        kept += itertools.dropwhile(str.strip, tail)
    return "".join(kept)


def _header_path(line: str) -> list[str]:
    """The keys of a `[table.header]`; none for a line that only looks like one."""
    try:
        node: Any = read_toml(line)
    except tomllib.TOMLDecodeError:
        return []
    path: list[str] = []
    while isinstance(node, (dict, list)) and node:
        if isinstance(node, dict):
            key, node = next(iter(cast("dict[str, Any]", node).items()))
            path.append(key)
        else:
            node = cast("list[Any]", node)[0]
    return path


def _set_in_place(text: str, name: str, table: Mapping[str, Any]) -> str:
    import tomlkit

    document = tomlkit.parse(text)
    cast("dict[str, Any]", document["sources"])[name] = _plain(table)
    return tomlkit.dumps(document)


def _set_key(text: str, name: str, key: str, value: Mapping[str, Any]) -> str:
    import tomlkit

    document = tomlkit.parse(text)
    table = tomlkit.inline_table()
    for inner, item in value.items():
        table[inner] = _plain(item)
    cast("dict[str, Any]", cast("dict[str, Any]", document["sources"])[name])[key] = table
    return tomlkit.dumps(document)


def _deleted_in_place(text: str, name: str) -> str:
    import tomlkit

    document = tomlkit.parse(text)
    del cast("dict[str, Any]", document["sources"])[name]
    return tomlkit.dumps(document)


def _moved(text: str, name: str, table: Mapping[str, Any]) -> str:
    return _appended(_deleted_in_place(text, name), name, table)


def _read(file: Path) -> tuple[str, dict[str, Any]]:
    try:
        text = file.read_bytes().decode() if file.exists() else ""
        return text, read_toml(text)
    except tomllib.TOMLDecodeError as error:
        raise ConfigurationError(f"{file} is not valid TOML: {error}", hint="fix it first") from None
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigurationError(f"cannot read {file}: {error}") from None


def _sources_in(data: dict[str, Any], file: Path) -> dict[str, Any]:
    sources = data.get("sources", {})
    if not isinstance(sources, dict):
        raise ConfigurationError(f"{file}: `sources` must be a table such as [sources.NAME]")
    return cast("dict[str, Any]", sources)


def _plain(value: Any) -> Any:
    if isinstance(value, Mapping):
        items = cast("Mapping[str, Any]", value).items()
        return {key: _plain(item) for key, item in items if item is not None}
    if isinstance(value, (list, tuple)):
        return [_plain(item) for item in cast("Sequence[Any]", value)]
    return value


def replace_file(file: Path, text: str, *, private: bool = False) -> None:
    """Replaces the file in one step. The file's permissions hold at every moment. One that is new can be read
    by those whom the umask lets; if it is `private` or among the user's own settings, by its owner alone."""
    target = file.resolve()
    partial = target.with_name(f".{target.name}.{os.getpid()}.part")
    try:
        known = target.stat().st_mode & 0o777 if target.exists() else None
        own = private or target.is_relative_to(user_folder().resolve())
        mode = known or (0o600 if own else 0o644)
        partial.unlink(missing_ok=True)
        descriptor = os.open(partial, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode)
        with os.fdopen(descriptor, "wb") as handle:
            handle.write(text.encode())
            handle.flush()
            os.fsync(handle.fileno())
        if known is not None:
            partial.chmod(known)
        partial.replace(target)
    except OSError as error:
        with contextlib.suppress(OSError):
            partial.unlink(missing_ok=True)
        raise ConfigurationError(f"cannot write {file}: {error}; nothing was changed") from None


@contextlib.contextmanager
def locked(file: Path) -> Generator[None]:
    """Locks the file against other Spindle processes. The lock is a file beside it that is never removed:
    otherwise a third process could lock a new one of the same name."""
    import fcntl

    lock = file.parent / ".spindle" / "edit.lock"
    try:
        make_folder(lock.parent)
        ignore = lock.parent / ".gitignore"
        if not ignore.exists():
            with open_file(ignore) as ignoring:
                ignoring.write(b"*\n")
        handle = open_file(lock)
    except OSError as error:
        raise ConfigurationError(f"cannot write in {file.parent}: {error}") from None
    deadline = time.monotonic() + LOCK_TIMEOUT
    with handle:
        while True:
            try:
                fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                if time.monotonic() > deadline:
                    raise ConfigurationError(f"another process is editing {file}; try again") from None
                time.sleep(0.01)
        with own_change(file.parent):
            yield


@contextlib.contextmanager
def own_change(root: Path) -> Generator[None]:
    """A change that Spindle itself makes in a workspace for its user: one that was trusted stays so, and a
    folder in which nothing could run before becomes a trusted one."""
    was_trusted = _is_trusted(root)
    yield
    if was_trusted:
        settings.load(root).trust()


def _is_trusted(root: Path) -> bool:
    """True if the mark of a workspace is to be renewed after a change."""
    if root.resolve() == settings.user_folder().resolve() or granted(root, os.environ):
        return False  # needs no mark
    if not root.is_dir():
        return True  # about to be made
    try:
        found = settings.load(root, trusted=False)
    except ConfigurationError:
        return False
    return found.verdict.trusted or not found.cover().files
