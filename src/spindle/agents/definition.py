"""An agent as data: the part of a run's record with which another process can resume it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Any, get_args

from spindle.agents.context import ContextSettings
from spindle.agents.limits import Limits
from spindle.domain.flow_of_trust import Taint, TrustPolicy
from spindle.domain.json_schema import JsonObject
from spindle.domain.records import fields_of
from spindle.errors import ConfigurationError

if TYPE_CHECKING:
    from spindle.agents.conversation import Conversation
    from spindle.domain.tool import Tool

DESTRUCTIVE = "destructive"


@dataclass(frozen=True, slots=True)
class AgentDefinition:
    """The settings of an agent."""

    name: str = "agent"
    model: str | None = None
    """`provider:name`; None: an object, which the process that resumes a run must be given."""
    instructions: str = ""
    tools: tuple[str, ...] | None = ()
    """Patterns over the names of tools; none: all. None: it has no tools."""
    approve: tuple[str, ...] = ()
    """Patterns, or `destructive`: calls that a person must approve, besides those that sources name."""
    asks: bool = True
    """True if the model can ask the user."""
    limits: Limits = field(default_factory=Limits)
    prices: Mapping[str, tuple[float, float]] = field(default_factory=dict[str, tuple[float, float]])
    settings: JsonObject = field(default_factory=dict[str, Any])
    """Settings for the model: temperature, max_tokens and the like."""
    handoffs: tuple[str, ...] = ()
    """Patterns over the names of tools whose answer is the agent's, and ends its work."""
    context: ContextSettings = field(default_factory=ContextSettings)
    others: tuple[str, ...] = ()
    """Models that are asked, in this order, where the one before fails."""
    memory: bool = False
    """True if the model can keep facts for later runs."""
    policy: TrustPolicy = field(default_factory=TrustPolicy)
    """Its rules for calls after words of others entered the run, and for where it may send."""
    code: bool = False
    """True if the model calls tools by programs."""

    @property
    def writes_code(self) -> bool:
        """True if there is a tool that a program could call."""
        return self.code and self.tools is not None

    @property
    def offered(self) -> tuple[str, ...] | None:
        """Patterns over the names of all tools that the model may call."""
        if not self.handoffs or self.tools == ():
            return self.tools
        return (*(self.tools or ()), *self.handoffs)

    def hands_over_to(self, tool: str) -> bool:
        """True if the answer of this tool is the agent's."""
        return any(fnmatchcase(tool, pattern) for pattern in self.handoffs)

    def wants_approval(self, tool: Tool, destructive: bool) -> bool:
        """True if a person must allow a call of this tool, which may destroy something or not."""
        if destructive and DESTRUCTIVE in self.approve:
            return True
        return any(fnmatchcase(tool.name, pattern) for pattern in self.approve)

    def to_dict(self) -> JsonObject:
        return fields_of(self) | {
            "tools": None if self.tools is None else list(self.tools),
            "approve": list(self.approve),
            "handoffs": list(self.handoffs),
            "limits": self.limits.to_dict(),
            "policy": self.policy.to_dict(),
            "prices": {name: list(price) for name, price in self.prices.items()},
            "context": self.context.to_dict(),
            "others": list(self.others),
        }

    @classmethod
    def from_dict(cls, data: JsonObject) -> AgentDefinition:
        return cls(
            data["name"],
            data["model"],
            data["instructions"],
            None if data["tools"] is None else tuple(data["tools"]),
            tuple(data["approve"]),
            data["asks"],
            Limits.of(data["limits"]),
            {name: (price[0], price[1]) for name, price in data["prices"].items()},
            data["settings"],
            tuple(data.get("handoffs", ())),
            ContextSettings.of(data.get("context")),
            tuple(data.get("others", ())),
            data.get("memory", False),
            TrustPolicy.from_dict(data.get("policy", {})),
            data.get("code", False),
        )


@dataclass(frozen=True, slots=True)
class Job:
    """One run of an agent: its task and settings."""

    run: str
    agent: AgentDefinition
    task: str
    output: JsonObject | None = None
    """The JSON Schema of the answer; None: text."""
    history: Sequence[JsonObject] = ()
    """Earlier messages, as JSON."""
    earlier: tuple[str, ...] = ()
    """The runs whose messages `history` holds; their cut results can still be read."""
    parallel: int | None = None
    """The number of simultaneous calls, if it is lower than the agent's."""
    files: Sequence[JsonObject] = ()
    """Files that go with the task, as `read_files` returns them."""
    thread: str | None = None
    """The conversation over runs that this run continues."""
    untrusted: str = ""
    """The tool that brought untrusted content into the runs that it continues."""

    def tell(self, conversation: Conversation) -> None:
        """Tells the model the task."""
        if self.task or self.files:
            conversation.say(self.task, self.files, pinned=True)

    def reference(self, step: int, index: int) -> str:
        """Returns the name by which the model reads on in the result of a call."""
        return f"{self.run[:8]}-{step}-{index + 1}"

    def about_result(self, step: int, index: int, tool: str | None) -> JsonObject:
        """Returns what is kept of a result beside what the model is shown."""
        pinned = {"pinned": True} if self.agent.context.is_pinned(tool) else {}
        return {"reference": self.reference(step, index), **pinned}

    def to_dict(self) -> JsonObject:
        return fields_of(self) | {
            "agent": self.agent.to_dict(),
            "history": list(self.history),
            "earlier": list(self.earlier),
            "files": list(self.files),
        }

    @classmethod
    def from_dict(cls, data: JsonObject) -> Job:
        return cls(
            data["run"],
            AgentDefinition.from_dict(data["agent"]),
            data["task"],
            data["output"],
            data["history"],
            tuple(data["earlier"]),
            data["parallel"],
            data.get("files", ()),
            data.get("thread"),
            data.get("untrusted", ""),
        )


def policy_of(taint: Taint, send_to: Sequence[str] | None) -> TrustPolicy:
    """Returns the flow-of-trust policy of these options. Raises ConfigurationError."""
    if taint not in get_args(Taint):
        raise ConfigurationError(f"`taint` is {taint!r}", hint="it is one of ask, block and off")
    if isinstance(send_to, str):
        raise ConfigurationError("`send_to` is a list of patterns", hint=f'send_to=["{send_to}"]')
    return TrustPolicy(taint, None if send_to is None else tuple(send_to))
