"""A flow in one line: `github.search_code --query TODO >> summarize >> slack.send --channel dev`.

Flags are typed by each tool's schema. `${prev}` is the output of the node just before, which the definition
then names by its id; `${stdin}` is what is piped in. If exactly one required input has no flag, and no node
before writes a key of its name, it is bound to the output of the node just before.
"""

from __future__ import annotations

import json
import re
from collections import deque
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import Any, Final

from spindle.calls.flags import Flags, load_object
from spindle.documents.bounds import MAX_DEPTH, too_deep
from spindle.documents.places import DocumentPath, Lines, TextMark
from spindle.domain.json_schema import JsonObject, Parameter, is_array, is_object, parameters, types_of
from spindle.domain.tool import Tool
from spindle.errors import InvalidArgumentsError, NotFoundError, SpindleError
from spindle.flows import templates
from spindle.flows.definition import DEFAULT_ACTION, Edge, FlowDefinition, NodeDefinition
from spindle.flows.expressions.errors import ExpressionError
from spindle.flows.expressions.parsing import Read
from spindle.flows.expressions.paths import written_path
from spindle.flows.interface import is_wrapped, natural_key, natural_outputs
from spindle.flows.problems import BrokenFlowError, Positions, Problem
from spindle.flows.text.files import Loaded
from spindle.flows.text.known_steps import as_flow, step
from spindle.flows.text.pipe_words import PipeError, PipeWord, quote, split

Find = Callable[[str], Awaitable[Tool]]
"""Returns the tool of a name. Raises NotFoundError, with a suggestion."""

STDIN: Final = "stdin"
PREVIOUS: Final = "prev"


async def read_pipe(text: str, find: Find, place: str = "") -> Loaded:
    """Reads a line of tools. Raises BrokenFlowError with every mistake, each with its line and column."""
    lines = Lines(text)
    problems: list[Problem] = []

    def report(problem: str, offset: int, hint: str | None) -> None:
        mark = lines.mark(offset)
        problems.append(Problem("error", problem, hint, place, mark.line, mark.column))

    try:
        segments = split(text)
    except PipeError as error:
        report(error.problem, error.offset, error.hint)
        raise BrokenFlowError(problems) from None
    pipe = _Pipe(report)
    for words in segments:
        try:
            tool = await find(words[0].text)
        except SpindleError as error:
            known = step(words[0].text) if isinstance(error, NotFoundError) else None
            if known is not None:
                pipe.add(known, words, is_step=True)
                continue
            report(error.message, words[0].offset, _name_hint(words[0].text) or error.hint_for("shell"))
            pipe.skip(words[0].text)
        else:
            pipe.add(tool, words)
    if problems:
        raise BrokenFlowError(problems)
    marks = {path: lines.mark(offset) for path, offset in pipe.offsets.items()}
    return Loaded(pipe.definition(), _positions(marks), place)


def _positions(marks: dict[DocumentPath, TextMark]) -> Positions:
    return Positions(lambda: marks, with_columns=True)


def _name_hint(word: str) -> str | None:
    if word.startswith("-"):
        return "after `>>` comes a tool's name, then its flags"
    return "put `>>` in quotes where it is text" if re.search(r"[^\w.\-/:]", word) else None


# --- one node after the other


