"""`spindle trace RUN`: shows one run, node by node."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import click

from spindle.cli.completion import complete_run
from spindle.cli.context import CliContext, command
from spindle.cli.output import plural
from spindle.flows.trace_items import MANY, NAMED, ItemGroup, chosen, group_name, grouped, item_named

if TYPE_CHECKING:
    from spindle.app import Spindle
    from spindle.domain.json_schema import JsonObject
    from spindle.domain.run import Run, RunEvent
    from spindle.flows.trace import NodeEvent
    from spindle.runs.outcomes import OpenPause

BAR = 24
SHOWN = 160
"""Characters of a value that are shown without --full."""
_OF_STEPS = frozenset({"note", "step", "begun", "stopped"})
"""Events that `nodes` and the steps tell of."""


@command("trace")
@click.argument("run", metavar="[RUN]", default="last", shell_complete=complete_run)
@click.option("--full", is_flag=True, help="Show whole values.")
@click.option("--node", metavar="NAME", help="Show this node alone; an item of a batch as 'each[17]'.")
async def trace(cli: CliContext, run: str, full: bool, node: str | None) -> None:
    """Show one run node by node: times, inputs and outputs, attempts, cached answers, errors.

    RUN is an id or the beginning of one; without it, the last run. The items of a large batch are counted
    together, with the first failures and the slowest; --node shows one of them.
    """
    from spindle.cli.run_names import find_run

    async with cli.open() as app:
        found = await find_run(app, run)
        if found.kind == "agent":
            from spindle.cli.agent_view import print_record

            print_record(cli.output, await app.agents.record(found.id), full=full)
            return
        found, given, nodes = await app.flows.trace(found.id)
        history = await app.store.history(found.id)
        waiting = await app.pauses(run=found.id)
        decisions = await app.runner.decisions(found.id)
        spread = await _spread_items(app, nodes, node) if node is not None else []
    if node is not None:
        nodes = spread or _of_one(nodes, node)
    if cli.output.as_json:
        cli.output.json({**_as_dict(found, given, nodes, history, waiting), "approvals": decisions})
    else:
        _Printing(cli, found, full=full).all(given, nodes, history, waiting)
        for one in decisions:
            verb = "confirmed as done" if "done" in one else "approved" if one["approved"] else "refused"
            cli.output.line(f"- {one['tool'] or 'a question'} {verb} by {one['by']}")


def _as_dict(
    run: Run,
    given: JsonObject,
    nodes: Sequence[NodeEvent],
    history: Sequence[RunEvent],
    waiting: Sequence[OpenPause],
) -> JsonObject:
    from spindle.cli.runs import took

    return {
        **run.to_dict(),
        "duration": took(run),
        "inputs": given.get("inputs", given.get("arguments")),
        "params": given.get("params"),
        "nodes": [node.to_dict() for node in nodes],
        "events": [{"kind": event.kind, "at": event.at} for event in history if event.kind not in _OF_STEPS],
        "pauses": [pause.to_dict() for pause in waiting],
    }


class _Printing:
    def __init__(self, cli: CliContext, run: Run, *, full: bool) -> None:
        from spindle.cli.node_progress import is_unicode
        from spindle.cli.runs import took

        self._output = cli.output
        self._run = run
        self._full = full
        self._took = took(run)
        self._is_unicode = is_unicode(sys.stdout)

    def all(
        self,
        given: JsonObject,
        nodes: Sequence[NodeEvent],
        history: Sequence[RunEvent],
        waiting: Sequence[OpenPause],
    ) -> None:
        self._heading(given)
        shown = grouped(nodes)
        width = max((len(_label(node)) for node in shown), default=0)
        entries: list[tuple[float, Any]] = [(_began(node), node) for node in shown]
        entries += [(event.at, event) for event in history if event.kind in ("paused", "resumed", "answered")]
        entries += [(event.at, event) for event in history if event.kind == "step" and not nodes]
        for _, entry in sorted(entries, key=lambda entry: entry[0]):
            if isinstance(entry, ItemGroup):
                self._group(entry, width)
            elif hasattr(entry, "node"):
                self._node(entry, width)
            else:
                self._event(entry)
        self._ending(waiting)

    def _heading(self, given: JsonObject) -> None:
        import time

        run, output = self._run, self._output
        started = time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(run.created_at))
        facts = {
            "run": run.id,
            run.kind: run.name,
            "status": run.status,
            "started": started,
            "took": f"{self._took:.2f} s",
            "inputs": self._value(given.get("inputs") or given.get("arguments") or None),
            "params": self._value(given.get("params") or None),
            "began at": str(given.get("start") or "") + (" (only)" if given.get("only") else ""),
        }
        for name, fact in facts.items():
            if fact:
                output.line(f"{name + ':':<10}{fact}")
        output.line()

    def _node(self, node: NodeEvent, width: int) -> None:
        from spindle.cli.node_progress import remarks

        output = self._output
        mark, colour = ("✗", "red") if node.error else ("✓", "green")
        if not self._is_unicode:
            mark = "x" if node.error else "+"
        begun = max(node.started_at - self._run.created_at, 0.0)
        tool = node.tool if node.tool and node.tool != node.node else None
        parts = [_label(node).ljust(width), f"{begun:7.2f} s", self._bar(begun, node.duration)]
        parts += [
            f"{node.duration:6.2f} s",
            ", ".join(part for part in (tool, remarks(node, with_message=False)) if part),
        ]
        output.painted_line(mark, colour, "  ".join(parts).rstrip())
        told = {
            "in": node.inputs,
            "out": node.output,
            "wrote": node.wrote,
            "error": (node.error or {}).get("message"),
        }
        for name, value in told.items():
            if value is not None:
                output.line(f"    {name:<5} {self._value(value)}")

        self._batch(node)

    def _batch(self, node: NodeEvent) -> None:
        """Shows which items of a batch failed first, and which took longest."""
        facts = node.items or {}
        failures: list[JsonObject] = facts.get("first_failures", [])
        for one in failures[:NAMED]:
            self._output.line(f"    [{one['index']}]   {self._value(one['message'])}")
        self._further(facts.get("failed", 0) - NAMED)
        if facts["total"] > MANY if facts else False:
            slow = ", ".join(f"[{one['index']}] {one['duration']:.2f} s" for one in facts.get("slowest", ()))
            self._output.line(f"    slowest {slow}")
            self._output.aside(f"one item: spindle trace {self._run.id[:12]} --node '{node.node}[0]'")

    def _group(self, group: ItemGroup, width: int) -> None:
        """Shows the visits of a node for many items of a batch together."""
        output, failures = self._output, group.failures
        mark, colour = ("✗", "red") if failures else ("✓", "green")
        if not self._is_unicode:
            mark = "x" if failures else "+"
        begun = max(group.began - self._run.created_at, 0.0)
        parts = [group.name.ljust(width), f"{begun:7.2f} s", self._bar(begun, group.lasted)]
        parts += [f"{group.lasted:6.2f} s", plural(len(group.visits), "item")]
        if failures:
            parts[-1] += f", {len(failures)} failed"
        output.painted_line(mark, colour, "  ".join(parts))
        for visit in failures[:NAMED]:
            output.line(f"    {visit.node}   {self._value((visit.error or {}).get('message'))}")
        self._further(len(failures) - NAMED)
        slow = ", ".join(f"{visit.node} {visit.duration:.2f} s" for visit in group.slowest)
        output.line(f"    each {group.median:.2f} s (median); slowest {slow}")

    def _further(self, count: int) -> None:
        if count > 0:
            self._output.line(f"    … and {plural(count, 'failure')} more")

    def _bar(self, begun: float, duration: float) -> str:
        whole = max(self._took, begun + duration, 1e-9)
        first = min(int(begun / whole * BAR), BAR - 1)
        length = max(1, min(round(duration / whole * BAR), BAR - first))
        full, empty = ("█", "·") if self._is_unicode else ("#", ".")
        return empty * first + full * length + empty * (BAR - first - length)

    def _event(self, event: RunEvent) -> None:
        begun = max(event.at - self._run.created_at, 0.0)
        what = event.kind
        if event.kind == "step":
            what = f"step {event.path.rpartition('/')[2].partition(':')[0]}"
        elif event.kind == "paused":
            what = "paused for a person"
        self._output.line(f"- {begun:.2f} s  {what}")

    def _ending(self, waiting: Sequence[OpenPause]) -> None:
        run, output = self._run, self._output
        if run.error:
            output.line(f"\nfailed: {run.error.get('message')}")
        for pause in waiting:
            output.line(f"\nwaits for {pause.kind}: {pause.message}")
            output.aside(f"to continue: spindle resume {pause.token}")
        if run.status == "cancelled":
            output.aside(f"to continue: spindle resume {run.id[:12]}")

    def _value(self, value: Any) -> str:
        if value is None:
            return ""
        if self._full:
            text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, indent=2)
            return text.replace("\n", "\n          ")
        text = json.dumps(value, ensure_ascii=False)
        return text if len(text) <= SHOWN else f"{text[: SHOWN - 1]}…"


def _label(node: NodeEvent | ItemGroup) -> str:
    from spindle.cli.node_progress import label

    return node.name if isinstance(node, ItemGroup) else label(node)


def _began(node: NodeEvent | ItemGroup) -> float:
    return node.began if isinstance(node, ItemGroup) else node.started_at


async def _spread_items(app: Spindle, nodes: Sequence[NodeEvent], name: str) -> list[NodeEvent]:
    """Returns the visits of one item of a batch that workers did, such as `each[17]`."""
    node, index = item_named(name)
    batches = [one for one in nodes if one.node == node and one.items is not None and one.items.get("parts")]
    if not batches:
        return []
    from spindle.flows.part_work import traced_item

    found = [await traced_item(app.store, app.agents.sealer, one, index) for one in batches]
    return [item for item in found if item is not None]


def _of_one(nodes: Sequence[NodeEvent], name: str) -> list[NodeEvent]:
    found = chosen(nodes, name)
    if not found:
        from spindle.errors import NotFoundError, did_you_mean

        names = list(dict.fromkeys(group_name(node.node) or node.node for node in nodes))
        hint = did_you_mean(name, names, f"there are {', '.join(names[:8])}" if names else None)
        raise NotFoundError(f"the run has no node {name!r}", hint=hint)
    return found
