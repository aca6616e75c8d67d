"""Tells if any installed package declares an extension of a kind, without the library for that.

`importlib.metadata` takes longer to load, and more memory, than all else that a short command does. Nearly
nobody has an extension, and seeing that none is declared takes a few reads.
"""

from __future__ import annotations

import os
import sys


def is_declared(group: str) -> bool:
    """True if a package declares an entry point of this group, or only the library can tell."""
    return any(_is_declared_in(folder, f"[{group}]".encode()) for folder in sys.path)


def _is_declared_in(folder: str, head: bytes) -> bool:
    try:
        with os.scandir(folder or ".") as found:
            packages = [item.path for item in found if item.name.endswith((".dist-info", ".egg-info"))]
    except NotADirectoryError:
        return True  # an archive
    except OSError:
        return False
    return any(_has_group(package, head) for package in packages)


def _has_group(package: str, head: bytes) -> bool:
    try:
        with open(os.path.join(package, "entry_points.txt"), "rb") as file:
            return head in file.read()
    except OSError:
        return False
