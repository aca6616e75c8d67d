"""Runs: the list, one run as a timeline and as its flow's picture, and two runs side by side."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from markupsafe import Markup

from spindle.console.call_lines import CallLine, call_line, shown_json
from spindle.console.choices import Choice
from spindle.console.conversations import Said, conversation
from spindle.console.run_timeline import Comparison, Timeline, compared, timeline
from spindle.console.screen import Look, Screen
from spindle.errors import FlowError, NotFoundError, SpindleError
from spindle.ports.store import CallFilter
from spindle.serving.answering import waiting_for
from spindle.serving.run_control import ENDED, STATUSES, find_run, status_of, took

if TYPE_CHECKING:
    from spindle.domain.run import Run
    from spindle.flows.definition import FlowDefinition
    from spindle.flows.trace import NodeEvent
    from spindle.runs.outcomes import OpenPause

PAGE_SIZE: Final = 50
CALLS: Final = 50
MAX_RESULT: Final = 4_000_000
"""Characters of a result that its page has."""
OTHERS: Final = 12
KINDS: Final = ("flow", "agent", "call", "task")
COLOURS: Final = {
    "queued": "muted", "running": "accent", "paused": "warn", "done": "good", "failed": "bad",
    "cancelled": "muted",
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class RunLine:
    """One run of the list."""

    id: str
    name: str
    kind: str
    status: str
    colour: str
    principal: str
    created_at: float
    took: float
    said: str
    """The message of its error."""


@dataclass(frozen=True, slots=True)
class RunPage:
    """A page of runs, the newest first."""

    runs: Sequence[RunLine]
    older: str | None
    statuses: Sequence[Choice]
    kinds: Sequence[Choice]
    everybody: bool


def run_line(run: Run, now: float) -> RunLine:
    """Returns a run as a line."""
    said = str((run.error or {}).get("message", ""))
    return RunLine(
        run.id, run.name, run.kind, run.status, COLOURS[run.status], run.principal.id, run.created_at,
        took(run, now), said[:400],
    )  # fmt: skip


async def runs(look: Look) -> RunPage:
    """Returns the runs that fit the address: `name`, `status`, `kind`, `who`, `before`."""
    asked = look.query
    found = await look.app.store.runs(
        limit=PAGE_SIZE + 1,
        status=status_of(asked.get("status")),
        principal=look.whose or asked.get("who") or None,
        kind=asked.get("kind") or None,
        name=asked.get("name") or None,
        before=asked.get("before") or None,
    )
    page = found[:PAGE_SIZE]
    return RunPage(
        [run_line(run, look.now) for run in page],
        page[-1].id if len(found) > PAGE_SIZE else None,
        [Choice(status) for status in STATUSES],
        [Choice(kind) for kind in KINDS],
        look.whose is None,
    )


@dataclass(frozen=True, slots=True)
class RunView:
    """One run."""

    line: RunLine
    inputs: str
    error: Any
    result: Any
    """The whole result, for the page's script to show; None if there is none."""
    timeline: Timeline
    picture: Markup | None
    is_now: bool
    """True if the picture is of the flow as it is now, which the run's own may differ from."""
    talk: Sequence[Said]
    steps: int
    """The number of answers of an agent's model."""
    waiting: Sequence[OpenPause]
    calls: Sequence[CallLine]
    others: Sequence[RunLine]
    """Runs of the same name, to compare it with."""
    may_cancel: bool
    may_resume: bool
    sees_tool: bool


