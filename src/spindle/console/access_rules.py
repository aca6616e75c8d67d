"""The groups and tokens of the workspace, as administrators look at them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from spindle.auth.issued import IssuedToken
from spindle.domain.identity import Principal
from spindle.serving.administration import administered
from spindle.serving.exposure import Exposed, with_groups

if TYPE_CHECKING:
    from spindle.console.screen import Look
    from spindle.domain.serve import Exposure, ServeConfig


@dataclass(frozen=True, slots=True)
class AccessRules:
    """The settings with what administrators have made, read once for one page."""

    config: ServeConfig
    """With the groups of administrators."""
    written: frozenset[str]
    """The groups that the settings name themselves."""
    tokens: Sequence[IssuedToken]
    exposed: Exposed

    @property
    def groups(self) -> dict[str, Exposure]:
        """All groups, by name."""
        return dict(sorted(self.config.groups.items()))

    def group_shows(self, group: str, tool: str) -> bool:
        """True if somebody in this group alone sees a tool."""
        return self.exposed.shows(Principal("", frozenset({group})), tool)


async def access_rules(look: Look) -> AccessRules:
    """Returns the rules that are in force for clients of this workspace."""
    config = administered(look.app, look.access)
    entries = await look.app.store.access_entries()
    whole = with_groups(config, entries)
    tokens = [IssuedToken.of(entry) for entry in entries if entry.kind == "token"]
    return AccessRules(whole, frozenset(config.groups), tokens, Exposed(whole))
