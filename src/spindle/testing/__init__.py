"""Tools for tests: a model that follows a script, over real HTTP, and temporary workspaces."""

from spindle.testing.requests import ModelRequest, ToolAnswer
from spindle.testing.server import ModelServer
from spindle.testing.turns import Dropped, Failure, Gate, ToolCall, Turn, Usage
from spindle.testing.workspace import workspace

__all__ = [
    "Dropped",
    "Failure",
    "Gate",
    "ModelRequest",
    "ModelServer",
    "ToolAnswer",
    "ToolCall",
    "Turn",
    "Usage",
    "workspace",
]
