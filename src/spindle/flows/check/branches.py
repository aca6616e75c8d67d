"""Checks branches that run at the same time: that they meet, can arrive, and do not write the same keys."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from spindle.documents.places import DocumentPath
from spindle.flows.check.availability import Availability, BranchPoint, Level
from spindle.flows.check.graph import Graph
from spindle.flows.check.lookups import Complaint
from spindle.flows.check.parts import Finding
from spindle.flows.definition import FlowDefinition, Join
from spindle.flows.meeting import TangledError, Ways


def forks_of(definition: FlowDefinition, graph: Graph) -> tuple[list[BranchPoint], list[TangledError]]:
    """Returns the forks of a flow, and the mistakes of those whose branches do not come together."""
    nodes = {node.id: node for node in definition.nodes}
    ways = Ways[str](
        lambda id: list(graph.following(id).values()), lambda id: nodes[id].join is not None, repr
    )
    found: list[BranchPoint] = []
    tangled: list[TangledError] = []
    for id in graph.order:
        if len(graph.edges[id]) < 2:
            continue
        for action, targets in graph.following(id).items():
            if len(targets) < 2:
                continue
            try:
                meeting = ways.meeting(id, targets)
            except TangledError as error:
                if str(error) not in map(str, tangled):
                    tangled.append(error)
                continue
            join = nodes[meeting.join].join if meeting.join is not None else None
            found.append(BranchPoint(id, action, tuple(targets), meeting, join or Join()))
    return found, tangled


def is_tangled(level: Level) -> bool:
    """True if branches do not come together, in the flow or in one inside it: then nobody knows what they
    find."""
    return bool(level.tangled) or any(map(is_tangled, level.inner.values()))


def join_findings(
    level: Level, forks: list[BranchPoint], tangled: list[TangledError], path: DocumentPath
) -> Iterator[Finding]:
    """Yields what is wrong with the forks and joins of one flow."""
    places = {node.id: (*path, "nodes", index) for index, node in enumerate(level.definition.nodes)}
    for error in tangled:
        yield places[str(error.at)], Complaint("error", str(error), error.hint)
    met = {fork.meeting.join for fork in forks}
    for node in level.definition.nodes:
        if node.join is not None and node.id not in met and node.id in level.graph.order and not tangled:
            message = f"{node.id!r} says `join`, but no branches meet there"
            hint = "several edges of one node for the same action begin branches"
            yield (*places[node.id], "join"), Complaint("error", message, hint)
    for fork in forks:
        yield from _never_met(level, fork, places)


def _never_met(level: Level, fork: BranchPoint, places: Mapping[str, DocumentPath]) -> Iterator[Finding]:
    meeting, rule = fork.meeting, fork.rule
    if meeting.join is None:
        return
    join, count = meeting.join, sum(meeting.reaching)
    if rule.needed(len(fork.targets)) > count and rule.wait != "all":
        message = f"{join!r} waits for {rule.wait} branches, but only {count} of {fork.source!r} can reach it"
        yield (*places[join], "join"), Complaint("error", message, "wait for fewer, or begin more branches")
        return
    for target, reaches, region in zip(fork.targets, meeting.reaching, meeting.regions, strict=True):
        if not reaches:
            severity = "error" if rule.wait == "all" else "warning"
            message = f"the branch {target!r} of {fork.source!r} ends without reaching {join!r}"
            yield places[target], Complaint(severity, message, f"add an edge that leads to {join!r}")
            continue
        for id in sorted(region):
            if level.ends(id) and rule.wait == "all" and not _inside_fork(level, id):
                message = f"{id!r}, in a branch of {fork.source!r}, may end without reaching {join!r}"
                yield (
                    places[id],
                    Complaint("warning", message, f"let every way of the branch lead to {join!r}"),
                )


def _inside_fork(level: Level, id: str) -> bool:
    """True if the node's branch, which ends by itself, is one of a fork inside the branch."""
    return any(fork.meeting.join is None and id in fork.meeting.nodes for fork in level.forks)


def same_keys(
    level: Level, availability: Availability, readers: Mapping[str, list[tuple[str, str]]], path: DocumentPath
) -> Iterator[Finding]:
    """Yields keys of the shared store that several branches of a fork write."""
    places = {node.id: (*path, "nodes", index) for index, node in enumerate(level.definition.nodes)}
    for fork in level.forks:
        if fork.rule.wait == "any":
            continue  # only one of them counts
        branch_of = {
            level.prefix + id: number for number, region in enumerate(fork.meeting.regions) for id in region
        }
        for key, writers in availability.writers.items():
            own = [
                writer
                for writer in writers
                if writer.node in branch_of and not writer.has_failed and writer.id != key and "." not in key
            ]
            first = next(iter(own), None)
            other = next((one for one in own if first and branch_of[one.node] != branch_of[first.node]), None)
            if first is None or other is None:
                continue
            message = f"{key!r} is written by {first.id!r} and by {other.id!r}, in two branches"
            which = f"${{{first.id}.{key}}} and ${{{other.id}.{key}}} say which is meant"
            hint = f"{which}; `mappings` can rename one"
            found = None
            for reader, at in readers.get(key, []):
                state = availability.states.get(reader) or availability.ends[""]
                if state.may & first.bit and state.may & other.bit:
                    found = Complaint("error", f"{message}, and {at} reads it by that name", hint)
                    break
            if found is None and (first.is_declared or other.is_declared):
                text = f"{message}, so that only that of the last edge is found under that name"
                found = Complaint("warning", text, hint)
            if found is not None:
                yield places[other.id], found
    for index, node in enumerate(level.definition.nodes):
        if node.id in level.inner:
            inner = level.inner[node.id]
            yield from same_keys(inner, availability, readers, (*path, "nodes", index, "flow"))
