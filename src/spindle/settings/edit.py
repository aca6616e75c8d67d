"""Changing `spindle.toml` by program: comments and order stay, two processes lose nothing."""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Generator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from spindle.errors import ConfigurationError

if TYPE_CHECKING:
    from tomlkit import TOMLDocument
    from tomlkit.items import Table

LOCK_TIMEOUT = 15.0


def add_source(file: Path, name: str, table: Mapping[str, Any], *, replace: bool = False) -> None:
    with _editing(file) as document:
        sources = _sources(document)
        if name in sources and not replace:
            raise ConfigurationError(
                f"{file} already has a source {name!r}",
                hint="choose another name, or give --replace",
            )
        sources[name] = _as_toml(table)


def remove_source(file: Path, name: str) -> bool:
    """True when the file had it."""
    with _editing(file) as document:
        sources = _sources(document)
        if name not in sources:
            return False
        del sources[name]
        return True


@contextlib.contextmanager
def _editing(file: Path) -> Generator[TOMLDocument]:
    """The document to change, written back whole and at once when the block ends well."""
    import tomlkit
    from tomlkit.exceptions import TOMLKitError

    with _locked(file):
        try:
            before = file.read_text("utf-8") if file.exists() else ""
            document = tomlkit.parse(before)
        except TOMLKitError as error:
            raise ConfigurationError(f"{file} is not valid TOML: {error}", hint="fix it first") from None
        except OSError as error:
            raise ConfigurationError(f"cannot read {file}: {error}") from None
        yield document
        after = tomlkit.dumps(document)
        if after != before:
            _replace(file, after)


def _replace(file: Path, text: str) -> None:
    partial = file.with_name(f".{file.name}.{os.getpid()}.part")
    try:
        mode = file.stat().st_mode & 0o777 if file.exists() else 0o644
        with partial.open("w", encoding="utf-8") as handle:
            handle.write(text)
            handle.flush()
            os.fsync(handle.fileno())
        partial.chmod(mode)
        partial.replace(file)
    except OSError as error:
        partial.unlink(missing_ok=True)
        raise ConfigurationError(f"cannot write {file}: {error}; nothing was changed") from None


@contextlib.contextmanager
def _locked(file: Path) -> Generator[None]:
    """Hold the file against other Spindle processes. The lock is a file beside it that stays: removing
    it would let a third process lock another one of the same name."""
    import fcntl

    lock = file.parent / ".spindle" / "edit.lock"
    try:
        lock.parent.mkdir(parents=True, exist_ok=True)
        ignore = lock.parent / ".gitignore"
        if not ignore.exists():
            ignore.write_text("*\n")
        handle = lock.open("w")
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
        yield


def _sources(document: TOMLDocument) -> Table:
    import tomlkit

    if "sources" not in document:
        document["sources"] = tomlkit.table(is_super_table=True)
    return cast("Table", document["sources"])


def _as_toml(table: Mapping[str, Any]) -> Table:
    import tomlkit

    result = tomlkit.table()
    for key, value in table.items():
        if isinstance(value, Mapping):
            inner = tomlkit.table()
            for inner_key, inner_value in cast("Mapping[str, Any]", value).items():
                inner[inner_key] = inner_value
            result[key] = inner
        else:
            result[key] = list(cast("tuple[Any, ...]", value)) if isinstance(value, tuple) else value
    return result
