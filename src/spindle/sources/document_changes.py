"""Notices changes of documents. Runs before each call and listing, so it imports next to nothing."""

from __future__ import annotations

import contextlib
import hashlib
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Final

ENDINGS: Final = (".yaml", ".yml", ".json")
MAX_FILES: Final = 1000


def document_signature(document: str, root: Path) -> str | None:
    """A text that changes when the document does; None where it is not a file of this machine."""
    if "://" in document or "${" in document:
        return None
    try:
        found = (root / document).stat()
    except OSError:
        return "missing"
    return f"{found.st_mtime_ns}:{found.st_size}"


def folder_signature(path: Path) -> str:
    """A text that changes when a document or a file beside it does."""
    marks: list[str] = []
    folder = path if path.is_dir() else path.parent
    paths = _all_below(folder) if path.is_dir() else [folder / item for item in sorted(os.listdir(folder))]
    for file in paths:
        if file.suffix in ENDINGS:
            with contextlib.suppress(OSError):
                state = file.stat()
                marks.append(f"{file}:{state.st_mtime_ns}:{state.st_size}:{state.st_ino}")
    return hashlib.sha256("\n".join(marks).encode("utf-8", "surrogateescape")).hexdigest()[:32]


def _all_below(folder: Path) -> Iterator[Path]:
    seen = 0
    for base, folders, files in os.walk(folder):
        folders[:] = sorted(name for name in folders if not name.startswith("."))
        for name in sorted(files):
            yield Path(base, name)
            seen += 1
        if seen > MAX_FILES:
            return
