"""The names of OpenAgents' workspace and event tools: `from spindle.compat.openagents import tool, …`."""

from spindle.compat.openagents.collector import NetworkToolCollector
from spindle.compat.openagents.loaders import AgentTool, EventToolLoader, NetworkEvent, WorkspaceToolLoader
from spindle.sources.code.decorator import tool

__all__ = [
    "AgentTool",
    "EventToolLoader",
    "NetworkEvent",
    "NetworkToolCollector",
    "WorkspaceToolLoader",
    "tool",
]