@dataclass(slots=True)
class _Pipe:
    report: Callable[[str, int, str | None], None]
    offsets: dict[DocumentPath, int] = field(default_factory=lambda: {(): 0})
    _nodes: list[NodeDefinition] = field(default_factory=list[NodeDefinition])
    _tools: list[Tool | None] = field(default_factory=list["Tool | None"])
    _written: set[str] = field(default_factory=set[str])
    _inputs: dict[str, JsonObject] = field(default_factory=dict[str, JsonObject])
    _is_broken: bool = False

    def definition(self) -> FlowDefinition:
        ids = [node.id for node in self._nodes]
        edges = tuple(Edge(one, other) for one, other in pairwise(ids))
        return FlowDefinition(tuple(self._nodes), edges, inputs=self._inputs)

    def skip(self, name: str) -> None:
        """Adds a node of an unknown tool, so that messages about later nodes stay right."""
        self._nodes.append(NodeDefinition(self._new_id(name), tool=name))
        self._tools.append(None)
        self._is_broken = True

    def add(self, tool: Tool, words: list[PipeWord], *, is_step: bool = False) -> None:
        index, offset = len(self._nodes), words[0].offset
        self.offsets["nodes", index] = offset
        params: JsonObject = {}
        flags = Flags(tool.name, tool.input_schema, templates.is_template)
        self._read(tool, flags, words[1:], params, index)
        before = self._nodes[-1].id if self._nodes else None
        for name in [name for name, value in params.items() if too_deep(value) is not None]:
            place = self.offsets["nodes", index, "params", name]
            self.report(f"--{name}: nested more than {MAX_DEPTH} levels deep", place, None)
            params[name] = None
        params = {name: self._told(value, before, index, name) for name, value in params.items()}
        self._bind(tool, list(flags.known.values()), params, offset)
        self._declare_stdin(flags.known, params)
        node = NodeDefinition(self._new_id(tool.name), tool=tool.name, params=params)
        self._nodes.append(as_flow(node) if is_step else node)
        self._tools.append(tool)
        self._written |= {self._nodes[-1].id, *(key.name for key in natural_outputs(tool))}

    def _new_id(self, tool: str) -> str:
        base = _NOT_IN_NAMES.sub("_", natural_key(tool)) or "node"
        taken = {STDIN, PREVIOUS, *(node.id for node in self._nodes)}
        candidates = (base, *(f"{base}_{number}" for number in range(2, len(taken) + 3)))
        return next(name for name in candidates if name not in taken)

    # --- flags

    def _read(self, tool: Tool, flags: Flags, words: list[PipeWord], params: JsonObject, index: int) -> None:
        offsets: dict[str, int] = {}
        waiting = deque(word.text for word in words)
        while waiting:
            word = words[len(words) - len(waiting)]
            text = waiting.popleft()
            try:
                if text.startswith("--") and len(text) > 2:
                    offsets.setdefault(flags.take(text[2:], waiting), word.offset)
                elif text.lstrip().startswith("{"):
                    found = load_object(text, "the argument")
                    params.update(found)
                    self._note(index, dict.fromkeys(found, word.offset))
                else:
                    self._refuse_word(tool, flags, word)
            except InvalidArgumentsError as error:
                self.report(error.message, word.offset, error.hint_for("shell"))
                return
        for name, offset in offsets.items():
            try:
                params[name] = flags.value(name)
            except InvalidArgumentsError as error:
                self.report(error.message, offset, error.hint_for("shell"))
        self._note(index, offsets)

    def _note(self, index: int, offsets: dict[str, int]) -> None:
        self.offsets |= {("nodes", index, "params", name): offset for name, offset in offsets.items()}

    def _refuse_word(self, tool: Tool, flags: Flags, word: PipeWord) -> None:
        wanted = [name for name, item in flags.known.items() if item.required] or list(flags.known)
        hint = f"perhaps --{wanted[0]}={quote(word.text)}" if wanted else f"{tool.name} takes no arguments"
        self.report(f"{word.text!r} is neither a flag nor a JSON object", word.offset, hint)

    # --- templates

    def _told(self, value: Any, before: str | None, index: int, name: str) -> Any:
        """Replaces `${prev}` by the id of the node before."""
        if is_object(value):
            return {key: self._told(item, before, index, name) for key, item in value.items()}
        if is_array(value):
            return [self._told(item, before, index, name) for item in value]
        if not isinstance(value, str) or "${" not in value:
            return value
        offset = self.offsets.get(("nodes", index, "params", name), 0)
        try:
            reads = list(templates.references(value))
        except ExpressionError as error:
            self.report(f"--{name}: {error}", offset, error.hint)
            return value
        if before is None and any(read.path[0] == PREVIOUS for read in reads):
            self.report(
                "${prev} has no value: this is the first node", offset, "${stdin} is what is piped in"
            )
            return value
        return value if before is None else templates.renamed(value, PREVIOUS, before)

    def _declare_stdin(self, known: dict[str, Parameter], params: JsonObject) -> None:
        for name, value in params.items():
            spoken = [reference for reference in _references(value) if reference.path[0] == STDIN]
            if spoken:
                schema: JsonObject = {}
                if value == f"${{{STDIN}}}" and name in known and known[name].types:
                    types = sorted(known[name].types)
                    schema["type"] = types[0] if len(types) == 1 else types
                # Needed as soon as one of those who speak of it has no default.
                optional: JsonObject = {"required": False} if all(one.has_default for one in spoken) else {}
                declared = {**schema, "description": "what is piped in", **optional}
                if not optional:
                    self._inputs.get(STDIN, {}).pop("required", None)
                self._inputs.setdefault(STDIN, declared)

    # --- what a node is not given

    def _bind(self, tool: Tool, inputs: list[Parameter], params: JsonObject, offset: int) -> None:
        if self._is_broken:
            return
        missing = [
            item
            for item in inputs
            if item.required and item.name not in params and item.name not in self._written
        ]
        if len(missing) == 1:
            bound = self._binding(tool, missing[0], offset)
            if bound is not None:
                params[missing[0].name] = bound
        elif missing:
            names = _listed([f"`{item.name}`" for item in missing])
            source = f"${{{PREVIOUS}.key}}" if self._nodes else f"${{{STDIN}}}"
            flags = f"--{missing[0].name}='{source}' --{missing[1].name}=VALUE"
            self.report(f"{tool.name} needs {names}, and nothing provides them", offset, f"such as {flags}")

    def _binding(self, tool: Tool, item: Parameter, offset: int) -> str | None:
        if not self._nodes:
            return f"${{{STDIN}}}"
        before = self._tools[-1]
        assert before is not None  # or the pipe is broken
        node, keys = self._nodes[-1].id, natural_outputs(before)
        if not _has_keys(before):
            return f"${{{node}}}"
        if len(keys) == 1:
            return f"${{{written_path((node, keys[0].name))}}}"
        if not item.types or "object" in item.types:
            return f"${{{node}}}"
        fitting = [key for key in keys if not item.types or types_of(key.schema, key.schema) & item.types]
        example = written_path((PREVIOUS, (fitting or keys)[0].name))
        returned = _listed([key.name for key in keys])
        self.report(
            f"{tool.name} needs `{item.name}`, but {before.name} returns {returned}",
            offset,
            f"say which: --{item.name}='${{{example}}}'",
        )
        return None


