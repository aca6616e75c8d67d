"""Names that every model API takes, `[A-Za-z0-9_-]{1,64}`, for names that may hold anything.

A name is changed no more than it must be, and never depends on the order in which tools came: only a
tool whose safe name another one claims too has a mark of its full name added. The way back is a map,
nothing is ever parsed out of a name.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Collection, Iterable, Mapping
from typing import Literal

LONGEST = 64
SAFE = re.compile(r"[A-Za-z0-9_-]{1,64}")
MARK_LENGTH = 8

NameStyle = Literal["safe", "full"]

_UNSAFE = re.compile(r"[^A-Za-z0-9_-]+")
_WILD = re.compile(r"[*?\[]")


def served_names(full_names: Iterable[str], style: NameStyle = "safe") -> Mapping[str, str]:
    """Each full name with the one under which it is served. No two are the same."""
    names = sorted(set(full_names))
    if style == "full":
        return {name: name for name in names}
    # Those that are safe as they are keep their names, whoever else would like them.
    given = {name: name for name in names if SAFE.fullmatch(name)}
    taken = set(given)
    wanted: dict[str, list[str]] = {}
    for name in names:
        if name not in given:
            wanted.setdefault(_safe(name), []).append(name)
    for safe, claimants in wanted.items():
        for name in claimants:
            alone = len(claimants) == 1 and safe not in taken and len(_plain(name)) <= LONGEST
            given[name] = safe if alone else _marked(name, taken)
            taken.add(given[name])
    return given


def free_name(wanted: str, taken: Collection[str]) -> str:
    """A safe name that none of those taken is: the wanted one, or one with a mark of it."""
    is_free = SAFE.fullmatch(wanted) is not None and wanted not in taken
    return wanted if is_free else _marked(wanted, taken)


def may_name(pattern: str, source: str) -> bool:
    """True if a glob over full names may match a tool of this source, whose tools are not known."""
    fixed = _WILD.split(pattern, maxsplit=1)[0]
    prefix = f"{source}."
    return fixed.startswith(prefix) or (fixed != pattern and prefix.startswith(fixed))


def _plain(name: str) -> str:
    return _UNSAFE.sub("_", name) or "_"


def _safe(name: str) -> str:
    return _plain(name)[:LONGEST]


def _marked(name: str, taken: Collection[str]) -> str:
    digest = hashlib.sha256(name.encode("utf-8", "surrogatepass")).hexdigest()
    for length in range(MARK_LENGTH, LONGEST):
        mark = digest[:length]
        marked = f"{_plain(name)[: LONGEST - length - 1]}_{mark}"
        if marked not in taken:
            return marked
    raise AssertionError("two names with the same SHA-256")
