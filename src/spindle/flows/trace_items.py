"""The items of batches in a trace: counted together where they are many, and one of them by its name."""

from __future__ import annotations

import re
import statistics
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from spindle.domain.json_schema import JsonObject, is_array

if TYPE_CHECKING:
    from spindle.flows.trace import NodeEvent

MANY = 20
"""Items of a batch that are shown one by one."""
NAMED = 5
"""Items that are named where they are counted: the first that failed, and the slowest."""
_INDEX = re.compile(r"\[([0-9]+)\]")
_ONE = re.compile(r"(.*)\[([0-9]+)\]")


@dataclass(slots=True)
class ItemGroup:
    """The visits of one node for all items of a batch."""

    name: str
    """`each[…]/look`"""
    visits: list[NodeEvent] = field(default_factory=list["NodeEvent"])

    @property
    def failures(self) -> list[NodeEvent]:
        """Those that failed, in the order of the items."""
        return sorted((visit for visit in self.visits if visit.error is not None), key=_place)

    @property
    def slowest(self) -> list[NodeEvent]:
        """Those that took longest, with the slowest first."""
        return sorted(self.visits, key=lambda visit: -visit.duration)[:NAMED]

    @property
    def began(self) -> float:
        return min(visit.started_at for visit in self.visits)

    @property
    def lasted(self) -> float:
        """The seconds from the beginning of the first to the end of the last."""
        return max(visit.started_at + visit.duration for visit in self.visits) - self.began

    @property
    def median(self) -> float:
        return statistics.median(visit.duration for visit in self.visits)


def group_name(node: str) -> str | None:
    """Returns the name that a node has for all items of its batches: `each[…]/look`; None outside of one."""
    found = _INDEX.sub("[…]", node)
    return found if found != node else None


def grouped(nodes: Sequence[NodeEvent]) -> list[NodeEvent | ItemGroup]:
    """Returns the visits, with those of many items of a batch together."""
    groups: dict[str, ItemGroup] = {}
    for node in nodes:
        if (name := group_name(node.node)) is not None:
            groups.setdefault(name, ItemGroup(name)).visits.append(node)
    found: list[NodeEvent | ItemGroup] = [
        node for node in nodes if len(groups[name].visits if (name := group_name(node.node)) else ()) <= MANY
    ]
    # Of a node that is done for each item, its own line says the same.
    told = {f"{node.node}[…]" for node in nodes if node.items is not None}
    many = (group for group in groups.values() if len(group.visits) > MANY and group.name not in told)
    return [*found, *many]


def item_named(name: str) -> tuple[str, int]:
    """Returns the node and the place of an item that is named as `each[17]`; -1 for what is no item."""
    one = _ONE.fullmatch(name)
    return (one[1], int(one[2])) if one is not None else (name, -1)


def chosen(nodes: Sequence[NodeEvent], name: str) -> list[NodeEvent]:
    """Returns the visits of one node, and of those inside it; of one item of a batch as `each[17]`."""
    found = [node for node in nodes if node.node.startswith(name) and node.node[len(name) :][:1] in "/[~@:"]
    one = _ONE.fullmatch(name)
    if found or one is None:
        return found
    # The note of the node holds its items.
    index = int(one[2])
    return [_item(node, index) for node in nodes if node.node == one[1] and _has(node, index)]


def _has(node: NodeEvent, index: int) -> bool:
    return is_array(node.inputs) and index < len(node.inputs)


def _item(node: NodeEvent, index: int) -> NodeEvent:
    facts: JsonObject = node.items or {}
    failures = {item["index"]: item for item in facts.get("first_failures", ())}
    durations = {item["index"]: item["duration"] for item in facts.get("slowest", ())}
    output: Any = node.output[index] if is_array(node.output) and index < len(node.output) else None
    return replace(
        node, node=f"{node.node}[{index}]", inputs=node.inputs[index], output=output, wrote=None, items=None,
        error=failures.get(index), duration=durations.get(index, 0.0), action=None,
    )  # fmt: skip


def _place(visit: NodeEvent) -> list[int]:
    return [int(index) for index in _INDEX.findall(visit.node)]
