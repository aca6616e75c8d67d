"""`spindle trace RUN`: shows one run, node by node."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import click

from spindle.cli.completion import complete_run
from spindle.cli.context import CliContext, command

if TYPE_CHECKING:
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
async def trace(cli: CliContext, run: str, full: bool) -> None:
    """Show one run node by node: times, inputs and outputs, attempts, cached answers, errors.

    RUN is an id or the beginning of one; without it, the last run.
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
        entries: list[tuple[float, Any]] = [(node.started_at, node) for node in nodes]
        entries += [(event.at, event) for event in history if event.kind in ("paused", "resumed", "answered")]
        entries += [(event.at, event) for event in history if event.kind == "step" and not nodes]
        width = max((len(_label(node)) for node in nodes), default=0)
        for _, entry in sorted(entries, key=lambda entry: entry[0]):
            if hasattr(entry, "node"):
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


def _label(node: NodeEvent) -> str:
    from spindle.cli.node_progress import label

    return label(node)
