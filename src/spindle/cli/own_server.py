"""Recognises the settings of a server that is this workspace itself."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path, PurePath
from typing import Any
from urllib.parse import urlsplit

from spindle.domain.json_schema import is_array, is_object
from spindle.settings import FILE_NAME

_LOOPBACK = frozenset({"localhost", "127.0.0.1", "::1"})


def starts_workspace(table: Mapping[str, Any], root: Path) -> bool:
    """True if a source's command starts `spindle serve` for the workspace at `root`."""
    command = table.get("command")
    words = _words_of_spindle([str(word) for word in command]) if is_array(command) else None
    if words is None or "serve" not in words:
        return False
    env = table.get("env")
    here = root / str(table.get("cwd") or "")
    named = _named_workspace(words) or (str(env.get("SPINDLE_WORKSPACE") or "") if is_object(env) else "")
    meant = here / os.path.expanduser(named) if named else _nearest(here)
    if meant.name == FILE_NAME:
        meant = meant.parent
    return os.path.realpath(meant) == os.path.realpath(root)


def same_address(url: str, own: str) -> bool:
    """True if two addresses lead to one server, on this machine or by the same name."""
    try:
        one, other = urlsplit(url), urlsplit(own)
        places = [(part.hostname or "", part.port, part.path.rstrip("/")) for part in (one, other)]
    except ValueError:
        return False
    (host, *rest), (own_host, *own_rest) = places
    return rest == own_rest and (host == own_host or {host, own_host} <= _LOOPBACK)


def _words_of_spindle(command: Sequence[str]) -> list[str] | None:
    """The words that follow the program, however it is started: by a path, `python -m`, `uvx` and so on."""
    for at, word in enumerate(command):
        if PurePath(word).name in ("spindle", "spindle.exe"):
            return list(command[at + 1 :])
    return None


def _named_workspace(words: Sequence[str]) -> str | None:
    for at, word in enumerate(words):
        if word in ("-w", "--workspace") and at + 1 < len(words):
            return words[at + 1]
        if word.startswith("--workspace="):
            return word.partition("=")[2]
        if word.startswith("-w") and len(word) > 2:
            return word[2:].removeprefix("=")
    return None


def _nearest(folder: Path) -> Path:
    """The folder of the nearest workspace at or above a folder; the folder itself if there is none."""
    return next((place for place in (folder, *folder.parents) if (place / FILE_NAME).is_file()), folder)
