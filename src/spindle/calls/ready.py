"""A call on its way: all that sending it takes, and what its record needs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from spindle.domain.call import new_id

if TYPE_CHECKING:
    from spindle.calls.host import PatientPeer
    from spindle.calls.journal import Journal
    from spindle.calls.limits import Limit
    from spindle.calls.prepared import PreparedTool
    from spindle.domain.call import Call
    from spindle.domain.json_schema import JsonObject
    from spindle.domain.source import SourceConfig
    from spindle.domain.tool import Tool


@dataclass(slots=True)
class ReadyCall:
    """A call that passed every check, with all that sending it takes."""

    prepared: PreparedTool
    call: Call
    limits: Sequence[Limit]
    timeout: float
    journal: Journal | None
    """The run in which it must be noted before it is sent."""
    peer: PatientPeer | None
    """The call's own, for which its time limit stands still."""

    @property
    def tool(self) -> Tool:
        """The tool that is called."""
        return self.prepared.tool

    @property
    def config(self) -> SourceConfig:
        """The settings of its source."""
        return self.prepared.config


def unheard(_stage: str) -> None:
    """Listens to the parts of a call's path where nobody else does."""


@dataclass(slots=True)
class RunningCall:
    """The facts about a running call that its record needs."""

    key: str = field(default_factory=new_id)
    tool: Tool | None = None
    attempts: int = 0
    waited: float = 0.0
    """Seconds that the source had the call wait since a try that was not refused."""
    secrets: frozenset[str] = frozenset()
    has_changed: bool = False
    """True if a person replaced the arguments."""
    has_renewed: bool = False
    """True if the source refused the credential, and got another one."""
    is_large: bool = False
    """True if its arguments are looked through beside the event loop, because that takes long."""
    remark: JsonObject | None = None
    """A remark on something odd about a call that succeeded."""
    at: Callable[[str], None] = unheard
    """Is told each part of the path when it begins."""
