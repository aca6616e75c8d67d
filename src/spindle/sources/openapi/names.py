"""Names of tools, from the operations of a document."""

from __future__ import annotations

import hashlib
import re
from collections import Counter
from collections.abc import Sequence
from typing import Final

MAX_NAME: Final = 100
_ILLEGAL = re.compile(r"[^A-Za-z0-9_-]+")

Operation = tuple[str, str, str]
"""Its method, its path, and its `operationId` or nothing."""


def tool_names(operations: Sequence[Operation]) -> list[str]:
    """Returns legal, unique names, the same for the same document in whatever order it is written.

    An operation is called as its `operationId` says. Several that say the same get their paths, too. One that
    says nothing is called by its method and path; where several come to the same name, the plainest path has
    it (the one with fewest variables, then the shortest), and the others get a mark of their own method and
    path. So an operation that comes or goes changes the name of no other, unless that other's path is less
    plain than its own and comes to the same.
    """
    ids = [_legal(given) for _, _, given in operations]
    claims = Counter(ids)
    names: dict[int, str] = {}
    for at, (method, path, _) in enumerate(operations):
        if ids[at]:
            alone = claims[ids[at]] == 1
            names[at] = ids[at] if alone else f"{ids[at]}_{_legal(f'{method} {path}')}"
    taken = Counter(names.values())
    for at, name in names.items():
        if taken[name] > 1 or len(name) > MAX_NAME or (claims[ids[at]] > 1 and name in claims):
            names[at] = _marked(name, operations[at])
    used = set(names.values())
    unnamed = [at for at in range(len(operations)) if at not in names]
    for at in sorted(unnamed, key=lambda at: _plainness(operations[at])):
        method, path, _ = operations[at]
        name = _legal(f"{method} {path}")
        if name in used or len(name) > MAX_NAME:
            name = _marked(name, operations[at])
        used.add(name)
        names[at] = name
    return [names[at] for at in range(len(operations))]


def _plainness(operation: Operation) -> tuple[int, int, str, str]:
    method, path, _ = operation
    return path.count("{"), len(path), path, method


def _marked(name: str, operation: Operation) -> str:
    method, path, _ = operation
    return f"{name[: MAX_NAME - 9]}_{hashlib.sha256(f'{method} {path}'.encode()).hexdigest()[:8]}"


def _legal(text: str) -> str:
    return _ILLEGAL.sub("_", text).strip("_")
