"""Names in the catalog: legal, stable and unique; and the error for a name that nobody has."""

from __future__ import annotations

import hashlib
import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING

from spindle.domain.tool import Tool, ToolSpec
from spindle.errors import NameConflictError, NotFoundError, SpindleError, from_description, suggest
from spindle.remedies import Remedy

if TYPE_CHECKING:
    from spindle.catalog.own_tools import OwnTools
    from spindle.domain.json_schema import JsonObject
    from spindle.domain.source import SourceConfig

MAX_LENGTH = 128
NO_REASONS: Mapping[str, JsonObject] = {}
Sees = Callable[[str], bool]
"""True if the tool of this name exists for whoever asks."""
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
    """Returns the name with every run of characters that a catalog name must not have replaced by `_`."""
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


def sees_all(_name: str) -> bool:
    """Every tool exists."""
    return True


async def not_found(
    store: OwnTools, name: str, sees: Sees, reasons: Mapping[str, JsonObject] = NO_REASONS
) -> SpindleError:
    """Returns the error for an unknown tool, without revealing tools that the caller may not see. `reasons`
    says of sources why they could not be read just now."""
    # Whatever there is to say about a tool that is hidden is not for whoever asks.
    why = await _known_reason(store, name, reasons) if sees(name) else None
    if why is not None:
        return why
    known = [other for other in await store.names() if sees(other)]
    locals_ = {full.rpartition(".")[2]: full for full in known}
    meant = suggest(name, known) or locals_.get(suggest(name.rpartition(".")[2], locals_) or "")
    return NotFoundError(
        f"there is no tool {name!r}",
        hint=f"did you mean {meant!r}?" if meant else None,
        remedy=None if meant else Remedy("search", name.rpartition(".")[2]),
        tool=name,
        details=meant,
    )


async def _known_reason(store: OwnTools, name: str, reasons: Mapping[str, JsonObject]) -> SpindleError | None:
    source = name.partition(".")[0]
    failed = (await store.sources()).get(source)
    if failed is not None and failed.error:
        message = f"there is no tool {name!r}; its source could not be read: {failed.error}"
        # Of the kind of the failure: a server that is down may be up again.
        known = reasons.get(source, {"category": NotFoundError.category})
        error = from_description({**known, "message": message})
        error.sent = False
        if error.hint is None and error.remedy is None:
            error.remedy = Remedy("examine", failed.name)
        return error.about(tool=name)
    if await store.has_held(source, name):
        found = failed.findings if failed is not None else ()
        said = next((item.sentence for item in found if item.name == name and item.is_serious), None)
        why = f": {said}" if said else " because its source is pinned"
        return NotFoundError(
            f"the tool {name!r} is new, and waits to be accepted{why}",
            remedy=Remedy("accept", name, source),
            tool=name,
        )
    return None
