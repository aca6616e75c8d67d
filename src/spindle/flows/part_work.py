"""The work of a part of a batch, in any worker."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from spindle.calls.known_secrets import KnownSecrets, known_secrets
from spindle.calls.record import clean_json, hide_secrets
from spindle.domain.call import Result
from spindle.errors import FlowError
from spindle.flows.build import build
from spindle.flows.failures import NodeFailure
from spindle.flows.handed_over import taken_over
from spindle.flows.spread import ITEMS, kept_item
from spindle.flows.text.document import from_record
from spindle.flows.trace import NodeEvent, Recording
from spindle.flows.visits import kept
from spindle.flows.workspace_node import WorkspaceNode
from spindle.runs.parts import id_of

if TYPE_CHECKING:
    from spindle.auth.encryption import Sealer
    from spindle.calls.host import CallHost
    from spindle.calls.options import CallOptions
    from spindle.domain.json_schema import JsonObject
    from spindle.flows.node_cache import PureNodes
    from spindle.ports.store import RunStore


async def work_on_part(
    given: JsonObject, host: CallHost, options: CallOptions, pure: PureNodes | None
) -> Result:
    """Executes a part, from its start or after a pause."""
    flow = build(from_record(given["node"]))
    node = flow.start_node
    assert isinstance(node, WorkspaceNode)
    known = KnownSecrets(known_secrets.get())
    known.add(given["secrets"])
    token = known_secrets.set(known)
    try:
        async with taken_over(given, host) as work:
            recording = Recording(flow, work.host, pure, use_cache=options.use_cache)
            report = recording.equip(node, given["visit"])
            work.recall(len(given["prepared"]))
            items = await node.do_part(given["prepared"], work.ended)
    finally:
        known_secrets.reset(token)
    failed = [outcome for outcome in items.outcomes if isinstance(outcome, NodeFailure)]
    for failure in failed:
        hide_secrets(failure.error, known.values)
    noted = [
        {"index": index, "inputs": kept(shown), "output": kept(value), "error": error, "duration": seconds}
        for index, shown, value, error, seconds in items.each()
    ]
    host.note(ITEMS, clean_json({ITEMS: noted}, known.values))
    told = {
        ITEMS: [kept_item(outcome) for outcome in items.outcomes],
        "attempts": report.attempts,
        "usage": report.usage,
        **work.told(),
    }
    if failed and not (node.definition.batch and node.definition.batch.keep_errors):
        first = failed[0].error.message
        raise FlowError(f"{len(failed)} of {len(items.outcomes)} items failed: {first}", details=told)
    return Result.of_value(told)


async def traced_item(store: RunStore, sealer: Sealer, node: NodeEvent, index: int) -> NodeEvent | None:
    """Returns one item of a batch over workers as a visit of its own; None if it was not done, or is not kept
    any more. `node` is the visit of the batch."""
    facts = node.items or {}
    if not facts.get("parts") or not 0 <= index < facts["total"]:
        return None
    ids, size = facts["parts"]["ids"], facts["parts"]["size"]
    part = id_of(ids, index // size)
    for event in await store.history(part, "note"):
        if event.sealed is None or not event.path.endswith(f"#{ITEMS}"):
            continue
        noted = sealer.open(event.sealed, f"run:{part}:{event.path}")[ITEMS]
        for item in noted:
            if item["index"] == index % size:
                return replace(
                    node, node=f"{node.node}[{index}]", inputs=item["inputs"], output=item["output"],
                    error=item["error"], duration=item["duration"], wrote=None, items=None, action=None,
                    attempts=1,
                )  # fmt: skip
    return None
