"""The start of `spindle up` by the first command that has use for it, where `[up] auto` says so."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from spindle.up.places import FILE_NAME

if TYPE_CHECKING:
    from socket import socket

    from spindle.up.client import CommandLine

COMMANDS = frozenset({"agent", "ask", "call", "run"})
"""The commands that open sessions."""


def started(found: CommandLine) -> socket | None:
    """Starts the server if the workspace wants that, and returns a connection to it."""
    if found.command not in COMMANDS or not _may_be_wanted(found.root):
        return None
    from spindle import settings
    from spindle.errors import SpindleError

    try:
        loaded = settings.load(found.root, trusted=False)
        if not loaded.verdict.trusted or not loaded.up().auto:
            return None
    except SpindleError:
        return None  # the command itself says what is wrong
    from spindle.up.starting import reached, start

    try:
        start(loaded)
        return reached(loaded)
    except (SpindleError, OSError) as error:
        import sys

        hint = f" ({error.hint})" if isinstance(error, SpindleError) and error.hint else ""
        print(f"note: {error}{hint}", file=sys.stderr)  # noqa: T201
        return None


def _may_be_wanted(root: str) -> bool:
    """A look that costs nothing, because nearly always there is nothing to find."""
    if any(name.startswith("SPINDLE_UP__") for name in os.environ):
        return True
    from spindle.settings.places import user_folder

    for file in (os.path.join(root, FILE_NAME), str(user_folder() / FILE_NAME)):
        try:
            with open(file, "rb") as handle:
                text = handle.read(4_000_000)
        except OSError:
            continue
        if b"up" in text and b"auto" in text:
            return True
    return False
