"""The part of the store that remembers how triggers stand."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from spindle.domain.trigger_state import TriggerState


class TriggerStore(Protocol):
    """Keeps the state of triggers, which are in the settings."""

    async def save_trigger(self, state: TriggerState, *, happened: bool) -> None:
        """Writes how a trigger stands. `happened`: something has come, so its run or error is the last one,
        and its `runs` are added to those that were started before; else only its error is written,
        or that it has none."""
        ...

    async def triggers(self) -> dict[str, TriggerState]:
        """Returns the states by the names of triggers."""
        ...
