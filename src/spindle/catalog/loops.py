"""Tools that a workspace gets back from its own sources, because those have it as a source."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from spindle.domain.tool import ToolSpec
from spindle.domain.trail import FIELD, MAX_HOPS, read
from spindle.errors import LoopError

if TYPE_CHECKING:
    from spindle.ports.source import Note


def without_own(source: str, specs: Sequence[ToolSpec], workspace: str, note: Note) -> list[ToolSpec]:
    """Returns the tools that do not come from this workspace itself. A source without others is a loop."""
    kept = [spec for spec in specs if not _is_own(spec, workspace)]
    count = len(specs) - len(kept)
    if count and not kept:
        raise LoopError.along((source,))
    if count:
        tools = "1 tool is" if count == 1 else f"{count} tools are"
        note(f"{source}: {tools} left out, which this workspace itself serves to it")
    return kept


def _is_own(spec: ToolSpec, workspace: str) -> bool:
    way = read(spec.metadata.get(FIELD))
    # One that is as far away as can be could not be called, nor served on.
    return workspace in way or len(way) >= MAX_HOPS
