"""The work of a part of a batch, in any worker."""

from __future__ import annotations

from typing import TYPE_CHECKING

from spindle.calls.known_secrets import KnownSecrets, known_secrets
from spindle.calls.record import hide_secrets
from spindle.domain.call import Result
from spindle.errors import FlowError
from spindle.flows.build import build
from spindle.flows.failures import NodeFailure
from spindle.flows.spread import ITEMS, kept_item
from spindle.flows.text.document import from_record
from spindle.flows.trace import Recording
from spindle.flows.workspace_node import WorkspaceNode

if TYPE_CHECKING:
    from spindle.calls.host import CallHost
    from spindle.calls.options import CallOptions
    from spindle.domain.json_schema import JsonObject
    from spindle.flows.node_cache import PureNodes


async def work_on_part(
    given: JsonObject, host: CallHost, options: CallOptions, pure: PureNodes | None
) -> Result:
    """Executes a part, from its start or after a pause."""
    flow = build(from_record(given["node"]))
    node = flow.start_node
    assert isinstance(node, WorkspaceNode)
    report = Recording(flow, host, pure, use_cache=options.use_cache).equip(node, given["visit"])
    known = KnownSecrets(known_secrets.get())
    known.add(given["secrets"])
    token = known_secrets.set(known)
    try:
        items = await node.do_part(given["prepared"])
    finally:
        known_secrets.reset(token)
    failed = [outcome for outcome in items.outcomes if isinstance(outcome, NodeFailure)]
    for failure in failed:
        hide_secrets(failure.error, known.values)
    told = {
        ITEMS: [kept_item(outcome) for outcome in items.outcomes],
        "attempts": report.attempts,
        "usage": report.usage,
    }
    if failed and not (node.definition.batch and node.definition.batch.keep_errors):
        first = failed[0].error.message
        raise FlowError(f"{len(failed)} of {len(items.outcomes)} items failed: {first}", details=told)
    return Result.of_value(told)
