"""The items of a batch: done several at a time, and what became of them."""

from __future__ import annotations

import heapq
import time
from collections.abc import Awaitable, Callable, Iterable, Iterator, Sequence
from itertools import islice
from typing import TYPE_CHECKING, Any, Final

from spindle.domain.json_schema import JsonObject
from spindle.errors import FlowError, Interruption, interruption_in
from spindle.flows.content_values import CONTENT
from spindle.flows.expressions.paths import MISSING
from spindle.flows.failures import NodeFailure
from spindle.flows.node_done import NodeDone

if TYPE_CHECKING:
    from spindle.flows.definition import Batch
    from spindle.flows.run_context import RunContext

    Attempts = Callable[[Any, RunContext], Awaitable[Any]]

SLOWEST: Final = 5
"""Items whose time is told."""
FAILURES: Final = 100
"""Items whose failure is told, the first of them."""
MAX_MESSAGE: Final = 500
"""Characters of a failure's message that are kept with the others."""


class BatchItems:
    """The items of one visit of a node."""

    def __init__(self, id: str, batch: Batch, shown: Sequence[Any]) -> None:
        """`shown`: the inputs of each, as they are recorded."""
        self._id = id
        self._batch = batch
        self._shown = shown
        self.outcomes: list[Any] = []
        """By place, a NodeDone, a NodeFailure, or MISSING for one that was not begun; none of a batch over
        workers, whose parts have them."""
        self.parts: JsonObject | None = None
        """The beginning of the ids of the parts that workers did, which have the record of each item, and
        the number of items of one."""
        self._seconds: list[float] = []
        """The time that each has taken in this process."""
        self._values: list[Any] = []
        """By place, the results of those whose end was taken; None of others."""
        self._content: dict[int, Any] = {}
        """By place, the content of those whose tool returned any."""
        self._failures: dict[int, NodeFailure] = {}
        self._not_begun = 0

    async def run(
        self,
        attempts: Attempts,
        prepared: Sequence[Any],
        running: RunContext,
        ended: Callable[[int], Awaitable[None]] | None = None,
    ) -> NodeDone | NodeFailure:
        """Does the work for each, and returns the results together. `ended` is told of each end. Raises
        Interruption where one waits for a person, when those that are begun have ended."""
        batch = self._batch
        outcomes = self.outcomes = [MISSING] * len(prepared)
        self._seconds = [0.0] * len(prepared)
        has_failed = False
        asked: Interruption | None = None

        async def one(beside: RunContext, numbered: tuple[int, Any]) -> None:
            nonlocal has_failed, asked
            if asked is not None or (has_failed and not batch.keep_errors):
                return  # not begun
            index, given = numbered
            began = time.perf_counter()
            try:
                outcomes[index] = await attempts(given, beside)
            except BaseException as error:
                if (question := interruption_in(error)) is None:
                    raise
                asked = asked or question
                return
            finally:
                self._seconds[index] = time.perf_counter() - began
            has_failed |= isinstance(outcomes[index], NodeFailure)
            if ended is not None:
                await ended(index)

        await running.each(one, list(enumerate(prepared)), batch.concurrency)
        if asked is not None:
            raise asked
        self.take(outcomes)
        return self.gathered()

    def take(self, outcomes: Iterable[Any]) -> None:
        """Takes what became of the next items, of which only the results and the failures are held."""
        key = f"{self._id}.{CONTENT}"
        for outcome in outcomes:
            index, value = len(self._values), None
            if isinstance(outcome, NodeFailure):
                self._failures[index] = outcome
            elif outcome is MISSING:
                self._not_begun += 1
            else:
                value = outcome.value
                if outcome.wrote and (content := outcome.wrote.get(key)):
                    self._content[index] = content
            self._values.append(value)

    def told(self) -> JsonObject:
        """Returns what became of them, in a few lines however many they are."""
        slowest = heapq.nlargest(SLOWEST, enumerate(self._seconds), key=lambda item: item[1])
        facts: JsonObject = {
            "total": len(self._shown),
            "failed": len(self._failures),
            "not_begun": self._not_begun,
            "slowest": [{"index": index, "duration": round(seconds, 6)} for index, seconds in slowest],
            "spread": self.parts is not None,
            "parts": self.parts,
            "first_failures": [
                {"index": index, "message": failure.error.message[:MAX_MESSAGE]}
                for index, failure in islice(self._failures.items(), FAILURES)
            ],
        }
        return {name: fact for name, fact in facts.items() if fact or name == "total"}

    def each(self) -> Iterator[tuple[int, Any, Any, JsonObject | None, float]]:
        """Yields of each that was begun its place, its inputs, its result, its error and its time."""
        for index, outcome in enumerate(self.outcomes):
            if outcome is not MISSING:
                is_failure = isinstance(outcome, NodeFailure)
                error, value = (outcome.told(), None) if is_failure else (None, outcome.value)
                yield index, self._shown[index], value, error, self._seconds[index]

    def gathered(self) -> NodeDone | NodeFailure:
        """Returns the results together, or the failure of the batch."""
        # With arguments as they are recorded: what is secret in them does not belong into errors.
        failed: list[JsonObject] = [
            {"index": index, "arguments": self._shown[index], "error": failure.told()}
            for index, failure in self._failures.items()
        ]
        total = len(self._values)
        if not failed or self._batch.keep_errors:
            wrote: JsonObject | None = None
            if self._content:
                wrote = {f"{self._id}.{CONTENT}": [self._content.get(index, []) for index in range(total)]}
            return NodeDone(self._values, wrote=wrote, failed=failed)
        first = next(iter(self._failures.values()))
        named = "; ".join(f"item {item['index']}: {item['error']['message']}" for item in failed[:5])
        more = f"; and {len(failed) - 5} more" if len(failed) > 5 else ""
        error = FlowError(
            f"node {self._id!r}: {len(failed)} of {total} items failed"
            f" ({total - self._not_begun} were begun): {named}{more}",
            hint="set batch.keep_errors to continue with the others",
            details={"failed": failed},
        )
        return NodeFailure(error, first.action)
