"""The secrets of a flow: inputs that are marked as secret, and `${secrets.NAME}` of the workspace."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, fields, is_dataclass
from itertools import chain
from typing import TYPE_CHECKING, Any, Final

from spindle.calls.known_secrets import KnownSecrets, known_secrets
from spindle.calls.record import clean_json, mentions_secrets, secrets_in
from spindle.domain.json_schema import JsonObject, is_array, is_object
from spindle.errors import NotFoundError
from spindle.flows.definition import ELSE
from spindle.flows.expressions.errors import ExpressionError
from spindle.flows.expressions.parsing import Read, parse
from spindle.flows.named_secrets import SECRETS
from spindle.flows.signature import input_schema
from spindle.flows.templates import references

if TYPE_CHECKING:
    from spindle.domain.call import Host
    from spindle.flows.definition import NodeDefinition
    from spindle.flows.flow import Flow
    from spindle.flows.node import BaseNode

_MIN_BY_NAME: Final = 8
"""Characters of a value that is looked for elsewhere only because of its input's name, as `token`."""
_MIN_DERIVED: Final = 6
"""Characters of a text that was made of a secret, and is one itself."""


async def secrets_of(flow: Flow, shared: Mapping[str, Any], host: Host) -> KnownSecrets:
    """Returns the secrets that a flow begins with. Raises NotFoundError or PermissionDeniedError where a
    template names one that it cannot have."""
    known = KnownSecrets(known_secrets.get())
    for name, value in secret_inputs(flow.inputs, shared):
        for index, text in enumerate(sorted(value)):
            known.add([text], f"input {name} {index}")
    for name, is_needed in _names(flow).items() if flow.mentions(SECRETS) else ():
        try:
            known.add_named(name, await host.secret(name))
        except NotFoundError:
            if is_needed:
                raise
    return known


def secret_inputs(inputs: Mapping[str, Any], given: Mapping[str, Any]) -> Iterator[tuple[str, set[str]]]:
    """Yields the inputs that hold secrets, each with the texts in it that are secret."""
    for name, schema in input_schema(dict(inputs))["properties"].items():
        if name not in given:
            continue
        found = secrets_in({name: given[name]}, {"type": "object", "properties": {name: schema}})
        if not mentions_secrets(schema):
            found = {text for text in found if len(text) >= _MIN_BY_NAME}
        if found:
            yield name, found


def without_secrets(inputs: Mapping[str, Any], given: JsonObject) -> JsonObject:
    """Returns what a flow was given as it may be shown."""
    hidden = {text for _, texts in secret_inputs(inputs, given) for text in texts}
    return clean_json(given, hidden) if hidden else given


def note_derived(value: Any, rendered: Any) -> None:
    """Takes note of texts that templates have made of secrets, in a form that is not known yet."""
    known = known_secrets.get()
    if known is None or not known.named:
        return
    if isinstance(value, str):
        is_long = isinstance(rendered, str) and len(rendered) >= _MIN_DERIVED
        if is_long and any(names_in(value)) and clean_json(rendered, known.values) == rendered:
            known.add([rendered])
    elif is_object(value) and is_object(rendered):
        for key, item in value.items():
            note_derived(item, rendered.get(key))
    elif is_array(value) and is_array(rendered):
        for item, made in zip(value, rendered, strict=False):
            note_derived(item, made)


def names_in(value: Any) -> Iterator[tuple[str, bool]]:
    """Yields the names of secrets that the templates in a value read, and whether they need them."""
    if is_dataclass(value) and not isinstance(value, type):
        value = asdict(value)
    try:
        yield from _named(references(value))
    except ExpressionError:
        return  # said where the value is needed


def _names(flow: Flow) -> dict[str, bool]:
    found: dict[str, bool] = {}
    templates = (one for value in _values(flow) for one in names_in(value))
    for name, is_needed in chain(templates, _named_in_conditions(flow)):
        found[name] = found.get(name, False) or is_needed
    return found


def _named_in_conditions(node: BaseNode) -> Iterator[tuple[str, bool]]:
    """Yields the names of secrets that the conditions of a flow or a node read: those of edges and loops, and
    `fail_when`."""
    definition: NodeDefinition | None = getattr(node, "definition", None)
    conditions = [when for _, when in node.edge_conditions.values()]
    if not hasattr(node, "nodes") and definition is not None:
        conditions += [definition.fail_when, definition.loop.repeat_while if definition.loop else None]
    for text in conditions:
        if text is not None and text != ELSE:
            try:
                yield from _named(parse(text).reads)
            except ExpressionError:
                continue  # said where it is needed
    inner = getattr(node, "inner", None)
    for one in [*(getattr(node, "nodes", tuple)()), *([inner] if inner is not None else [])]:
        yield from _named_in_conditions(one)


def _named(reads: Iterable[Read]) -> Iterator[tuple[str, bool]]:
    for read in reads:
        if read.path[0] == SECRETS and len(read.path) == 2:
            yield str(read.path[1]), not read.has_default


def _values(node: BaseNode) -> Iterator[Any]:
    """Yields all that may have templates in a flow or a node of it."""
    inner = getattr(node, "inner", None)
    definition: NodeDefinition | None = getattr(node, "definition", None)
    if hasattr(node, "nodes"):
        flow: Flow = node  # pyright: ignore[reportAssignmentType] - a flow is a node that has nodes
        yield flow.params
        for output in (flow.outputs or {}).values():
            yield getattr(output, "value", output)
        for one in flow.nodes():
            yield from _values(one)
        return
    if inner is not None:
        yield from _values(inner)
    if definition is not None:
        yield from (getattr(definition, field.name) for field in fields(definition) if field.name != "flow")
