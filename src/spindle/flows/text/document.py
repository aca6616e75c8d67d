"""A flow's document, as JSON and YAML hold it, and the definition that it stands for.

`flow.schema.json` says what a document may contain, and documents are checked with it.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from functools import cache
from typing import TYPE_CHECKING, Any, Final, cast

from spindle.documents.bounds import MAX_DEPTH, too_deep
from spindle.documents.places import DocumentPath
from spindle.domain.json_schema import JsonObject, is_array, is_object, resolve_pointer, type_of
from spindle.errors import did_you_mean
from spindle.flows.definition import (
    DEFAULT_ACTION,
    SAID,
    AgentTask,
    Approval,
    Batch,
    CacheRule,
    Edge,
    FlowDefinition,
    FlowLoop,
    FlowOutput,
    Join,
    ModelPrompt,
    NodeDefinition,
    Question,
    Retry,
    Wait,
)
from spindle.flows.problems import NOWHERE, BrokenFlowError, Positions, Problem
from spindle.flows.program_words import as_word, tool_of
from spindle.flows.text import hints

if TYPE_CHECKING:
    from jsonschema_rs import ValidationError, Validator

VERSION: Final = 1
MAX_PROBLEMS: Final = 50
MAX_EXPLAINED_PARTS: Final = 10_000


def schema() -> JsonObject:
    """Returns the JSON Schema of a flow's document."""
    from importlib.resources import files

    return json.loads(files("spindle.flows.text").joinpath("flow.schema.json").read_text("utf-8"))


def from_document(document: Any, positions: Positions = NOWHERE, place: str = "") -> FlowDefinition:
    """Returns the definition that a document stands for. Raises BrokenFlowError as `check_document` does."""
    check_document(document, positions, place)
    return _flow(document)


def from_record(document: JsonObject) -> FlowDefinition:
    """Returns the definition of a document that `to_document` made, so that it need not be checked."""
    return _flow(document)


def check_document(document: Any, positions: Positions = NOWHERE, place: str = "") -> None:
    """Raises BrokenFlowError with every problem of a document."""
    found = [
        positions.problem("error", message, path, hint=hint, place=place)
        for path, message, hint in _problems(document)
    ]
    if not found:
        found = [
            positions.problem("error", message, path, hint=hint, place=place)
            for path, message, hint in _unknown_mappings(document, ())
        ]
    if found:
        raise BrokenFlowError(sorted(found, key=_line_of))


def _line_of(problem: Problem) -> int:
    return problem.line or 0


# --- what is wrong with a document


Finding = tuple[DocumentPath, str, str | None]


@cache
def _validator() -> Validator:
    import jsonschema_rs

    return jsonschema_rs.validator_for(schema(), offline=True)


def _problems(document: Any) -> Iterator[Finding]:
    if _is_plainly_right(document):
        return
    if (path := too_deep(document)) is not None:
        yield path, f"nested more than {MAX_DEPTH} levels deep", None
        return
    if not is_object(document):
        problem = f"a flow is an object with `nodes`, not {_article(type_of(document))}"
        yield (), problem, "such as `nodes: [{id: a, tool: NAME}]`"
        return
    yield from _half_characters(document, ())
    for count, error in enumerate(_errors(document)):
        if count == MAX_PROBLEMS:
            return
        yield from _finding(error)


def _is_plainly_right(document: Any) -> bool:
    """True for a document without a fault. It only says no, in a fraction of the time that an explanation
    takes."""
    import orjson

    try:
        orjson.dumps(document)  # which refuses half characters
    except TypeError:
        return False
    return too_deep(document) is None and _validator().is_valid(document)


def _errors(document: JsonObject) -> Iterator[ValidationError]:
    """Yields what is wrong; of a very large document the first thing only, since the library finds all of it
    before it tells any."""
    import jsonschema_rs

    parts, waiting = 0, list[Any]([document])
    while waiting and parts <= MAX_EXPLAINED_PARTS:
        node = waiting.pop()
        parts += len(node)
        inside: Iterable[Any] = node.values() if is_object(node) else node
        waiting += [item for item in inside if is_object(item) or is_array(item)]
    if parts <= MAX_EXPLAINED_PARTS:
        yield from _validator().iter_errors(document)
        return
    try:
        _validator().validate(document)
    except jsonschema_rs.ValidationError as error:
        yield error


