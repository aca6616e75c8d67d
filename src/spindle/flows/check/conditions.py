"""Checks the conditions of edges: that they can be read, can be true, and leave nothing over."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from spindle.documents.places import DocumentPath
from spindle.domain.json_schema import is_array
from spindle.flows.check.availability import Level
from spindle.flows.check.lookups import Complaint, Sight
from spindle.flows.check.parts import Finding
from spindle.flows.check.types import condition_types
from spindle.flows.definition import ELSE, Edge
from spindle.flows.expressions.errors import ExpressionError
from spindle.flows.expressions.parsing import Expression, parse
from spindle.flows.expressions.paths import MISSING, Path, written_path
from spindle.flows.expressions.terms import Compared, Constant, Name, Negated, Term


def condition_findings(
    level: Level, id: str, sight: Callable[[bool], Sight], path: DocumentPath
) -> Iterator[Finding]:
    """Yields what is wrong with the conditions of one node's edges. `sight` gives what they see:
    when the node is done, or when it has failed."""
    groups: dict[str, list[tuple[DocumentPath, Edge]]] = {}
    for index, edge in level.graph.choices.get(id, ()):
        groups.setdefault(edge.action, []).append(((*path, "edges", index), edge))
    for action, edges in groups.items():
        if any(edge.when is not None for _, edge in edges):
            has_failed = action in level.shapes[id].failures
            yield from _group(level, id, edges, sight(has_failed))


def _group(level: Level, id: str, edges: list[tuple[DocumentPath, Edge]], sight: Sight) -> Iterator[Finding]:
    certain: str | None = None
    seen: list[tuple[str, Expression]] = []
    is_known = True
    for place, edge in edges:
        if edge.when is None:
            message = f"{id!r}: an edge without `when` stands beside edges with one"
            yield place, Complaint("error", message, "`when: else` is for all that is left")
            is_known = False
            continue
        place = (*place, "when")
        if certain is not None and edge.when != certain:
            message = f"{id!r}: this edge is never taken: `{certain}` before it always is"
            yield place, Complaint("error", message, "the first edge whose condition holds is taken")
            continue
        if edge.when == ELSE:
            certain = ELSE
            continue
        try:
            condition = parse(edge.when)
        except ExpressionError as error:
            yield place, Complaint("error", f"{id}: when: {error}", error.hint)
            is_known = False
            continue
        complaints = condition_types(condition, sight)
        for complaint in complaints:
            yield place, Complaint(complaint.severity, f"{id}: when: {complaint.message}", complaint.hint)
        always = _constant(condition)
        if always is not None:
            yield from _fixed(id, edge.when, always, place)
            certain = edge.when if always else certain
        elif not complaints:
            yield from _never(id, condition, sight, place)
        seen.append((edge.when, condition))
    if certain is None and is_known and level.definition.on_unknown == "error":
        left = _left_over([condition for _, condition in seen], sight)
        if left is not None:
            hint = 'add an edge with `when: else`, or let the flow end: "on_unknown": "end"'
            yield edges[-1][0], Complaint("warning", f"{id!r} has no edge {left}", hint)


def _constant(condition: Expression) -> bool | None:
    """Returns the value of a condition that depends on nothing."""
    if condition.reads or condition.uses_now:
        return None
    try:
        return bool(condition.value(lambda _: MISSING))
    except ExpressionError:
        return False


def _fixed(id: str, when: str, always: bool, place: DocumentPath) -> Iterator[Finding]:
    if always:
        yield place, Complaint("warning", f"{id!r}: `{when}` is always true", "write `when: else`")
    else:
        message = f"{id!r}: this edge is never taken: `{when}` is never true"
        yield place, Complaint("error", message, "name a value of the shared store")


def _never(id: str, condition: Expression, sight: Sight, place: DocumentPath) -> Iterator[Finding]:
    """Yields the complaint about a value that the schema does not allow."""
    found = _equality(condition.term)
    values = _values(found[0], sight) if found is not None else None
    if found is None or values is None or found[1] in values:
        return
    known = ", ".join(repr(value) for value in values)
    message = f"{id!r}: this edge is never taken: {written_path(found[0])} is one of {known}"
    yield place, Complaint("error", message, "take one of these values")


def _equality(term: Term) -> tuple[Path, Any] | None:
    """Returns the place and the value of a condition `place == value`; of a bare place, true."""
    match term:
        case Compared(Name(path), "==", Constant(value)) | Compared(Constant(value), "==", Name(path)):
            return path, value
        case _:
            return None


def _values(path: Path, sight: Sight) -> list[Any] | None:
    """Returns all values that a place can have, as far as its schema says so."""
    found: list[Any] = []
    for schema in sight.parts(path):
        values = schema.get("enum")
        if "const" in schema:
            values = [schema["const"]]
        elif schema.get("type") == "boolean":
            values = [True, False]
        if not is_array(values):
            return None
        found += [value for value in values if value not in found]
    return found or None


def _left_over(conditions: list[Expression], sight: Sight) -> str | None:
    """Returns for which values none of the conditions holds, in words; None if there are none."""
    terms = [condition.term for condition in conditions]
    if any(Negated(term) in terms for term in terms):
        return None
    places: dict[Path, list[Any]] = {}
    for term in terms:
        match term:
            case Name(path):
                places.setdefault(path, []).append(True)
            case Negated(Name(path)):
                places.setdefault(path, []).append(False)
            case _:
                equality = _equality(term)
                if equality is None:
                    return "for what none of its conditions holds for"
                places.setdefault(equality[0], []).append(equality[1])
    for path, covered in places.items():
        values = _values(path, sight)
        if values is not None and len(places) == 1:
            left = [value for value in values if value not in covered]
            listed = ", ".join(repr(value) for value in left)
            return f"for {written_path(path)} = {listed}" if left else None
    return "for what none of its conditions holds for"
