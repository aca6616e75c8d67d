"""Who asks, and what they may see. The one place where serving meets the rules about it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol

from spindle.domain.identity import LOCAL, Principal
from spindle.domain.tool import ToolSummary
from spindle.serving.access import PRINCIPAL


class Access(Protocol):
    def principal(self, scope: Mapping[str, Any] | None) -> Principal:
        """On whose behalf a request acts. `scope` is that of the HTTP request; None: over stdio."""
        ...

    def visible(self, principal: Principal, tool: ToolSummary) -> bool:
        """Whether a tool exists for this principal: else it can be neither listed, found nor called."""
        ...

    def offers(self, principal: Principal, source: str) -> bool:
        """Whether the resources and prompts of this source exist for this principal."""
        ...


class OpenAccess:
    """Everything, for whoever was let in."""

    def principal(self, scope: Mapping[str, Any] | None) -> Principal:
        found = scope.get(PRINCIPAL) if scope is not None else None
        return found if isinstance(found, Principal) else LOCAL

    def visible(self, principal: Principal, tool: ToolSummary) -> bool:
        return True

    def offers(self, principal: Principal, source: str) -> bool:
        return True