def _finding(error: ValidationError) -> Iterator[Finding]:
    path: DocumentPath = tuple(error.instance_path)
    what = _shown(path)
    kind: Any = error.kind
    match kind.name:
        case "falseSchema":
            name = str(path[-1])
            yield path, f"{_shown(path[:-1])}: {_kind(error)} has no key {name!r}", hints.REFUSED.get(name)
        case "additionalProperties":
            known = list(_parent_schema(error).get("properties", {}))
            for name in kind.unexpected[:MAX_PROBLEMS]:
                hint = hints.of_key(path, name) or _meant(name, known)
                yield (*path, name), f"{what} has no key {name!r}", hint
        case "required":
            hint = hints.REQUIRED.get(str(kind.property))
            yield path, f"{what} needs {kind.property!r}", hint
        case "oneOf" | "oneOfNotValid" | "oneOfMultipleValid" if not is_object(error.instance):
            return  # of what type it must be is said already
        case "oneOf" | "oneOfNotValid" | "oneOfMultipleValid":
            if "wait" in error.schema_path:
                yield path, f"{what} needs exactly one of 'until', 'for', 'event', 'webhook'", None
                return
            given = [key for key in SAID if is_object(error.instance) and key in error.instance]
            problem = (
                f"has both {given[0]!r} and {given[1]!r}"
                if given
                else f"needs one of {', '.join(map(repr, SAID))}"
            )
            yield path, f"{what} {problem}", "a node is exactly one of them"
        case "type":
            wanted = " or ".join(_article(name) for name in _listed(_parent_schema(error).get("type")))
            hint = hints.of_shape(path)
            yield path, f"{what} must be {wanted}, not {_article(type_of(error.instance))}", hint
        case "enum":
            wanted = " or ".join(json.dumps(option) for option in kind.options)
            yield path, f"{what} must be {wanted}, not {_brief(error.instance)}", None
        case "const" | "constant":
            yield path, f"{what} must be {kind.expected_value}, not {_brief(error.instance)}", _newer(error)
        case "minimum" | "exclusiveMinimum" | "maximum":
            word = {"minimum": "at least", "exclusiveMinimum": "more than", "maximum": "at most"}[kind.name]
            yield path, f"{what} must be {word} {kind.limit:g}, not {_brief(error.instance)}", None
        case "pattern":
            yield path, f"{_brief(error.instance)} cannot be a name: {_PATTERN}", None
        case "propertyNames":
            yield path, f"{what}: {_brief(kind.error.instance)} cannot be a name: {_PATTERN}", None
        case "minItems" | "minLength" | "minProperties":
            yield path, f"{what} must not be empty", None
        case _:
            yield path, f"{what}: {error.message}", None


_PATTERN = "no spaces, dots, brackets, braces or quotes"
_KINDS = {
    "ask": "a question",
    "flow": "a flow inside a flow",
    "model": "a question to a model",
    "agent": "a task of an agent",
    "wait": "a wait",
    "transform": "a node of values",
    "run": "a program",
    "tool": "a tool",
}


def _kind(error: ValidationError) -> str:
    """Returns the kind of node whose part of the schema refuses a key."""
    return next((words for key, words in _KINDS.items() if key in error.schema_path), "this node")


def _newer(error: ValidationError) -> str | None:
    if tuple(error.instance_path) != ("version",):
        return None
    return (
        "a newer Spindle may read it"
        if type_of(error.instance) == "integer"
        else hints.of_shape(("version",))
    )


def _parent_schema(error: ValidationError) -> JsonObject:
    """Returns the schema with the keyword that failed, following references."""
    root = schema()
    node: Any = root
    for step in error.schema_path[:-1]:
        if is_object(node) and "$ref" in node and step not in node:
            node = resolve_pointer(root, node["$ref"])
        if step == "$ref" and is_object(node):
            node = resolve_pointer(root, node["$ref"])
        elif is_object(node):
            node = node.get(str(step), {})
        elif is_array(node):
            node = node[int(step)]
    return node if is_object(node) else {}


_WITHOUT_INPUTS = frozenset({"ask", "model", "agent", "wait", "transform"})


def _unknown_mappings(document: JsonObject, path: DocumentPath) -> Iterator[Finding]:
    """Yields mappings of unknown nodes, which a definition cannot hold, so that `check` could not find them;
    and of inputs of a node that has none."""
    nodes, mappings = document["nodes"], document.get("mappings", {})
    asks = {node["id"]: _KINDS[key] for node in nodes if mappings for key in _WITHOUT_INPUTS & node.keys()}
    for name, mapping in mappings.items():
        if name in asks and mapping.get("inputs"):
            message = f"{name!r} is {asks[name]}, which has no inputs to be mapped"
            yield (*path, "mappings", name, "inputs"), message, hints.REFUSED["params"]
    ids = [node["id"] for node in nodes] if mappings else []
    for name in mappings:
        if name not in ids:
            yield (
                (*path, "mappings", name),
                f"`mappings` names {name!r}, but there is no such node",
                (_meant(name, ids)),
            )
    for index, node in enumerate(document["nodes"]):
        if "flow" in node:
            yield from _unknown_mappings(node["flow"], (*path, "nodes", index, "flow"))


