"""A flow as data: the content of a file, and the record of a run.

`text/` reads and writes a definition, `check/` checks it, `build` turns it into a Flow, and a run stores it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Literal, get_args

from spindle.domain.json_schema import JsonObject, is_object
from spindle.domain.records import quick_dataclass
from spindle.domain.text_values import Parse

DEFAULT_ACTION = "default"

ELSE = "else"
"""The condition of the edge that is taken where no other holds."""

RESULTS: Final = "results"
FAILED: Final = "failed"
"""The names under which `reduce` of a batch sees the results, and the items that failed."""

OnUnknown = Literal["error", "end"]
"""The effect of an action without an edge, where the node has other edges: an error, or the end of the
flow."""


@dataclass(frozen=True, slots=True)
class Retry:
    """The number of attempts, the first included. Each wait is `backoff` times the one before."""

    attempts: int = 1
    wait: float = 0.0
    backoff: float = 1.0


@dataclass(frozen=True, slots=True)
class Batch:
    """Calls the tool once for each item. The output is the list of results, in order."""

    over: Any
    """A list, or a template that evaluates to one."""
    item: str = "item"
    """The name under which templates and inputs of the node see each item, as `${item}`."""
    concurrency: int = 10
    keep_errors: bool = False
    """True: continue when items fail. Their results are null, and `failed` lists them."""
    reduce: Any = None
    """A value with templates over `results`, the list of results, which is the output instead of the list."""
    spread: bool | int = False
    """In a submitted run: done by all workers, in parts of so many items; True: as many as suit the list."""


@dataclass(frozen=True, slots=True)
class FlowLoop:
    """Repeats a flow inside a flow, while a condition holds. Its outputs are the values of the next round."""

    carry: JsonObject
    """By name, the values that the first round has, with templates."""
    repeat_while: str
    """An expression over the outputs of a round. If it is true, there is another round."""
    limit: int
    """The number of rounds after which the node fails."""


@dataclass(frozen=True, slots=True)
class Join:
    """The branches that a node waits for, where several lead to it at the same time."""

    wait: Literal["all", "any"] | int = "all"
    """All of them, the first, or so many. Those that are not needed any more are cancelled."""
    keep_errors: bool | None = None
    """True: go on when branches fail, as long as enough arrive; False: the first failure is the flow's. By
    default the first failure counts only where all branches are waited for."""

    @classmethod
    def of(cls, value: Any) -> Join:
        """Returns the join that a document describes, with all its keys or with `wait` alone."""
        fields: JsonObject = value if is_object(value) else {"wait": value}
        wait = fields.get("wait", "all")
        return cls(int(wait) if isinstance(wait, (int, float)) else wait, fields.get("keep_errors"))

    @property
    def keeps_errors(self) -> bool:
        return self.wait != "all" if self.keep_errors is None else self.keep_errors

    @property
    def words(self) -> str:
        """`waits for all branches`"""
        which = {"all": "all branches", "any": "the first branch"}
        count = f"{self.wait} branch{'es' if self.wait != 1 else ''}"
        errors = {None: "", True: ", and keeps errors", False: ", and fails with the first that fails"}
        return f"waits for {which.get(str(self.wait), count)}{errors[self.keep_errors]}"

    def needed(self, branches: int) -> int:
        """Returns the number of branches, out of so many, that have to arrive."""
        return branches if self.wait == "all" else 1 if self.wait == "any" else self.wait


@dataclass(frozen=True, slots=True)
class CacheRule:
    """For how many seconds results of pure tools may be reused. In a loop they are not, unless `loops` is
    set."""

    ttl: float = 3600.0
    loops: bool = False


@dataclass(frozen=True, slots=True)
class Question:
    """A question that a node asks a person. The answer is the node's output."""

    message: str
    """A text with templates."""
    schema: JsonObject | None = None
    """The schema of the answer; None: any text."""


