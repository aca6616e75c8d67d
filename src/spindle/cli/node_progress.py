"""Shows the nodes of a run on stderr while it runs: a line for each that has ended, and those that run
now."""

from __future__ import annotations

import asyncio
import contextlib
import sys
import time
from collections import Counter
from collections.abc import AsyncGenerator
from typing import TYPE_CHECKING, Any

from spindle.cli.output import plural
from spindle.domain.json_schema import JsonObject, is_object
from spindle.flows.trace_items import MANY, group_name

if TYPE_CHECKING:
    from spindle.cli.output import Output
    from spindle.flows.trace import NodeEvent

TICK = 0.1
WIDEST = 32
_SPINNER = "⠋⠙⠹⠸⠼⠴⠦⠧⠇⠏"


class NodeProgress:
    """Shows the events given to `observe`. Inside `shown()`, a terminal also shows the running nodes."""

    def __init__(self, output: Output, width: int = 0, *, quiet: bool = False) -> None:
        self._output = output
        self._width = min(width, WIDEST)
        self._quiet = quiet
        self._running: dict[tuple[str, int], float] = {}
        self._told: set[tuple[str, int]] = set()
        """The nodes that were shown, which need not be shown again after a pause."""
        self._before = 0
        """Nodes that another process has shown, which are only counted."""
        self._items: Counter[str] = Counter()
        """By node, the items of its batch that have ended, and that failed."""

    def observe(self, event: NodeEvent) -> None:
        """Shows one event of a node."""
        key = (event.node, event.visit)
        if event.kind == "started":
            self._running[key] = time.monotonic()
            self._tick(0)
            return
        self._running.pop(key, None)
        if not self._quiet and key not in self._told:
            self._told.add(key)
            if event.was_known or was_recorded(event):
                self._before += 1
                return
            if self._before:
                self._output.note(f"{plural(self._before, 'node')} done before")
                self._before = 0
            if self._is_one_of_many(event):
                return
            self._width = min(max(self._width, len(label(event))), WIDEST)
            self._output.aside(line(event, self._width), f"{self._mark(event)} ")

    def _is_one_of_many(self, event: NodeEvent) -> bool:
        """True for an item of a batch of which enough were shown: the line of the batch counts them all."""
        group = group_name(event.node)
        if group is None:
            return False
        group += " failed" if event.error is not None else ""
        self._items[group] += 1
        if self._items[group] == MANY + 1:
            self._output.note(f"further items of {group} are counted, and not shown one by one")
        return self._items[group] > MANY

    def _mark(self, event: NodeEvent) -> str:
        mark, colour = ("✗", "red") if event.error else ("✓", "green")
        if not is_unicode(sys.stderr):
            mark = {"✗": "x", "✓": "+"}[mark]
        return self._output.paint_aside(mark, colour)

    def _tick(self, count: int) -> None:
        if not self._running or self._quiet:
            return
        (node, visit), began = next(reversed(self._running.items()))
        mark = _SPINNER[count % len(_SPINNER)] if is_unicode(sys.stderr) else "…"
        again = f" (visit {visit})" if visit > 1 else ""
        self._output.status(f"{mark} {node}{again}  {time.monotonic() - began:.1f} s")

    @contextlib.asynccontextmanager
    async def shown(self) -> AsyncGenerator[NodeProgress]:
        """Keeps the line of running nodes up to date on a terminal."""
        if self._quiet or not self._output.shows_progress:
            yield self
            return
        task = asyncio.create_task(self._keep_ticking(), name="progress of nodes")
        try:
            yield self
        finally:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)

    @contextlib.asynccontextmanager
    async def watching(self) -> AsyncGenerator[None]:
        """Shows the nodes of everything that runs inside."""
        from spindle.flows.trace import observer

        token = observer.set(self.observe)
        try:
            async with self.shown():
                yield
        finally:
            observer.reset(token)

    async def _keep_ticking(self) -> None:
        count = 0
        while True:
            await asyncio.sleep(TICK)
            count += 1
            self._tick(count)


def is_unicode(stream: Any) -> bool:
    """True if the stream can show Unicode."""
    return "utf" in (getattr(stream, "encoding", None) or "").lower()


def label(event: NodeEvent) -> str:
    """The node's name, with the number of the visit after the first."""
    return event.node if event.visit == 1 else f"{event.node} #{event.visit}"


def line(event: NodeEvent, width: int) -> str:
    """The line for a node that has ended: `search  0.12 s  2 attempts`."""
    parts = [label(event).ljust(width), f"{event.duration:6.2f} s", remarks(event)]
    return "  ".join(parts).rstrip()


def remarks(event: NodeEvent, *, with_message: bool = True) -> str:
    """The remarks on a node: items, attempts, error and action."""
    said: list[str] = []
    is_batch = event.items is not None
    if event.node.endswith(".branches") and is_object(event.output):
        said += [f"{', '.join(names)} {end.replace('_', ' ')}" for end, names in event.output.items()]
    if event.items is not None:
        said.append(plural(event.items["total"], "item"))
        if event.items.get("failed"):
            said.append(f"{event.items['failed']} failed")
        if event.items.get("not_begun"):
            said.append(f"{event.items['not_begun']} not begun")
    if event.cached:
        said.append("cached")
    elif event.attempts > 1 and not is_batch:
        said.append(f"{event.attempts} attempts")
    elif was_recorded(event):
        said.append("done before")
    if event.usage is not None:
        said.append(_used(event.usage))
    action = event.action if event.action not in (None, "", "default") else None
    if event.error is not None:
        said.append(str(event.error.get("category") or "error"))
        if action is not None and with_message:
            said.append(_brief(str(event.error.get("message") or "")))
    if action is not None:
        said.append(f"→ {action}")
    return ", ".join(part for part in said if part)


def _used(usage: JsonObject) -> str:
    """The use of a model in words: its tokens, and the cost if it is known."""
    tokens = plural(usage["input_tokens"] + usage["output_tokens"], "token")
    return tokens if usage.get("cost") is None else f"{tokens}, ${usage['cost']:.4f}"


def was_recorded(event: NodeEvent) -> bool:
    """True if the node's result was recorded before the run was resumed: a tool's node without a call. Its
    end was not noted, if its process was killed in between."""
    made_none = event.tool is not None and not event.attempts and not event.cached
    return made_none and event.error is None and event.inputs != []


def _brief(text: str, limit: int = 60) -> str:
    text = " ".join(text.split())
    return text if len(text) <= limit else f"{text[: limit - 1]}…"
