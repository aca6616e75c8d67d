"""The places of `spindle up`: its socket and its lock, in a folder that only their user can enter."""

from __future__ import annotations

import os
import stat

FILE_NAME = "spindle.toml"
LONGEST = 100
"""Characters that the path of a Unix socket may have, on every system."""


def runtime_folder() -> str:
    """The folder of the sockets: below XDG_RUNTIME_DIR, or one of the user's own among the temporary ones."""
    given = os.environ.get("XDG_RUNTIME_DIR", "")
    folder = os.path.join(given, "spindle")
    if os.path.isabs(given) and len(folder) + len("/0123456789abcdef.sock") <= LONGEST:
        return folder
    return f"/tmp/spindle-{os.getuid()}"  # noqa: S108 - whose it is, is checked


def place_of(root: str, ending: str) -> str:
    """The path of the `sock` or the `lock` of the workspace in a folder."""
    from hashlib import blake2b

    name = os.path.realpath(root).encode("utf-8", "surrogateescape")
    return os.path.join(runtime_folder(), f"{blake2b(name, digest_size=8).hexdigest()}.{ending}")


def problem_with(folder: str) -> str | None:
    """Says why sockets in a folder cannot be trusted; None for one that is the user's alone."""
    try:
        found = os.lstat(folder)
    except OSError as error:
        return f"{folder}: {error.strerror}"
    if not stat.S_ISDIR(found.st_mode):
        return f"{folder} is not a folder"
    if found.st_uid != os.getuid():
        return f"{folder} belongs to another user"
    if found.st_mode & 0o077:
        return f"{folder} is open to other users"
    return None


def nearest_workspace(folder: str) -> str | None:
    """The folder of the nearest workspace at or above a folder."""
    while True:
        if os.path.isfile(os.path.join(folder, FILE_NAME)):
            return folder
        above = os.path.dirname(folder)
        if above == folder:
            return None
        folder = above


def named_workspace(path: str, folder: str) -> str:
    """The folder of the workspace that `-w` names, as seen from a folder. It need not exist."""
    whole = os.path.realpath(os.path.join(folder, os.path.expanduser(path)))
    is_file = os.path.basename(whole) == FILE_NAME and os.path.isfile(whole)
    return os.path.dirname(whole) if is_file else whole
