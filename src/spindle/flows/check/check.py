"""Checks a flow without running it: its own structure, and its fit with the tools in the catalog."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection, Iterator, Mapping
from dataclasses import replace
from functools import cache, partial
from typing import Final

from spindle.documents.places import DocumentPath
from spindle.domain.tool import Tool
from spindle.errors import AuthorizationRequired, FlowError, SpindleError, StoreError, did_you_mean
from spindle.flows.check.availability import Availability, Level
from spindle.flows.check.branches import forks_of, is_tangled, join_findings, same_keys
from spindle.flows.check.data import DataCheck
from spindle.flows.check.graph import Graph
from spindle.flows.check.lookups import Complaint
from spindle.flows.check.parts import Finding, fail_when_findings
from spindle.flows.check.shapes import Shape, shape_of, shape_of_flow, with_approval
from spindle.flows.definition import DEFAULT_ACTION, KINDS, FlowDefinition, NodeDefinition
from spindle.flows.problems import NOWHERE, Positions, Problem
from spindle.flows.program_words import find_tool, spread
from spindle.remedies import Remedy, Surface

MAX_PROBLEMS: Final = 500

Find = Callable[[str], Awaitable[Tool]]


async def check(
    definition: FlowDefinition,
    find: Find,
    positions: Positions = NOWHERE,
    place: str = "",
    *,
    surface: Surface = "shell",
    given: Collection[str] = (),
) -> list[Problem]:
    """Returns all problems of a flow, in the order of the lines. What certainly fails is an error; what
    may fail, or has no effect, is a warning. Hints are in the words of `surface`. `given`: names that the
    shared store has when the flow begins, declared or not."""
    tools: dict[str, Tool] = {}
    found: list[Finding] = []
    for path, node, here in _tool_nodes(definition, (), ""):
        try:
            tool = tools[here] = await find_tool(node, find)
        except StoreError:
            raise  # nothing is known of the flow
        except SpindleError as error:
            complaint = Complaint("error", f"{node.id}: {error.message}", error.hint_for(surface))
            found.append(((*path, "run" if node.run is not None else "tool"), complaint))
            continue
        except AuthorizationRequired as asked:
            message = f"{node.id}: {node.tool} is not known before you give {asked.source} your consent"
            hint = Remedy("login", asked.source or "").words(surface)
            found.append(((*path, "tool"), Complaint("warning", message, hint)))
            continue
        if node.fingerprint is not None and node.fingerprint != tool.fingerprint:
            message = f"{node.id}: {tool.name} has changed since the flow was saved"
            hint = Remedy("changed_tool", tool.name).words(surface)
            found.append(((*path, "fingerprint"), Complaint("warning", message, hint)))
    spoken = _spread(definition, tools, (), "", found)
    found += _findings(spoken, tools, given)
    problems = {
        (path, complaint): positions.problem(
            complaint.severity, complaint.message, path, hint=complaint.hint, place=place
        )
        for path, complaint in found
    }
    return sorted(dict.fromkeys(problems.values()), key=_order)[:MAX_PROBLEMS]


def _order(problem: Problem) -> tuple[int, int]:
    return problem.line or 0, problem.column or 0


def _tool_nodes(
    definition: FlowDefinition, path: DocumentPath, prefix: str
) -> Iterator[tuple[DocumentPath, NodeDefinition, str]]:
    for index, node in enumerate(definition.nodes):
        here = (*path, "nodes", index)
        if node.tool is not None:
            yield here, node, prefix + node.id
        if node.flow is not None:
            yield from _tool_nodes(node.flow, (*here, "flow"), f"{prefix}{node.id}/")


def _spread(
    definition: FlowDefinition,
    tools: dict[str, Tool],
    path: DocumentPath,
    prefix: str,
    found: list[Finding],
) -> FlowDefinition:
    """Returns the flow with the tools that its nodes with `run` stand for. What is wrong with their words is
    added to what was found."""
    nodes: list[NodeDefinition] = []
    for index, node in enumerate(definition.nodes):
        here = (*path, "nodes", index)
        tool = tools.get(prefix + node.id)
        if node.flow is not None:
            inner = _spread(node.flow, tools, (*here, "flow"), f"{prefix}{node.id}/", found)
            node = replace(node, flow=inner) if inner is not node.flow else node
        elif node.run is not None and tool is not None:
            try:
                node = spread(node, tool)
            except FlowError as error:
                found.append(((*here, "run"), Complaint("error", error.message, error.hint)))
                del tools[prefix + node.id]
        nodes.append(node)
    changed = any(one is not other for one, other in zip(nodes, definition.nodes, strict=True))
    return replace(definition, nodes=tuple(nodes)) if changed else definition


def _findings(
    definition: FlowDefinition, tools: Mapping[str, Tool], given: Collection[str]
) -> Iterator[Finding]:
    broken = list(_structure(definition, ()))
    yield from broken
    level = _level(definition, tools, "")
    yield from _ways(level, ())
    if not broken and not is_tangled(level):
        data = DataCheck(Availability(level), tools)
        yield from data.findings(level, given)
        yield from same_keys(level, data.availability, data.readers, ())


def _level(definition: FlowDefinition, tools: Mapping[str, Tool], prefix: str) -> Level:
    graph = Graph(definition)
    ids = frozenset(graph.ids)
    shapes: dict[str, Shape] = {}
    inner: dict[str, Level] = {}
    for node in definition.nodes:
        if node.flow is not None:
            below = inner[node.id] = _level(node.flow, tools, f"{prefix}{node.id}/")
            shapes[node.id] = shape_of_flow(node, _endings(below), ids)
        else:
            shapes[node.id] = shape_of(node, tools.get(prefix + node.id), ids)
        if node.approval is not None:
            shapes[node.id] = with_approval(shapes[node.id])
    forks, tangled = forks_of(definition, graph)
    level = Level(definition, graph, shapes, prefix, inner, forks=forks, tangled=tangled)
    level.ends = cache(partial(_can_be_last, level))
    return level


def _can_be_last(level: Level, id: str) -> bool:
    return bool(_last_actions(level, id))


def _last_actions(level: Level, id: str) -> set[str]:
    """Returns the actions with which this node can be the last of its flow."""
    edges, shape = level.graph.actions(id), level.shapes[id]
    own = set(shape.actions) - shape.failures
    if level.definition.on_unknown == "end":
        edges -= level.graph.open_actions(id)
    if not edges or level.definition.on_unknown == "end":
        return own - edges
    return {DEFAULT_ACTION} & own - edges


def _endings(level: Level) -> dict[str, str]:
    return {action: "" for id in level.graph.order for action in sorted(_last_actions(level, id))}


# --- how it hangs together


def _structure(definition: FlowDefinition, path: DocumentPath) -> Iterator[Finding]:
    ids: dict[str, int] = {}
    for index, node in enumerate(definition.nodes):
        if node.id in ids:
            message = f"two nodes have the id {node.id!r}"
            yield (*path, "nodes", index), Complaint("error", message, "give each node an id of its own")
        ids.setdefault(node.id, index)
        if node.flow is not None:
            yield from _structure(node.flow, (*path, "nodes", index, "flow"))
        if len(node.kinds) != 1:
            message = f"{node.id}: a node is exactly one of {', '.join(KINDS)}"
            yield (*path, "nodes", index), Complaint("error", message)
    if not definition.nodes:
        yield path, Complaint("error", "the flow has no nodes")
        return
    if definition.start_id not in ids:
        message = f"the flow should start at {definition.start_id!r}, but there is no such node"
        yield (*path, "start"), Complaint("error", message, _meant(definition.start_id, ids))
    seen: set[tuple[str, str, str]] = set()
    for index, edge in enumerate(definition.edges):
        here = (*path, "edges", index)
        for key, end in (("from", edge.source), ("to", edge.target)):
            if end not in ids:
                message = f"an edge names {end!r}, but there is no such node"
                yield (*here, key), Complaint("error", message, _meant(end, ids))
        if (edge.source, edge.way, edge.target) in seen:
            message = f"two edges lead from {edge.source!r} to {edge.target!r} for {edge.way!r}"
            yield here, Complaint("error", message, "leave one out")
        seen.add((edge.source, edge.way, edge.target))


def _ways(level: Level, path: DocumentPath) -> Iterator[Finding]:
    definition, graph = level.definition, level.graph
    yield from _unknown_actions(level, path)
    yield from join_findings(level, level.forks, level.tangled, path)
    place = {node.id: (*path, "nodes", index) for index, node in reversed(list(enumerate(definition.nodes)))}
    for node in definition.nodes:
        here = place[node.id]
        if graph.order and node.id not in graph.order:
            message = f"{node.id!r} is never reached from {definition.start_id!r}"
            yield here, Complaint("warning", message, "add an edge that leads to it, or remove it")
        if node.id in level.inner:
            yield from _ways(level.inner[node.id], (*here, "flow"))
        yield from fail_when_findings(node, level.shapes[node.id], here)
    # Of a flow inside that never ends, it is said there.
    for circle in graph.endless(lambda id: level.ends(id) or not level.shapes[id].can_end):
        shown = circle if len(circle) <= 8 else [*circle[:4], "…", *circle[-3:]]
        message = f"there is no way out of the loop {' → '.join([*shown, circle[0]])}"
        hint = "add an edge out of it for an action, or remove a `default` edge"
        yield place[circle[0]], Complaint("error", message, hint)


def _unknown_actions(level: Level, path: DocumentPath) -> Iterator[Finding]:
    for index, edge in enumerate(level.definition.edges):
        shape = level.shapes.get(edge.source)
        if shape is None or edge.action in shape.actions:
            continue
        known = f"there are {', '.join(shape.actions)}" if shape.can_end else "it never ends"
        yield (
            (*path, "edges", index),
            Complaint(
                "error",
                f"{edge.source!r} never chooses the action {edge.action!r}",
                did_you_mean(edge.action, shape.actions, known),
            ),
        )
    if level.definition.on_unknown == "end":
        return
    for index, node in enumerate(level.definition.nodes):
        shape, edges = level.shapes[node.id], level.graph.actions(node.id)
        left = set(shape.actions) - shape.failures - edges - {DEFAULT_ACTION}
        if edges and left:
            message = f"{node.id!r} may choose {_listed(left)}, but has no edge for it"
            hint = 'add an edge, or let the flow end: "on_unknown": "end"'
            yield (*path, "nodes", index), Complaint("warning", message, hint)


def _meant(name: str, ids: Mapping[str, int]) -> str:
    return did_you_mean(name, ids, f"there are {', '.join(list(ids)[:10])}")


def _listed(names: set[str]) -> str:
    return " or ".join(repr(name) for name in sorted(names))
