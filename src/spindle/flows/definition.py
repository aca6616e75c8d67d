"""A flow as data: what a file of one says, and what is kept of one that was run.

A definition is what `files` reads and writes, `check` looks at, `build` makes a Flow of, and a run stores.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from spindle.domain.json_schema import JsonObject

DEFAULT_ACTION = "default"

OnUnknown = Literal["error", "end"]
"""What an action without an edge does, where the node has edges: stop with an error, or end the flow."""


@dataclass(frozen=True, slots=True)
class Retry:
    """`attempts` in all, the first included; each wait is `backoff` times the one before."""

    attempts: int = 1
    wait: float = 0.0
    backoff: float = 1.0


@dataclass(frozen=True, slots=True)
class Batch:
    """The tool is called once for each of the items; the output is the list of results, in order."""

    over: Any
    """A list, or a template that gives one."""
    item: str = "item"
    """Under this name each item is seen by the node's templates and inputs, as `${item}`."""
    concurrency: int = 10
    keep_errors: bool = False
    """Go on with the others when items fail: their results are null, and `failed` names them."""


@dataclass(frozen=True, slots=True)
class CacheRule:
    """How long results of pure tools may be used again. In a loop they are not, unless `loops` says so."""

    ttl: float = 3600.0
    loops: bool = False


@dataclass(frozen=True, slots=True)
class Question:
    """What a node asks a person. The answer is the node's output."""

    message: str
    """A text with templates."""
    schema: JsonObject | None = None
    """Of the answer; without it, any text."""


@dataclass(frozen=True, slots=True)
class NodeDefinition:
    """One node: a tool, a question for a person, or a flow of its own. Just one of the three is set."""

    id: str
    tool: str | None = None
    ask: Question | None = None
    flow: FlowDefinition | None = None
    description: str = ""
    params: JsonObject = field(default_factory=dict[str, Any])
    """Arguments by name, with templates."""
    inputs: Mapping[str, str] = field(default_factory=dict[str, str])
    """By argument, the place in the shared store that it is read from (`node.key[0]`)."""
    outputs: Mapping[str, str] = field(default_factory=dict[str, str])
    """By natural key of the output, the shared key under which it is written instead."""
    retry: Retry = Retry()
    timeout: float | None = None
    batch: Batch | None = None
    cache: CacheRule | bool | None = None
    """True: as the flow says, or by default; False: never; None: as the flow says."""
    fail_when: str | None = None
    """An expression over the output; where it is true the node takes its `error` edge."""
    fingerprint: str | None = None
    """Of the tool, when the flow was saved."""


@dataclass(frozen=True, slots=True)
class Edge:
    source: str
    target: str
    action: str = DEFAULT_ACTION


@dataclass(frozen=True, slots=True)
class FlowOutput:
    """What a flow gives back under one name: a template, and what is promised of its value."""

    value: Any
    schema: JsonObject = field(default_factory=dict[str, Any])


@dataclass(frozen=True, slots=True)
class FlowDefinition:
    nodes: tuple[NodeDefinition, ...]
    edges: tuple[Edge, ...] = ()
    name: str = ""
    description: str = ""
    inputs: Mapping[str, JsonObject] = field(default_factory=dict[str, JsonObject])
    """By name, the JSON Schema of each. One without a `default` must be given, unless it says
    `"required": false`."""
    params: JsonObject = field(default_factory=dict[str, Any])
    """Given to every node that does not have its own of that name."""
    outputs: Mapping[str, FlowOutput] | None = None
    """None: all that the last node gave."""
    start: str | None = None
    """The first of the nodes, where it is left out."""
    cache: CacheRule | None = None
    on_unknown: OnUnknown = "error"
    max_visits: int = 1000

    @property
    def start_id(self) -> str:
        return self.start or self.nodes[0].id

    def node(self, id: str) -> NodeDefinition | None:
        return next((node for node in self.nodes if node.id == id), None)
