"""Tells if only this user can have written a file."""

from __future__ import annotations

import os
import stat
from pathlib import Path


def foreign_writer(real: Path, user: int) -> str:
    """Returns why somebody else could have written the file or folder: who owns it, or which folder above
    others can write to. Empty if only this user, or root, could."""
    try:
        own = os.lstat(real)
    except FileNotFoundError:
        own = None  # gone: its folder decides
    except OSError as error:
        return f"{real} cannot be looked at: {error.strerror}"
    if own is not None and own.st_uid != user:
        return f"{real} belongs to another user"
    if own is not None and _others_write(own, user):
        return f"others can write to {real}"
    for folder in real.parents:
        try:
            status = os.lstat(folder)
        except FileNotFoundError:
            continue
        except OSError as error:
            return f"{folder} cannot be looked at: {error.strerror}"
        if status.st_uid not in (user, 0):
            return f"{folder} belongs to another user"
        if _others_write(status, user) and not status.st_mode & stat.S_ISVTX:
            return f"others can write to {folder}"
    return ""


def _others_write(status: os.stat_result, user: int) -> bool:
    if status.st_mode & stat.S_IWOTH:
        return True
    return bool(status.st_mode & stat.S_IWGRP) and not _is_private_group(status.st_gid, user)


def _is_private_group(group: int, user: int) -> bool:
    """True for the group that many systems make for each user, of which nobody else is a member."""
    import grp
    import pwd

    if group == 0:
        return True  # root could anyway
    try:
        name = pwd.getpwuid(user).pw_name
        entry = grp.getgrgid(group)
    except KeyError:
        return False
    return pwd.getpwuid(user).pw_gid == group and entry.gr_name == name and set(entry.gr_mem) <= {name}
