"""Executes a flow in a workspace, from its inputs to its result."""

from __future__ import annotations

import copy
import time
from typing import TYPE_CHECKING, Any

from spindle.calls.failure import failure_of
from spindle.calls.known_secrets import known_secrets
from spindle.calls.record import hide_secrets
from spindle.domain.call import Result
from spindle.domain.json_schema import is_object, to_json
from spindle.domain.text_values import ParsedArray, ParsedObject
from spindle.errors import FlowError, SpindleError, did_you_mean
from spindle.flows.branches import named
from spindle.flows.build import DefinedFlow, name_nodes
from spindle.flows.content_values import with_blocks, with_content
from spindle.flows.expressions.parsing import began
from spindle.flows.flow import meeting_of
from spindle.flows.handed_over import flows_around
from spindle.flows.node import BaseNode
from spindle.flows.outputs import outputs_of
from spindle.flows.secrets import secrets_of
from spindle.flows.trace import Recording
from spindle.flows.wait_node import hooks_of
from spindle.telemetry import tracing

if TYPE_CHECKING:
    from pathlib import Path

    from spindle.domain.call import Host
    from spindle.flows.flow import Flow
    from spindle.flows.node_cache import PureNodes

MAX_DEPTH = 16
"""The number of flows that may call each other, one inside the other."""


async def execute(
    flow: Flow,
    shared: dict[str, Any],
    host: Host,
    pure: PureNodes | None = None,
    *,
    root: Path,
    use_cache: bool = True,
    start: str | None = None,
    only: bool = False,
) -> Result:
    """Runs the flow of the workspace at `root` over `shared`, which holds its inputs. `start`: begin at this
    node; `only`: stop after it."""
    if not isinstance(flow, DefinedFlow):  # whose definition names them
        name_nodes(flow)
    chain = (*flows_around.get(), flow.name or "flow")
    if len(chain) > MAX_DEPTH:
        raise FlowError(
            f"flows call each other {len(chain)} deep: {' → '.join(chain[:3])} → … → {chain[-1]}",
            hint="a flow that calls itself needs an end",
        )
    for name, schema in flow.inputs.items():
        if is_object(schema) and "default" in schema:
            shared.setdefault(name, schema["default"])
    shared |= await hooks_of(flow, host)
    known = await secrets_of(flow, shared, host)
    recording = Recording(flow, host, pure, use_cache=use_cache)
    is_timed = flow.mentions("now(")  # then the time is recorded with the run
    if start is not None:
        flow = starting_at(flow, start, only=only)
    token, secrets = flows_around.set(chain), known_secrets.set(known)
    since = began.set(await host.remember("now", chain, _time)) if is_timed else None
    try:
        await tracing.work_named("invoke_workflow", flow.name, flow.run_async(shared, recording, host))
        if flow.outputs is None or only:
            result = _result(known.shown(recording.output), host)
            return with_blocks(result, known.shown(recording.content), host)
        return _result(known.shown(outputs_of(flow.outputs, shared)), host, is_whole=True)
    except SpindleError as error:
        hide_secrets(error, known.values)
        raise
    except Exception as error:  # noqa: BLE001 - raised as ours
        # What a node written by hand raises is the flow's failure, and says where.
        place = f"node {recording.failed!r}" if recording.failed else "the flow"
        failed = FlowError(f"{place} failed: {type(error).__name__}: {error}")
        failed.failure, failed.__cause__ = failure_of(error, root), error
        hide_secrets(failed, known.values)
        raise failed from failed.__cause__
    finally:
        known_secrets.reset(secrets)
        flows_around.reset(token)
        if since is not None:
            began.reset(since)


async def _time(_: Host) -> float:
    return time.time()


def starting_at(flow: Flow, id: str, *, only: bool = False) -> Flow:
    """Returns the flow from this node on. Raises FlowError if there is no such node."""
    nodes = {node.id: node for node in flow.nodes() if node.id is not None}
    found: BaseNode | None = nodes.get(id)
    if found is None:
        raise FlowError(
            f"the flow has no node {id!r}",
            hint=did_you_mean(id, nodes, f"its nodes are {', '.join(nodes)}"),
        )
    part = copy.copy(flow)
    part.successors = {}
    if only:
        found = copy.copy(found)
        found.successors = {}
    elif (fork := next((fork for fork in flow.forks() if found in meeting_of(fork).nodes), None)) is not None:
        source = named(fork.source)
        raise FlowError(
            f"node {id!r} is in a branch, and the flow cannot start there",
            hint=f"start at {source!r}, where the branches begin, or run only this node",
        )
    part.start_node = found
    return part


def _result(value: Any, host: Host, *, is_whole: bool = False) -> Result:
    if value is None and not is_whole:
        return Result()
    if isinstance(value, str):
        return Result.of_text(value)
    text = (
        value.text
        if isinstance(value, (ParsedObject, ParsedArray))
        else to_json(value, default=repr).decode()
    )
    return with_content(Result.of_value(value, text), value, host)
