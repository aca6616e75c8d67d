"""The pattern of every screen: a function that looks at the workspace and returns plain data, and a template
that shows it.

A view knows nothing of HTTP or HTML, so that it is tested without a browser. It looks with the eyes of one
principal: what they may not see is not in what it returns.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from spindle.app import Spindle
    from spindle.console.examination import Examination
    from spindle.domain.identity import Principal
    from spindle.serving.access import ServingAccess


@dataclass(frozen=True, slots=True)
class Look:
    """One look of a principal at the workspace."""

    app: Spindle
    access: ServingAccess
    principal: Principal
    now: float
    query: Mapping[str, str] = field(default_factory=dict[str, str])
    """The parameters of the address."""
    named: Mapping[str, str] = field(default_factory=dict[str, str])
    """The parts of the path that name something."""
    is_owner: bool = False
    """True for the owner of the workspace, who came by a link from its shell."""
    examination: Examination | None = None
    """Examines the workspace for whoever asks, where that can be done."""
    origin: str = ""
    """The address at which the browser reached this server."""

    def sees(self, tool: str) -> bool:
        """True if this principal may see a tool."""
        return self.access.shows(self.principal, tool)

    def seen(self, tools: list[str]) -> list[str]:
        """Returns those of these tools that this principal may see."""
        return self.access.shown_of(self.principal, tools)

    @property
    def person(self) -> Principal | None:
        """The one who answers what waits: None is the owner."""
        return None if self.is_owner else self.principal

    @property
    def whose(self) -> str | None:
        """The principal whose calls and runs are shown; None: everybody's, to an administrator."""
        return None if self.principal.admin else self.principal.id


View = Callable[[Look], Awaitable[Any]]


@dataclass(frozen=True, slots=True)
class Screen:
    """One page. Its template extends `frame.html`; each of its blocks that has the name of an element's id
    can also be asked for alone, by htmx."""

    path: str
    """Below `/console`, as Starlette writes routes."""
    template: str
    view: View
    place: str
    """The key of the entry in the navigation that it belongs to."""
    admin: bool = False
    """True if only administrators have it."""


@dataclass(frozen=True, slots=True)
class NavEntry:
    """An entry of the navigation."""

    key: str
    label: str
    path: str
    """Below `/console`."""
