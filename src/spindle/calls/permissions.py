"""Does this tool exist for this principal, and may it be called? Hooks: everything does and may until
somebody says otherwise."""

from __future__ import annotations

from collections.abc import Callable

from spindle.domain.identity import Principal
from spindle.domain.tool import Tool
from spindle.errors import PermissionDeniedError

Permission = Callable[[Principal, Tool], bool]

Visible = Callable[[Principal, str], bool]
"""Whether the tool of this name exists for the principal. One that does not is not found."""


def show_all(_principal: Principal, _name: str) -> bool:
    return True


def allow_all(_principal: Principal, _tool: Tool) -> bool:
    return True


def require(permission: Permission, principal: Principal, tool: Tool) -> None:
    if not permission(principal, tool):
        raise PermissionDeniedError(
            f"{principal.id!r} may not call {tool.name}",
            hint="ask whoever runs this workspace",
            source=tool.source,
            tool=tool.name,
        )
