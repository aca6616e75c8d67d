"""A node written by hand, offered as a tool: the keys that its docstring reads are arguments, those that
it writes are the result, and the result carries its action. So flows, people and models need not know
which kind a node is."""

from __future__ import annotations

import inspect
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from spindle.calls.failure import failure_of
from spindle.domain.call import Block, Result
from spindle.domain.json_schema import JsonObject, to_json
from spindle.domain.tool import Hints, ToolSpec
from spindle.errors import FlowError, SpindleError
from spindle.flows.flow import Flow
from spindle.flows.interface import Interface, Key
from spindle.flows.node_cache import is_flow_safe
from spindle.flows.node_docstring import of_docstring

if TYPE_CHECKING:
    from pathlib import Path

    from spindle.domain.call import Host
    from spindle.flows.node import BaseNode
    from spindle.ports.source import Note


def interface_of(kind: type[BaseNode], unread: Note | None = None) -> Interface:
    """Returns the interface that the class describes in its docstring."""
    name = str(vars(kind).get("name") or _snake(kind.__name__))
    return of_docstring(name, kind.__doc__, pure=is_flow_safe(kind), unread=unread)


def spec_of(kind: type[BaseNode], place: str, note: Note) -> ToolSpec:
    """Returns the tool that the class is offered as. Notes lines of its docstring that cannot be read."""
    interface = interface_of(
        kind,
        lambda line: note(f"{place}: the docstring of {kind.__name__} has a line that says no key: {line}"),
    )
    keys = {key.name: key for key in (*interface.reads, *interface.params)}
    schema: JsonObject = _object(keys.values())
    if not interface.reads and not interface.params:
        schema = {"type": "object", "properties": {}}  # it reads what it likes
    else:
        schema["additionalProperties"] = False
    return ToolSpec(
        interface.name,
        interface.description,
        schema,
        _object(interface.writes) if interface.writes else None,
        hints=Hints(read_only=True) if interface.pure else Hints(),
        place=place,
        pure=interface.pure,
        metadata={
            "node": {"params": [key.name for key in interface.params], "actions": dict(interface.actions)},
            "code": _digest_of(kind),
        },
    )


def _digest_of(kind: type[BaseNode]) -> str:
    """Returns a digest of the code, so that a changed node has another fingerprint and no cached result."""
    import hashlib

    try:
        return hashlib.sha256(inspect.getsource(kind).encode()).hexdigest()[:16]
    except (OSError, TypeError):
        return ""


def _object(keys: Any) -> JsonObject:
    found: list[Key] = list(keys)
    schema: JsonObject = {"type": "object", "properties": {key.name: key.schema for key in found}}
    required = [key.name for key in found if key.required]
    if required:
        schema["required"] = required
    return schema


async def call_node(kind: type[BaseNode], arguments: JsonObject, host: Host, root: Path) -> Result:
    """Runs one node of this class, with a shared store of its own. An exception becomes an error result, with
    its place in the workspace at `root`, as that of any Python tool does."""
    from spindle.flows.trace import Recording

    interface = interface_of(kind)
    try:
        node = kind()
    except TypeError as error:
        raise FlowError(f"{kind.__name__} cannot be created without arguments: {error}") from None
    node.id = interface.name
    params = {key.name for key in interface.params}
    defaults = {key.name: key.schema["default"] for key in interface.params if key.has_default}
    node.params = {**defaults, **{name: value for name, value in arguments.items() if name in params}}
    shared: JsonObject = {name: value for name, value in arguments.items() if name not in params}
    flow = Flow(node)
    before = dict(shared)
    try:
        action = await flow.run_async(shared, Recording(flow, host), host)
    except SpindleError:
        raise
    except Exception as error:  # noqa: BLE001 - whatever a user's node raises is its result
        said = Result.of_text(f"{type(error).__name__}: {error}", is_error=True)
        return replace(said, failure=failure_of(error, root))
    names = [key.name for key in interface.writes]
    changed = {key for key, value in shared.items() if key not in before or before[key] is not value}
    wrote = {key: shared[key] for key in (names or sorted(changed)) if key in shared}
    text = to_json(wrote, default=repr).decode()
    chosen = action if isinstance(action, str) else None
    return Result((Block("text", text=text),), structured=wrote, has_structured=True, action=chosen)


def _snake(name: str) -> str:
    import re

    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", name.removesuffix("Node") or name).lower()
