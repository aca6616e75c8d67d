"""Sources as lines of a list: those that a principal may see, and how they are."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from spindle.console.screen import Look

State = Literal["ready", "failing", "lost", "held", "consent", "new"]

WORDS: dict[State, tuple[str, str]] = {
    "ready": ("good", "ready"),
    "failing": ("bad", "failing"),
    "lost": ("bad", "connection lost"),
    "held": ("warn", "changes wait"),
    "consent": ("warn", "needs your consent"),
    "new": ("muted", "not read yet"),
}
"""The colour and the word of each state."""


@dataclass(frozen=True, slots=True)
class SourceLine:
    """One source."""

    name: str
    kind: str
    state: State
    tools: int
    held: int
    synced_at: float | None
    error: str | None
    """The reason why it could not be read, for administrators."""

    @property
    def colour(self) -> str:
        """The colour of its state."""
        return WORDS[self.state][0]

    @property
    def word(self) -> str:
        """The word for its state."""
        return WORDS[self.state][1]


async def source_lines(look: Look) -> list[SourceLine]:
    """Returns the sources of which a principal sees anything, those with problems first."""
    states = await look.app.catalog.states()
    names = await look.app.catalog.names_by_source()
    seen = Counter({source: len(look.seen(tools)) for source, tools in names.items()})
    waiting = [
        name
        for name in await look.app.catalog.consents.waiting(look.principal)
        if look.access.connects(look.principal, name, name)
    ]
    found: list[SourceLine] = []
    for name, state in states.items():
        if not look.principal.admin and not seen[name] and name not in waiting:
            continue
        kind = state.kind or look.app.catalog.sources.kind(name)
        error = state.error
        word: State = "ready"
        if name in waiting:
            word, error = "consent", None
        elif error:
            word = "failing"
        elif (lost := look.app.catalog.connections.lost.get(name)) is not None:
            # Until somebody has reached it again nobody knows if it works.
            word, error = "lost", lost
        elif state.synced_at is None:
            word = "new"
        elif state.held_count:
            word = "held"
        shown = error if look.principal.admin else None
        found.append(SourceLine(name, kind, word, seen[name], state.held_count, state.synced_at, shown))
    order: list[State] = ["failing", "lost", "held", "consent", "new", "ready"]
    return sorted(found, key=lambda line: (order.index(line.state), line.name))