_NOT_IN_NAMES = re.compile(r"[\s.\[\]{}$?\"'`+*/%<>=!(),|&]+")


def _references(value: Any) -> Iterator[Read]:
    try:
        yield from templates.references(value)
    except ExpressionError:
        return  # reported already


def _has_keys(tool: Tool) -> bool:
    """True if the tool returns an object whose keys are known."""
    schema = tool.output_schema
    return schema is not None and not is_wrapped(schema) and bool(parameters(schema))


def _listed(names: list[str]) -> str:
    return " and ".join([", ".join(names[:-1]), names[-1]] if len(names) > 1 else names)


# --- back to text


async def to_pipe(definition: FlowDefinition, find: Find) -> str | None:
    """Returns the text from which `read_pipe` makes the same flow, or None if there is none."""
    segments: list[str] = []
    for node in definition.nodes:
        if node.tool is None:
            return None
        try:
            tool = await find(node.tool)
        except SpindleError:
            return None
        words = [quote(tool.name), *(_flag(tool, name, value) for name, value in node.params.items())]
        segments.append(" ".join(words))
    text = " >> ".join(segments)
    try:
        made = (await read_pipe(text, find)).definition
    except BrokenFlowError:
        return None
    return text if made == _bare(definition) else None


def _bare(definition: FlowDefinition) -> FlowDefinition:
    """Removes everything that a line of tools cannot say and that does not change how the flow runs."""
    nodes = tuple(replace(node, fingerprint=None, description="") for node in definition.nodes)
    start = None if definition.start_id == definition.nodes[0].id else definition.start
    edges = tuple(sorted(definition.edges, key=lambda edge: _place(definition, edge)))
    return replace(definition, nodes=nodes, edges=edges, name="", description="", start=start)


def _place(definition: FlowDefinition, edge: Edge) -> tuple[int, bool]:
    ids = [node.id for node in definition.nodes]
    return ids.index(edge.source) if edge.source in ids else -1, edge.action != DEFAULT_ACTION


def _flag(tool: Tool, name: str, value: Any) -> str:
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    if isinstance(value, str) and not templates.is_template(value):
        flags = Flags(tool.name, tool.input_schema, templates.is_template)
        try:
            flags.take(f"{name}={value}", deque())
            is_same = flags.arguments() == {name: value}
        except InvalidArgumentsError:
            is_same = True  # no way of writing it would help
        text = value if is_same else json.dumps(value, ensure_ascii=False)
    return f"--{quote(name)}={quote(text)}"
