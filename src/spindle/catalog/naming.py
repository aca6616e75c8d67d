"""From a source's own names to names in the catalog: legal, stable, unique."""

from __future__ import annotations

import hashlib
import re
from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING

from spindle.domain.tool import Tool, ToolSpec
from spindle.errors import NameConflictError

if TYPE_CHECKING:
    from spindle.domain.source import SourceConfig

MAX_LENGTH = 128
_ILLEGAL = re.compile(r"[^A-Za-z0-9_.-]+")


def name_tools(source: str, config: SourceConfig, specs: Sequence[ToolSpec]) -> list[Tool]:
    """The tools that the source's `include` and `exclude` let in, each under its catalog name."""
    _refuse_duplicates(source, specs)
    claims = Counter(legal(spec.remote_name) for spec in specs)
    tools: list[Tool] = []
    for spec in specs:
        local = legal(spec.remote_name)
        if local != spec.remote_name and (claims[local] > 1 or len(spec.remote_name) > MAX_LENGTH):
            # Two names became one: a mark of the original keeps them apart, in whatever order they come.
            original = spec.remote_name.encode("utf-8", "surrogatepass")
            local = f"{local[: MAX_LENGTH - 9]}_{hashlib.sha256(original).hexdigest()[:8]}"
        if config.admits(local):
            name = f"{source}.{local}" if config.prefix else local
            tools.append(Tool(name, source, config.kind, spec, spec.fingerprint))
    return tools


def legal(name: str) -> str:
    return _ILLEGAL.sub("_", name)[:MAX_LENGTH] or "_"


def _refuse_duplicates(source: str, specs: Sequence[ToolSpec]) -> None:
    seen: dict[str, ToolSpec] = {}
    for spec in specs:
        other = seen.setdefault(spec.remote_name, spec)
        if other is not spec:
            raise NameConflictError(
                f"two tools are called {spec.remote_name!r}: one in {other.place}, one in {spec.place}",
                hint="rename one of them",
                source=source,
            )
