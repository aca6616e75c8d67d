"""Calls that a person must allow, one by one."""

from __future__ import annotations

from typing import TYPE_CHECKING

from spindle.errors import ApprovalRequired, PermissionDeniedError

if TYPE_CHECKING:
    from spindle.calls.journal import Journal
    from spindle.calls.options import CallOptions
    from spindle.domain.json_schema import JsonObject
    from spindle.domain.source import SourceConfig
    from spindle.domain.tool import Tool


def wants_approval(tool: Tool, config: SourceConfig, options: CallOptions) -> bool:
    """Whether the tool's source, or whoever makes the call, wants it to be allowed by a person."""
    destructive = tool.hints.destructive is True
    if config.approve and config.wants_approval(tool.local_name, destructive=destructive):
        return True
    return options.approve is not None and options.approve(tool)


def approved_arguments(tool: Tool, arguments: JsonObject, journal: Journal | None) -> JsonObject:
    """The arguments as a person let them pass, perhaps after changing them. Raises ApprovalRequired
    until somebody has decided about exactly these."""
    question = ApprovalRequired(
        f"{tool.name} is called only with approval",
        source=tool.source,
        tool=tool.name,
        details={"tool": tool.name, "arguments": arguments},
    )
    if journal is None:
        raise question
    reply = journal.ask(question)
    if reply.refused is not None:
        reason = f": {reply.refused}" if reply.refused else ""
        raise PermissionDeniedError(f"the call of {tool.name} was not approved{reason}", sent=False)
    return reply.answer.get("arguments", arguments)
