"""What to say of a tool that is not there, to somebody who may not see all that is."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from spindle.errors import NotFoundError, suggest

if TYPE_CHECKING:
    from spindle.ports.store import ToolStore

Sees = Callable[[str], bool]
"""Whether the tool of this name exists for whoever asks."""


def sees_all(_name: str) -> bool:
    return True


async def not_found(store: ToolStore, name: str, sees: Sees) -> NotFoundError:
    # Whatever there is to say about a tool that is hidden is not for whoever asks.
    why = await _known_reason(store, name) if sees(name) else None
    if why is not None:
        return why
    known = [other for other in await store.names() if sees(other)]
    locals_ = {full.rpartition(".")[2]: full for full in known}
    meant = suggest(name, known) or locals_.get(suggest(name.rpartition(".")[2], locals_) or "")
    hint = f"did you mean {meant!r}?" if meant else f"try `spindle search {name.rpartition('.')[2]}`"
    return NotFoundError(f"there is no tool {name!r}", hint=hint, tool=name, details=meant)


async def _known_reason(store: ToolStore, name: str) -> NotFoundError | None:
    source = name.partition(".")[0]
    failed = (await store.sources()).get(source)
    if failed is not None and failed.error:
        return NotFoundError(
            f"there is no tool {name!r}; its source could not be read: {failed.error}",
            hint=f"see `spindle doctor {failed.name}`",
            tool=name,
        )
    if any(stored.name == name for stored in await store.stored_tools(source)):
        return NotFoundError(
            f"the tool {name!r} is new, and waits to be accepted because its source is pinned",
            hint=f"`spindle sync {source} --accept {name}`, once you trust it",
            tool=name,
        )
    return None