def _half_characters(value: Any, path: DocumentPath) -> Iterator[Finding]:
    if isinstance(value, str):
        try:
            value.encode()
        except UnicodeEncodeError:
            yield path, f"{_shown(path)} holds half a character, which is not Unicode text", None
    elif is_object(value):
        for key, item in value.items():
            yield from _half_characters(key, path)
            yield from _half_characters(item, (*path, key))
    elif is_array(value):
        for index, item in enumerate(value):
            yield from _half_characters(item, (*path, index))


def _shown(path: DocumentPath) -> str:
    if not path:
        return "the flow"
    text = "".join(f"[{step}]" if isinstance(step, int) else f".{step}" for step in path)
    return f"`{text.removeprefix('.')}`"


def _meant(name: str, known: list[str]) -> str | None:
    return did_you_mean(name, known, f"there are {', '.join(known)}" if known else None)


def _listed(value: Any) -> list[str]:
    return cast("list[str]", value) if is_array(value) else [str(value)]


def _article(name: str) -> str:
    return {"null": "null", "integer": "an integer", "object": "an object", "array": "a list"}.get(
        name, f"a {name}"
    )


def _brief(value: Any) -> str:
    text = json.dumps(value, ensure_ascii=False)
    return text if len(text) <= 60 else f"{text[:59]}…"


# --- from a document that is known to be right


def _flow(document: JsonObject) -> FlowDefinition:
    mappings: JsonObject = document.get("mappings", {})
    outputs = document.get("outputs")
    rule = document.get("cache", False)
    return FlowDefinition(
        nodes=tuple(_node(node, mappings.get(node["id"], {})) for node in document["nodes"]),
        edges=tuple(
            Edge(edge["from"], edge["to"], edge.get("action", DEFAULT_ACTION), edge.get("when"))
            for edge in document.get("edges", ())
        ),
        name=document.get("name", ""),
        description=document.get("description", ""),
        inputs=document.get("inputs", {}),
        params=document.get("params", {}),
        outputs={name: _output(value) for name, value in outputs.items()} if outputs is not None else None,
        start=document.get("start"),
        cache=(CacheRule(**rule) if is_object(rule) else CacheRule()) if rule is not False else None,
        on_unknown=document.get("on_unknown", "error"),
        max_visits=int(document.get("max_visits", 1000)),
    )


def _node(document: JsonObject, mapping: JsonObject) -> NodeDefinition:
    ask, rule, loop = document.get("ask"), document.get("cache"), document.get("loop")
    words = tuple(map(as_word, document["run"])) if "run" in document else None
    return NodeDefinition(
        id=document["id"],
        tool=tool_of(words) if words is not None else document.get("tool"),
        run=words,
        ask=Question(ask) if isinstance(ask, str) else Question(**ask) if ask is not None else None,
        flow=_flow(document["flow"]) if "flow" in document else None,
        model=_prompt(document.get("model")),
        agent=_task(document["agent"]) if "agent" in document else None,
        wait=_wait(document["wait"]) if "wait" in document else None,
        transform=document.get("transform"),
        description=document.get("description", ""),
        params=document.get("params", {}),
        inputs=mapping.get("inputs", {}),
        outputs=mapping.get("outputs", {}),
        retry=Retry(**_whole(document.get("retry", {}), "attempts")),
        timeout=document.get("timeout"),
        batch=Batch(**_whole(document["batch"], "concurrency")) if "batch" in document else None,
        loop=FlowLoop(loop.get("carry", {}), loop["while"], int(loop["limit"])) if loop else None,
        cache=CacheRule(**rule) if is_object(rule) else rule,
        fail_when=document.get("fail_when"),
        join=Join.of(document["join"]) if "join" in document else None,
        parse=document.get("parse"),
        fingerprint=document.get("fingerprint"),
        approval=_approval(document.get("approval")),
    )


def _prompt(given: Any) -> ModelPrompt | None:
    return (
        ModelPrompt(given) if isinstance(given, str) else ModelPrompt(**given) if given is not None else None
    )


def _approval(given: Any) -> Approval | None:
    if not is_object(given):
        return Approval() if given is not None else None
    return Approval(tuple(given.get("by", ())), given.get("message", ""))


def _wait(given: JsonObject) -> Wait:
    return Wait(**{"span" if key == "for" else key: value for key, value in given.items()})


def _task(given: JsonObject) -> AgentTask:
    fields = dict(given)
    for name in ("tools", "approve"):
        if name in fields:
            fields[name] = tuple(fields[name])
    return AgentTask(**fields)


def _whole(fields: JsonObject, name: str) -> JsonObject:
    """Converts 3.0 to 3, which JSON Schema accepts as an integer and Python does not."""
    return {**fields, name: int(fields[name])} if name in fields else fields


def _output(value: Any) -> FlowOutput:
    if not is_object(value):
        return FlowOutput(value)
    is_flag = isinstance(value.get("required"), bool)
    own = ("value", "required") if is_flag else ("value",)
    schema = {key: item for key, item in value.items() if key not in own}
    return FlowOutput(value["value"], schema, value["required"] if is_flag else True)
