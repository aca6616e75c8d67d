"""Puts together again what the nodes of a recorded run have left in the shared store."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace

from spindle.domain.json_schema import JsonObject, is_object
from spindle.errors import FlowError
from spindle.flows.flow import Flow
from spindle.flows.interface import natural_key
from spindle.flows.shared import write_output
from spindle.flows.trace import ENDS, NodeEvent
from spindle.flows.workspace_node import WorkspaceNode


def replay(
    events: Iterable[NodeEvent],
    shared: JsonObject,
    flow: Flow,
    branch: str | None = None,
    *,
    to_go_on: bool = False,
) -> JsonObject:
    """Returns the shared store as these visits of the flow's nodes left it, as it is seen in this branch.
    Raises FlowError if the history has not kept what one of them gave; `to_go_on`: also where a secret is
    masked in it."""
    nodes = {node.id: node for node in flow.nodes() if node.id is not None}
    for event in _put_together(events, branch):
        if event.is_masked and to_go_on:
            raise FlowError(
                f"node {event.node!r} gave a secret, which the history does not keep",
                hint="run the flow from its start",
            )
        if event.wrote is not None:
            shared.update(event.wrote)
        node = nodes.get(event.node)
        if not isinstance(node, WorkspaceNode):
            continue
        if event.error is not None:
            shared[event.node], shared["error"] = {"error": event.error}, event.error
        elif is_object(event.output) and "$left_out" in event.output:
            raise FlowError(
                f"the output of node {event.node!r} was too large to be kept ({event.output['$left_out']})",
                hint="run the flow from its start",
            )
        else:
            natural = natural_key(node.definition.tool or event.node)
            write_output(shared, event.node, event.output, natural, node.definition.outputs, nodes)
            if event.usage is not None:
                shared[f"{event.node}.usage"] = event.usage
    return shared


def _put_together(events: Iterable[NodeEvent], branch: str | None) -> Iterator[NodeEvent]:
    """Yields visits in the order in which their results count: those of branches in the order of their edges,
    where they meet, and none of branches that did not arrive there."""
    waiting: dict[str, list[NodeEvent]] = {}
    for event in events:
        found = [event]
        if event.node.endswith(".branches") and is_object(event.output):
            base = "" if event.branch is None else f"{event.branch}/"
            ended = {name: waiting.pop(base + name, []) for end in ENDS for name in event.output.get(end, ())}
            arrived = [ended[name] for name in event.output.get("arrived", ())]
            found = [one for visits in arrived for one in visits]
            if "/" not in event.node:
                at = event.node.removesuffix(".branches")
                failed = event.output.get("failed", {})
                outputs = {
                    name: ended[name][-1].output if ended[name] else None
                    for name in event.output.get("arrived", ())
                }
                wrote: JsonObject = {
                    f"{at}.branches": {**outputs, **dict.fromkeys(failed)}, f"{at}.errors": failed
                }  # fmt: skip
                found.append(replace(event, wrote=wrote))
        if event.branch is None:
            yield from found
        else:
            waiting.setdefault(event.branch, []).extend(found)
    for name, visits in waiting.items():
        if branch is not None and f"{branch}/".startswith(f"{name}/"):
            yield from visits
