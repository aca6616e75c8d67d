"""Spindle: one catalog for every tool that an agent, a flow, a person or a program can call.

async with spindle.open("workspace") as s:
    result = await s.call("fs.read_text_file", path="notes.txt")
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from spindle.version import __version__ as __version__

if TYPE_CHECKING:
    from spindle.agents.agent import Agent as Agent
    from spindle.agents.events import AgentEvent as AgentEvent
    from spindle.agents.limits import Limits as Limits
    from spindle.agents.outcomes import AgentResult as AgentResult
    from spindle.app import Spindle as Spindle
    from spindle.blocking import BlockingSpindle as BlockingSpindle
    from spindle.calls.caller import CallOptions as CallOptions
    from spindle.calls.context import Context as Context
    from spindle.calls.limits import Limit as Limit
    from spindle.catalog.diff import SyncReport as SyncReport
    from spindle.console.oauth_callback import callback_app as callback_app
    from spindle.domain.call import Block as Block
    from spindle.domain.call import CallRecord as CallRecord
    from spindle.domain.call import Result as Result
    from spindle.domain.event import Event as Event
    from spindle.domain.identity import Credential as Credential
    from spindle.domain.identity import Principal as Principal
    from spindle.domain.question import Answer as Answer
    from spindle.domain.question import SourceQuestion as SourceQuestion
    from spindle.domain.resource import FilledPrompt as FilledPrompt
    from spindle.domain.resource import Resource as Resource
    from spindle.domain.resource import ResourceChange as ResourceChange
    from spindle.domain.resource import SourcePrompt as SourcePrompt
    from spindle.domain.source import SourceConfig as SourceConfig
    from spindle.domain.tool import Hints as Hints
    from spindle.domain.tool import Tool as Tool
    from spindle.domain.tool import ToolSummary as ToolSummary
    from spindle.errors import Interruption as Interruption
    from spindle.errors import SpindleError as SpindleError
    from spindle.errors import ToolError as ToolError
    from spindle.flows.node_cache import flow_safe as flow_safe
    from spindle.http.credentials import bearer as bearer
    from spindle.opening import open as open
    from spindle.runs.outcomes import Continuing as Continuing
    from spindle.runs.outcomes import Finished as Finished
    from spindle.runs.outcomes import OpenPause as OpenPause
    from spindle.runs.outcomes import Paused as Paused
    from spindle.sources.code.decorator import tool as tool

# Loaded when first used: `import spindle` in a user's tool file should cost next to nothing.
_HOMES = {
    "Agent": "spindle.agents.agent",
    "AgentEvent": "spindle.agents.events",
    "AgentResult": "spindle.agents.outcomes",
    "Answer": "spindle.domain.question",
    "Block": "spindle.domain.call",
    "BlockingSpindle": "spindle.blocking",
    "CallOptions": "spindle.calls.caller",
    "CallRecord": "spindle.domain.call",
    "Context": "spindle.calls.context",
    "Continuing": "spindle.runs.outcomes",
    "Credential": "spindle.domain.identity",
    "Event": "spindle.domain.event",
    "FilledPrompt": "spindle.domain.resource",
    "Finished": "spindle.runs.outcomes",
    "Hints": "spindle.domain.tool",
    "Interruption": "spindle.errors",
    "Limit": "spindle.calls.limits",
    "Limits": "spindle.agents.limits",
    "OpenPause": "spindle.runs.outcomes",
    "Paused": "spindle.runs.outcomes",
    "Principal": "spindle.domain.identity",
    "SourcePrompt": "spindle.domain.resource",
    "Resource": "spindle.domain.resource",
    "ResourceChange": "spindle.domain.resource",
    "Result": "spindle.domain.call",
    "SourceConfig": "spindle.domain.source",
    "SourceQuestion": "spindle.domain.question",
    "Spindle": "spindle.app",
    "SpindleError": "spindle.errors",
    "SyncReport": "spindle.catalog.diff",
    "Tool": "spindle.domain.tool",
    "ToolError": "spindle.errors",
    "ToolSummary": "spindle.domain.tool",
    "bearer": "spindle.http.credentials",
    "callback_app": "spindle.console.oauth_callback",
    "flow_safe": "spindle.flows.node_cache",
    "open": "spindle.opening",
    "tool": "spindle.sources.code.decorator",
}

__all__ = ["__version__", *_HOMES]  # noqa: PLE0604  # pyright: ignore[reportUnsupportedDunderAll]


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'spindle' has no attribute {name!r}")
    from importlib import import_module

    value = getattr(import_module(_HOMES[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