@dataclass(frozen=True, slots=True)
class ModelPrompt:
    """A question to a language model. The answer is the node's output."""

    prompt: str
    """A text with templates."""
    system: str = ""
    """A text with templates that the model is told before."""
    schema: JsonObject | None = None
    """The schema of the answer; None: any text."""
    model: str | None = None
    """`provider:name`; None: the one of the settings."""
    limits: JsonObject = field(default_factory=dict[str, Any])
    settings: JsonObject = field(default_factory=dict[str, Any])
    """Settings of the model, such as `temperature`."""


@dataclass(frozen=True, slots=True)
class AgentTask:
    """A task for an agent. Its answer is the node's output."""

    task: str
    """A text with templates."""
    tools: tuple[str, ...]
    """Patterns over the names of the tools that it may use."""
    instructions: str = ""
    """A text with templates."""
    schema: JsonObject | None = None
    model: str | None = None
    approve: tuple[str, ...] | None = None
    """Patterns of tools whose calls a person must approve; None: those that may destroy something."""
    ask_user: bool = True
    limits: JsonObject = field(default_factory=dict[str, Any])
    settings: JsonObject = field(default_factory=dict[str, Any])


@dataclass(frozen=True, slots=True)
class Wait:
    """One of four things that a run can wait for, without a process that lives meanwhile."""

    until: Any = None
    """A point in time, or a template for one: by ISO 8601 with its zone, or seconds since 1970."""
    span: Any = None
    """`for` in a file: seconds, or a text such as `2h`; or a template."""
    event: str | None = None
    """A pattern over channels and types of events; a text with templates."""
    webhook: bool | None = None
    """True: it waits for a call of the address `${hooks.NODE}`."""
    schema: JsonObject | None = None
    """The schema of the event's data, or of the body of the call."""
    where: JsonObject | None = None
    """By path in the event's data, the value that it must have."""


@dataclass(frozen=True, slots=True)
class Approval:
    """A person must approve what a node is about to do, each time that it is visited."""

    by: tuple[str, ...] = ()
    """Users, `group:NAME`, and `caller` for whoever started the run. The workspace's owner always may."""
    message: str = ""
    """A text with templates."""


NodeKind = Literal["tool", "ask", "flow", "model", "agent", "wait", "transform"]
KINDS: Final[tuple[NodeKind, ...]] = get_args(NodeKind)
"""The kinds of nodes. Each is a key, of which a node has exactly one."""
SAID: Final[tuple[str, ...]] = (*KINDS, "run")
"""The keys of a document of which a node has exactly one: `run` stands for a tool."""


def says(kind: NodeKind, text: str) -> str:
    """Returns what a node of this kind does, in words; `text` is the main one of its own texts."""
    words = {"ask": "asks a person", "model": "asks a model", "agent": "lets an agent work", "flow": "a flow",
             "wait": "waits", "transform": "values"}  # fmt: skip
    return f"{words[kind]}: {text}" if text else words[kind]


