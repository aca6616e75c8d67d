"""Marks of Python files, which change when a file does, or any that it imports from the workspace."""

from __future__ import annotations

import ast
import contextlib
import hashlib
import os
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from spindle.domain.bounded import BoundedMap

MAX_FILES: Final = 1000
"""Files that are followed from one."""

# A file that changed this recently may change again with the same times.
_SETTLED_AFTER = 2.0

_digests: BoundedMap[str, tuple[tuple[int, ...], str]] = BoundedMap(10_000)
_imports: BoundedMap[str, tuple[str, ...]] = BoundedMap(10_000)
"""By the digest of a file, the names that it imports."""


def code_of(place: str, root: Path) -> str:
    """Returns a mark of the code at a place (`file:line`), with all that it imports from below `root`."""
    name = place.rpartition(":")[0] if place.rpartition(":")[2].isdigit() else place
    file = root / name if name else root
    found: dict[str, str] = {}
    waiting = [file]
    while waiting and len(found) < MAX_FILES:
        path = waiting.pop()
        if str(path) in found:
            continue
        with contextlib.suppress(OSError):
            digest = found[str(path)] = file_digest(str(path))
            waiting += _imported(path, digest, (file.parent, root))
    return hashlib.sha256(repr(sorted(found.items())).encode()).hexdigest()[:32]


def _imported(path: Path, digest: str, roots: tuple[Path, ...]) -> Iterator[Path]:
    names = _imports.get(digest)
    if names is None:
        names = _imports[digest] = tuple(_names(path))
    for name in names:
        up = len(name) - len(name.lstrip("."))
        steps = [step for step in name[up:].split(".") if step]
        bases = (path.parents[min(up - 1, len(path.parents) - 1)],) if up else (path.parent, *roots)
        for base in bases:
            # A package runs its own `__init__` first, and a name may be a module or a thing inside one.
            for length in range(len(steps) + 1):
                at = base.joinpath(*steps[:length])
                yield from (
                    one for one in (at / "__init__.py", at.with_name(f"{at.name}.py")) if one.is_file()
                )


def _names(path: Path) -> Iterator[str]:
    try:
        tree = ast.parse(path.read_bytes())
    except (OSError, SyntaxError, ValueError, RecursionError):
        return
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            start = "." * node.level + (node.module or "")
            yield start
            yield from (
                f"{start}.{alias.name}" if node.module else start + alias.name for alias in node.names
            )


def file_digest(path: str) -> str:
    """Returns the hash of a file's content. It is read again only if its times or size changed, or are too
    recent to trust."""
    stat = os.stat(path)
    mark = (stat.st_mtime_ns, stat.st_ctime_ns, stat.st_size, stat.st_ino)
    known = _digests.get(path)
    if known is not None and known[0] == mark:
        return known[1]
    digest = hashlib.sha256(Path(path).read_bytes()).hexdigest()
    if time.time() - max(stat.st_mtime, stat.st_ctime) > _SETTLED_AFTER:
        _digests[path] = (mark, digest)
    return digest
