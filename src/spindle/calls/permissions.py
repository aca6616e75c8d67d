"""Permission for a call: the tool exists for the principal, who may call it, or a person allows it.

The first two are hooks: every tool exists for everybody, who may call it, until somebody says otherwise.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from spindle.calls.known_secrets import with_known
from spindle.calls.record import clean_json, secrets_in, with_secrets
from spindle.calls.taint import reason_to_ask
from spindle.domain.identity import Principal
from spindle.domain.tool import Tool
from spindle.errors import ApprovalRequired, PermissionDeniedError
from spindle.remedies import Remedy

if TYPE_CHECKING:
    from spindle.calls.journal import Journal
    from spindle.calls.options import CallOptions
    from spindle.calls.prepared import PreparedTool
    from spindle.domain.json_schema import JsonObject
    from spindle.domain.source import SourceConfig


class Permission(Protocol):
    """Decides who may call which tool: a function of the program."""

    def __call__(self, principal: Principal, tool: Tool, /) -> bool:
        """True if this principal may call this tool."""
        ...


class Visible(Protocol):
    """Decides who may see which tool: a function of the program."""

    def __call__(self, principal: Principal, name: str, /) -> bool:
        """True if the tool of this name exists for the principal. One that does not is not found."""
        ...


def show_all(_principal: Principal, _name: str) -> bool:
    """Every tool exists for everybody."""
    return True


def allow_all(_principal: Principal, _tool: Tool) -> bool:
    """Everybody may call every tool."""
    return True


class Finds(Protocol):
    """The part of a Caller that is needed here."""

    permission: Permission

    async def find(self, name: str, principal: Principal) -> Tool: ...


async def find_callable(caller: Finds, name: str, principal: Principal) -> Tool:
    """Returns the tool that a call of this principal would reach. Raises PermissionDeniedError if they may
    not call it."""
    tool = await caller.find(name, principal)
    require(caller.permission, principal, tool)
    return tool


def require(permission: Permission, principal: Principal, tool: Tool) -> None:
    """Raises PermissionDeniedError unless this principal may call this tool."""
    if not permission(principal, tool):
        raise PermissionDeniedError(
            f"{principal.id!r} may not call {tool.name}",
            remedy=Remedy("ask_owner"),
            source=tool.source,
            tool=tool.name,
        )


def reason_for_approval(
    prepared: PreparedTool, options: CallOptions, given: JsonObject, journal: Journal | None
) -> str | None:
    """Returns why a person must approve the call, which is empty where its source or the caller say so; None:
    nobody must. Raises PermissionDeniedError if the run's flow-of-trust policy forbids it."""
    policy = journal.policy if journal is not None else None
    why = None
    if policy is not None and journal is not None:
        origin = None if options.is_clean else journal.untrusted
        why = reason_to_ask(prepared.tool, given, policy, origin, may_act=prepared.acts)
    if why is None and wants_approval(prepared.tool, prepared.config, options):
        return ""
    return why


def wants_approval(tool: Tool, config: SourceConfig, options: CallOptions) -> bool:
    """True if the tool's source or the caller requires approval by a person."""
    if not config.approve and options.approve is None:
        return False
    destructive = config.may_destroy(tool.hints)
    if config.wants_approval(tool.local_name, destructive=destructive):
        return True
    return options.approve is not None and options.approve(tool, destructive)


def approved_arguments(
    tool: Tool, arguments: JsonObject, journal: Journal | None, why: str = ""
) -> JsonObject:
    """Returns the arguments as a person let them pass, perhaps after changing them. Raises ApprovalRequired
    until somebody has decided about exactly these, having been told `why`. Secrets are masked for the
    person, and stay what they were where the mask was left in its place."""
    shown = clean_json(arguments, with_known(frozenset(secrets_in(arguments, tool.input_schema))))
    question = ApprovalRequired(
        f"{tool.name} is called only with approval",
        source=tool.source,
        tool=tool.name,
        details={"tool": tool.name, "arguments": shown},
    )
    if why:
        # Not part of what identifies it: what was asked before the run was marked is not asked twice.
        question.message = f"{question.message}, because {why}"
    if journal is None:
        raise question
    reply = journal.ask(question)
    if reply.refused is not None:
        reason = f": {reply.refused}" if reply.refused else ""
        raise PermissionDeniedError(f"the call of {tool.name} was not approved{reason}", sent=False)
    return with_secrets(reply.answer.get("arguments", shown), shown, arguments)
