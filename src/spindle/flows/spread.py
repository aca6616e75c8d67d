"""A batch over workers: its items in parts, each a run of its own, and what became of them put together.

What the items are given is prepared once, by the run that they belong to: a part renders no templates, so
data in it stays data.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final, Protocol

from spindle.calls.known_secrets import known_secrets
from spindle.domain.call import Result
from spindle.domain.json_schema import JsonObject, is_object
from spindle.domain.text_values import ParsedArray, ParsedObject, value_of_text
from spindle.errors import FlowError, SpindleError
from spindle.flows.definition import Batch, FlowDefinition
from spindle.flows.expressions.paths import MISSING
from spindle.flows.failures import NodeFailure, action_of
from spindle.flows.handed_over import handed_back, handed_over
from spindle.flows.node_done import NodeDone
from spindle.runs.outcomes import read, written
from spindle.runs.parts import id_of

if TYPE_CHECKING:
    from spindle.domain.call import Host
    from spindle.flows.batch_items import BatchItems
    from spindle.flows.definition import CacheRule, NodeDefinition
    from spindle.flows.visits import Report
    from spindle.runs.parts import RunParts

MOST_PARTS: Final = 1000
USUAL_PARTS: Final = 50
"""Parts of a short list: enough for many workers, and for items that take unlike times."""
USUAL_SIZE: Final = 200
"""Items of a part of a long list."""
ITEMS: Final = "items"


class SpreadNode(Protocol):
    """The part of a node that is needed here."""

    definition: NodeDefinition
    report: Report
    host: Host | None
    visit: int
    place: str
    cache: CacheRule | None


def size_of_parts(items: int, wanted: bool | int) -> int:
    """Returns how many items a part has."""
    least = math.ceil(items / MOST_PARTS)
    if wanted is True:
        return max(min(USUAL_SIZE, math.ceil(items / USUAL_PARTS)), least, 1)
    return max(int(wanted), least, 1)


async def over_workers(
    node: SpreadNode, items: BatchItems, prepared: Sequence[Any], parts: RunParts
) -> NodeDone | NodeFailure:
    """Has workers do the items of a batch, and returns the results together. Raises Interruption while they
    are at it."""
    from spindle.flows.text.writing import to_document

    batch, host = node.definition.batch, node.host
    assert batch is not None
    assert host is not None
    size = size_of_parts(len(prepared), batch.spread)
    alone = replace(
        node.definition, approval=None, join=None, outputs={}, cache=node.cache,
        batch=Batch([], batch.item, batch.concurrency, batch.keep_errors),
    )  # fmt: skip
    document = to_document(FlowDefinition((alone,)))
    secrets = known_secrets.get()
    shared = {
        "node": document, "visit": node.visit, "secrets": sorted(secrets.values) if secrets else [],
        **handed_over(host),
    }  # fmt: skip

    def make(index: int) -> JsonObject:
        return {**shared, "prepared": prepared[index * size : (index + 1) * size]}

    place = f"{node.place}:{node.visit}"
    prefix = parts.prefix(place, host)
    items.parts = {"ids": prefix, "size": size}
    index = 0
    async for outcome in parts.outcomes(
        place, math.ceil(len(prepared) / size), make, host, keeps_errors=batch.keep_errors
    ):
        count = min(size, len(prepared) - index * size)
        told = _told(outcome)
        if told is not None:
            handed_back(told, id_of(prefix, index), host)
        items.take(_items(outcome, told, count, node.report, keeps_errors=batch.keep_errors))
        index += 1
    return items.gathered()


def _told(outcome: Result | SpindleError | None) -> JsonObject | None:
    """Returns what a part tells of its items; None if it has come to no end of its own."""
    told: Any = outcome.structured if isinstance(outcome, Result) else outcome and outcome.details
    return told if is_object(told) and ITEMS in told else None


def _items(
    outcome: Result | SpindleError | None,
    told: JsonObject | None,
    count: int,
    report: Report,
    *,
    keeps_errors: bool,
) -> Iterable[Any]:
    """Returns what became of the items of a part."""
    if told is not None:
        report.attempts += told["attempts"]
        if told["usage"] is not None:
            report.add_usage(told["usage"])
        return map(_read, told[ITEMS])
    if outcome is None and not keeps_errors:
        return [MISSING] * count
    error = outcome if isinstance(outcome, SpindleError) else FlowError("its part of the batch was cancelled")
    return [NodeFailure(error, action_of(error))] * count


def kept_item(outcome: Any) -> JsonObject | None:
    """Returns what became of an item as JSON, with all that is needed to read the same again."""
    if outcome is MISSING:
        return None
    if isinstance(outcome, NodeFailure):
        return {**written(outcome.error), "action": outcome.action}
    value = outcome.value
    if isinstance(value, (ParsedObject, ParsedArray)):
        return {"text": value.text, "wrote": outcome.wrote}
    return {"value": value, "wrote": outcome.wrote}


def _read(item: JsonObject | None) -> Any:
    if item is None:
        return MISSING
    if "error" in item:
        try:
            read(item)
        except SpindleError as error:
            return NodeFailure(error, item["action"])
    value = value_of_text(item["text"], "json") if "text" in item else item["value"]
    return NodeDone(value, wrote=item["wrote"])