@quick_dataclass(frozen=True, slots=True)
class NodeDefinition:
    """One node: a tool, a question for a person, a flow, a question for a model, a task for an agent, a
    wait, or values by name. Exactly one of them is set."""

    id: str
    tool: str | None = None
    run: tuple[str, ...] | None = None
    """The words of a configured program: its source, its command, and arguments in place of `params`. The
    tool is that of the first two."""
    ask: Question | None = None
    flow: FlowDefinition | None = None
    model: ModelPrompt | None = None
    agent: AgentTask | None = None
    wait: Wait | None = None
    transform: JsonObject | None = None
    """Values with templates by name, which are the output."""
    description: str = ""
    params: JsonObject = field(default_factory=dict[str, Any])
    """Arguments by name, with templates."""
    inputs: Mapping[str, str] = field(default_factory=dict[str, str])
    """By argument, the place in the shared store from which it is read (`node.key[0]`)."""
    outputs: Mapping[str, str] = field(default_factory=dict[str, str])
    """By natural key of the output, the shared key under which it is written instead."""
    retry: Retry = Retry()
    timeout: float | None = None
    batch: Batch | None = None
    loop: FlowLoop | None = None
    """Of a flow inside a flow."""
    cache: CacheRule | bool | None = None
    """True: as the flow says, or by the default rule; False: never; None: as the flow says."""
    fail_when: str | None = None
    """An expression over the output. If it is true, the node takes its `error` edge."""
    join: Join | None = None
    """The branches that it waits for. A node at which branches meet has one."""
    parse: Parse | None = None
    """The way in which other nodes see a text that a tool returns; None: as the tool's source says."""
    fingerprint: str | None = None
    """The fingerprint of the tool when the flow was saved."""
    approval: Approval | None = None

    @property
    def kinds(self) -> list[NodeKind]:
        """The kinds of node that it is: one, if it is right."""
        return [kind for kind in KINDS if getattr(self, kind) is not None]

    @property
    def says(self) -> str:
        """Its work in words: its tool, or the question and to whom."""
        return self.tool or says(
            self.kinds[0], str(next(iter(self.texts.values()), "for a webhook" if self.wait else ""))
        )

    @property
    def texts(self) -> Mapping[str, Any]:
        """The values with templates that are its kind's own, by their place in the document."""
        if self.tool is not None or self.flow is not None:
            return {}
        match self:
            case NodeDefinition(ask=Question(message=message)):
                return {"ask.message": message}
            case NodeDefinition(model=ModelPrompt(prompt=prompt, system=system)):
                return {"model.prompt": prompt, "model.system": system}
            case NodeDefinition(agent=AgentTask(task=task, instructions=instructions)):
                return {"agent.task": task, "agent.instructions": instructions}
            case NodeDefinition(wait=Wait(until=until, span=span, event=event)):
                values = {"wait.until": until, "wait.for": span, "wait.event": event}
                return {place: value for place, value in values.items() if value is not None}
            case _:
                return {}

    @property
    def answer_schema(self) -> JsonObject | None:
        """The schema of what a person, a model or an agent answers; None for others."""
        for asked in (self.ask, self.model, self.agent):
            if asked is not None:
                return asked.schema if asked.schema is not None else {"type": "string"}
        if self.wait is not None and (self.wait.event is not None or self.wait.webhook):
            return self.wait.schema or {}
        return {"type": "boolean"} if self.wait is not None else None


@quick_dataclass(frozen=True, slots=True)
class Edge:
    """Leads from one node to another, for one action. Several for one action begin branches that run at the
    same time."""

    source: str
    target: str
    action: str = DEFAULT_ACTION
    when: str | None = None
    """An expression, or `else`. Of the edges of an action the first is taken whose condition holds."""

    @property
    def way(self) -> str:
        """The action and the condition, in words."""
        return way_of(self.action, self.when)


@dataclass(frozen=True, slots=True)
class FlowOutput:
    """One named output of a flow: a template, and the schema of its value."""

    value: Any
    schema: JsonObject = field(default_factory=dict[str, Any])
    required: bool = True
    """False: it is left out where its template finds nothing, such as the output of a branch not taken."""


@dataclass(frozen=True, slots=True)
class FlowDefinition:
    """A whole flow: nodes, edges, inputs, outputs and settings."""

    nodes: tuple[NodeDefinition, ...]
    edges: tuple[Edge, ...] = ()
    name: str = ""
    description: str = ""
    inputs: Mapping[str, JsonObject] = field(default_factory=dict[str, JsonObject])
    """By name, the JSON Schema of each input. One without a `default` is required, unless it says
    `"required": false`."""
    params: JsonObject = field(default_factory=dict[str, Any])
    """Arguments for every node that does not set one of that name itself."""
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


def way_of(action: str, when: str | None) -> str:
    """Returns an action and a condition in words: `when total > 3`, `error else`."""
    if when is None:
        return action
    words = ELSE if when == ELSE else f"when {when}"
    return words if action == DEFAULT_ACTION else f"{action} {words}"
