"""For tests: a model that says what a script says, over real HTTP, and workspaces that leave nothing."""

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
