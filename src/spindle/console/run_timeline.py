"""One run as a timeline: its nodes with their times, inputs and outputs, and two runs node by node."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from spindle.console.call_lines import shown_json
from spindle.console.differences import Pair, side_by_side
from spindle.console.rendering import seconds
from spindle.flows.standing import node_of
from spindle.flows.trace_items import ItemGroup, chosen, grouped

if TYPE_CHECKING:
    from spindle.domain.run import Run, RunEvent
    from spindle.flows.trace import NodeEvent

MOST: Final = 400
"""Lines of a timeline."""
MAX_LINES: Final = 400
EVENTS: Final = {
    "paused": "paused for a person", "resumed": "went on", "answered": "answered", "retried": "let go on",
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class TimeLine:
    """One line: a visit of a node, all items of a batch, or something that happened to the run."""

    name: str
    at: float
    """Seconds since the run began."""
    lasted: float
    left: float
    """Percent of the run's time before it, and that it took."""
    width: float
    colour: str
    word: str
    said: str = ""
    is_event: bool = False
    is_chosen: bool = False


@dataclass(frozen=True, slots=True)
class ChosenNode:
    """All that is known of one visit of a node."""

    name: str
    node: str
    """Its place in the flow, from which the flow can be run again; empty inside another."""
    tool: str | None
    word: str
    facts: Sequence[tuple[str, str]]
    inputs: str
    output: str
    wrote: str
    error: str
    hint: str


@dataclass(frozen=True, slots=True)
class Timeline:
    """The lines, and the node that was chosen."""

    lines: Sequence[TimeLine]
    more: int
    chosen: ChosenNode | None


def timeline(
    run: Run, took: float, nodes: Sequence[NodeEvent], history: Sequence[RunEvent], wanted: str | None
) -> Timeline:
    """Returns the timeline of a run; `wanted` names a node, or one visit of it."""
    whole = max([took, *(node.started_at + node.duration - run.created_at for node in nodes), 1e-6])

    def line(name: str, began: float, lasted: float, colour: str, word: str, said: str = "") -> TimeLine:
        at = max(began - run.created_at, 0.0)
        left = min(100 * at / whole, 99.0)
        width = max(min(100 * lasted / whole, 100 - left), 0.8)
        return TimeLine(name, at, lasted, left, width, colour, word, said, is_chosen=name == wanted)

    lines: list[TimeLine] = []
    for entry in grouped([node for node in nodes if not node.node.endswith(".branches")]):
        if isinstance(entry, ItemGroup):
            failed = len(entry.failures)
            said = f"{len(entry.visits)} items" + (f", {failed} failed" if failed else "")
            lines.append(line(entry.name, entry.began, entry.lasted, "bad" if failed else "good", said))
        else:
            colour = "bad" if entry.error is not None else "good"
            said = str((entry.error or {}).get("message", "")) or _remarks(entry)
            word = "failed" if entry.error is not None else "cached" if entry.cached else "done"
            lines.append(line(_name(entry), entry.started_at, entry.duration, colour, word, said))
    for event in history:
        if event.kind in EVENTS:
            at = max(event.at - run.created_at, 0.0)
            lines.append(TimeLine(EVENTS[event.kind], at, 0, min(100 * at / whole, 99), 0, "", "", "", True))
    lines.sort(key=lambda one: one.at)
    return Timeline(lines[:MOST], max(len(lines) - MOST, 0), _chosen(nodes, wanted) if wanted else None)


def _name(event: NodeEvent) -> str:
    return event.node if event.visit <= 1 else f"{event.node}:{event.visit}"


def _remarks(event: NodeEvent) -> str:
    found = [f"→ {event.action}"] if event.action and event.action != "default" else []
    found += [f"{event.attempts} attempts"] if event.attempts > 1 else []
    if event.items is not None:
        found.append(f"{event.items.get('total')} items")
    return ", ".join(found)


def _chosen(nodes: Sequence[NodeEvent], wanted: str) -> ChosenNode | None:
    exact = [event for event in nodes if _name(event) == wanted]
    found = exact or [event for event in nodes if node_of(event.node) == wanted] or chosen(nodes, wanted)
    if not found:
        return None
    event = found[-1]
    facts = {
        "Tool": event.tool or "",
        "Took": seconds(event.duration),
        "Attempts": str(event.attempts) if event.attempts > 1 else "",
        "Leads on by": event.action or "",
        "Branch": event.branch or "",
        "Items": f"{event.items.get('total')}, {event.items.get('failed', 0)} failed" if event.items else "",
        "Used": shown_json(event.usage, indent=None) if event.usage else "",
    }
    error = event.error or {}
    return ChosenNode(
        _name(event),
        node_of(event.node) if "/" not in event.node and "[" not in event.node else "",
        event.tool,
        "failed" if event.error is not None else "cached" if event.cached else "done",
        [(name, fact) for name, fact in facts.items() if fact],
        shown_json(event.inputs) if event.inputs is not None else "",
        shown_json(event.output) if event.output is not None else "",
        shown_json(event.wrote) if event.wrote is not None else "",
        str(error.get("message", "")) if event.error is not None else "",
        str(error.get("hint") or ""),
    )


@dataclass(frozen=True, slots=True)
class Comparison:
    """One value in two runs."""

    name: str
    one: str
    """Its end in the first run, in words."""
    other: str
    same: bool
    pairs: Sequence[Pair]

    @classmethod
    def of(cls, name: str, one: Any, other: Any, words: tuple[str, str] = ("", "")) -> Comparison:
        """Compares two values."""
        same = one == other
        pairs = [] if same else side_by_side(_lines(one), _lines(other))
        return cls(name, words[0], words[1], same, pairs)


def compared(one: Sequence[NodeEvent], other: Sequence[NodeEvent]) -> list[Comparison]:
    """Returns the nodes of two runs, in the order of the one that visited more of them, with what differs of
    their results."""
    left, right = ({_name(event): event for event in side} for side in (one, other))
    longer, shorter = (right, left) if len(right) > len(left) else (left, right)
    names = list(dict.fromkeys([*longer, *shorter]))[:MOST]
    return [
        Comparison.of(
            name,
            _end(left.get(name)),
            _end(right.get(name)),
            (_words(left.get(name)), _words(right.get(name))),
        )
        for name in names
        if not name.endswith(".branches")
    ]


def _end(event: NodeEvent | None) -> Any:
    if event is None:
        return None
    return {"inputs": event.inputs, "output": event.output, "error": (event.error or {}).get("message")}


def _words(event: NodeEvent | None) -> str:
    if event is None:
        return "not visited"
    return f"{'failed' if event.error is not None else 'done'} in {seconds(event.duration)}"


def _lines(value: Any) -> list[str]:
    return [] if value is None else [line[:500] for line in shown_json(value).splitlines()[:MAX_LINES]]