async def run(look: Look) -> RunView:
    """Returns a run by its id. `node` in the address chooses one of its nodes."""
    found = await find_run(look.app, look.named["id"], look.principal)
    line = run_line(found, look.now)
    nodes: Sequence[NodeEvent] = ()
    given: dict[str, Any] = {}
    talk: Sequence[Said] = ()
    if found.kind == "agent":
        record = await look.app.agents.record(found.id)
        given, talk = {"inputs": {"task": record.job.task}}, conversation(record.events())
    else:
        _, given, nodes = await look.app.flows.trace(found.id)
    history = await look.app.store.history(found.id)
    definition, is_now = _definition(look, found, given)
    shown = timeline(found, line.took, nodes, history, look.query.get("node"))
    waiting = [pause for pause in await waiting_for(look.app, look.person) if pause.run_id == found.id]
    calls = await look.app.store.calls(limit=CALLS, where=CallFilter(run=found.id, principal=look.whose))
    named = await look.app.store.runs(limit=OTHERS, principal=look.whose, kind=found.kind, name=found.name)
    return RunView(
        line,
        shown_json(given.get("inputs", given.get("arguments"))) if given else "",
        found.error,
        await _result(look, found),
        shown,
        None if definition is None else _picture(definition, nodes, found, history, given),
        is_now,
        talk,
        max((said.step for said in talk), default=0),
        waiting,
        [call_line(record) for record in calls],
        [run_line(one, look.now) for one in named if one.id != found.id],
        found.status not in ENDED,
        found.status in ("failed", "cancelled") or _has_stopped(found, waiting),
        found.kind == "call" and look.sees(found.name),
    )


def _has_stopped(run: Run, waiting: Sequence[OpenPause]) -> bool:
    """True if nothing goes on with a run by itself: its process died, or it was suspended."""
    return run.status == "running" and (run.lease or 0.0) <= 0 and not waiting


def _definition(look: Look, run: Run, given: dict[str, Any]) -> tuple[FlowDefinition | None, bool]:
    from spindle.flows.text.document import from_record

    if given.get("definition"):
        return from_record(given["definition"]), False
    if run.kind not in ("flow", "call"):
        return None, False
    try:
        saved = look.app.flows.saved(run.name.rpartition(".")[2])
    except SpindleError:
        return None, False  # it is broken now, and its own page says why
    return getattr(saved, "definition", None), True


def _picture(
    definition: FlowDefinition, nodes: Sequence[NodeEvent], run: Run, history: Any, given: dict[str, Any]
) -> Markup | None:
    from spindle.console.flow_picture import flow_picture
    from spindle.console.rendering import with_query
    from spindle.flows.standing import standings

    known = {node.id for node in definition.nodes}
    if any(event.node.partition("/")[0].partition(".branches")[0].partition("[")[0].partition(":")[0]
           not in known for event in nodes):  # fmt: skip
        return None  # of another flow, or of a tool that calls flows
    standing = standings(definition, nodes, run.status, history, given.get("start"))
    try:
        return flow_picture(definition, standing, lambda place: f"{with_query({}, node=place)}#node")
    except FlowError:
        return None  # too large to be drawn


async def _result(look: Look, run: Run) -> Any:
    if run.status != "done":
        return None
    try:
        result = (await look.app.runner.outcome(run)).to_dict()
    except SpindleError as error:
        return {"content": [{"type": "text", "text": error.message}], "is_error": True}
    size = len(shown_json(result, indent=None))
    if size <= MAX_RESULT:
        return result
    told = (
        f"The result has {size:,} characters, more than a page shows. GET /runs/{run.id} returns all of it."
    )
    return {"content": [{"type": "text", "text": told}]}


@dataclass(frozen=True, slots=True)
class ComparePage:
    """Two runs side by side."""

    one: RunLine
    other: RunLine
    rows: Sequence[Comparison]
    inputs: Comparison


async def compare(look: Look) -> ComparePage:
    """Returns two runs node by node: `id` in the path, `with` in the address."""
    sides = [
        await find_run(look.app, id, look.principal) for id in (look.named["id"], look.query.get("with", ""))
    ]
    if any(side.kind == "agent" for side in sides):
        raise NotFoundError("runs of agents are not compared", hint="open both, side by side")
    traces = [await look.app.flows.trace(side.id) for side in sides]
    inputs = [given.get("inputs", given.get("arguments")) for _, given, _ in traces]
    return ComparePage(
        run_line(sides[0], look.now),
        run_line(sides[1], look.now),
        compared(traces[0][2], traces[1][2]),
        Comparison.of("inputs", inputs[0], inputs[1]),
    )


SCREENS: Final = (
    Screen("/runs", "runs.html", runs, "runs"),
    Screen("/runs/{id}", "run.html", run, "runs"),
    Screen("/runs/{id}/compare", "compare.html", compare, "runs"),
)
