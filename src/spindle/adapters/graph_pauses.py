"""Pauses of calls in a graph of LangGraph, as interrupts of its own.

LangGraph does an interrupted node again from its beginning. The runs of its calls have ids that are made of
the place in the graph, so that what was done is not done again.
"""

from __future__ import annotations

import asyncio
import hashlib
import threading
from collections.abc import Awaitable, Callable, Coroutine, Generator
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from langchain_core.runnables.config import ensure_config

from spindle.domain.json_schema import JsonObject, is_object, to_json
from spindle.errors import SpindleError
from spindle.runs.outcomes import OpenPause, Paused

if TYPE_CHECKING:
    from spindle.adapters.tool_names import Offer
    from spindle.domain.call import Result

Run = Callable[[Coroutine[Any, Any, Any]], Awaitable[Any]]
Wait = Callable[[Coroutine[Any, Any, Any]], Any]

ANSWERS = "answers"
"""The only key of a resume value that holds answers by the tokens of their pauses."""


@dataclass
class GraphStep:
    """The calls of one node of a graph that are in flight, in whichever thread."""

    calls: int = 0
    busy: dict[str, Future[None]] = field(default_factory=dict[str, "Future[None]"])
    """By run, those that have not come to a result or a pause."""
    results: dict[str, Future[Any]] = field(default_factory=dict[str, "Future[Any]"])
    """By run, how its call ends here."""
    waiting: dict[str, tuple[OpenPause, ...]] = field(default_factory=dict[str, tuple[OpenPause, ...]])
    asked: dict[str, int] = field(default_factory=dict[str, int])
    """By run, the number of pauses that it has had."""
    answers: dict[str, Any] = field(default_factory=dict[str, Any])
    """By token, what people answered and no call has taken yet."""
    problem: str | None = None

    def payload(self) -> JsonObject:
        """Returns what the person is shown: all that the node waits for."""
        shown = [pause.to_dict() for pauses in self.waiting.values() for pause in pauses]
        return {"pauses": shown, **({"problem": self.problem} if self.problem else {})}

    def take(self, value: Any) -> None:
        """Keeps the answers in a resume value. One without tokens is meant for the only question that this
        node has ever asked: LangGraph hands out values by their order, which tells nothing of two."""
        pauses = [pause for pauses in self.waiting.values() for pause in pauses]
        if is_object(value) and list(value) == [ANSWERS] and is_object(value[ANSWERS]):
            self.answers |= value[ANSWERS]  # also for calls whose threads have not come to their question yet
        elif len(pauses) == 1 and sum(self.asked.values()) == 1:
            self.answers[pauses[0].token] = value
        else:
            self.problem = (
                'several questions were asked here: answer each by its token, {"answers": {TOKEN: ANSWER}}'
            )


_steps: dict[str, GraphStep] = {}
_changing = threading.Lock()


def step_key() -> str | None:
    """Returns the place in a graph that can be interrupted, if this is called in one. It is the same when the
    node is done again."""
    configurable: JsonObject = ensure_config().get("configurable") or {}
    thread, place = configurable.get("thread_id"), configurable.get("checkpoint_ns")
    if not place or thread is None or not configurable.get("__pregel_checkpointer"):
        return None
    return hashlib.sha256(to_json([str(thread), place])).hexdigest()[:24]


def graph_call(
    offer: Offer, name: str, call_id: str, arguments: JsonObject, key: str
) -> Generator[Coroutine[Any, Any, Any], Any, Result]:
    """Makes a call in a node of a graph. Yields what is to be awaited on the loop of the workspace, and
    raises LangGraph's interrupt where the graph runs."""
    told = hashlib.sha256(to_json([call_id, name, arguments], sort_keys=True)).hexdigest()[:24]
    run_id = f"graph-{key}-{told}"
    own = Future[Any]()
    with _changing:
        step = _steps.setdefault(key, GraphStep())
        result = step.results.setdefault(run_id, own)
        if result is own:
            step.calls += 1
            step.busy[run_id] = Future()
    if result is not own:  # a model asked for the same twice
        return (yield _awaited(result))
    try:
        result.set_result((yield from _made_once(offer, name, arguments, run_id, step)))
    except BaseException as error:
        result.set_exception(error)
        raise
    finally:
        with _changing:
            _done(step.busy.pop(run_id, None))
            step.calls -= 1
            if not step.calls:
                _steps.pop(key, None)
    return result.result()


def _made_once(
    offer: Offer, name: str, arguments: JsonObject, run_id: str, step: GraphStep
) -> Generator[Coroutine[Any, Any, Any], Any, Result]:
    made: Result | Paused = yield _begin(offer, name, arguments, run_id)
    while True:
        asked: int = yield offer.asked(run_id)
        _rest(step, run_id, made, asked)
        if not isinstance(made, Paused):
            return made
        found = None
        while found is None:
            yield _others(step, run_id)
            found = _answers(step, run_id, made)
        made = yield _answered(offer, step, made, found)


async def driven(work: Generator[Coroutine[Any, Any, Any], Any, Result], run: Run) -> Result:
    """Does the work, with `run` to await its parts."""
    given: Any = None
    problem: BaseException | None = None
    while True:
        try:
            part = work.send(given) if problem is None else work.throw(problem)
        except StopIteration as end:
            return end.value
        try:
            given, problem = await run(part), None
        except BaseException as error:  # noqa: BLE001 - the work hears of it, and lets it out
            problem = error


def driven_blocking(work: Generator[Coroutine[Any, Any, Any], Any, Result], wait: Wait) -> Result:
    """Does the same in a thread that may block."""
    given: Any = None
    problem: BaseException | None = None
    while True:
        try:
            part = work.send(given) if problem is None else work.throw(problem)
        except StopIteration as end:
            return end.value
        try:
            given, problem = wait(part), None
        except BaseException as error:  # noqa: BLE001 - the work hears of it, and lets it out
            problem = error


async def _awaited(twin: Future[Any]) -> Any:
    return await asyncio.shield(asyncio.wrap_future(twin))


async def _begin(offer: Offer, name: str, arguments: JsonObject, run_id: str) -> Result | Paused:
    return await offer.answer(name, arguments, run_id=run_id, is_recorded=True)


def _rest(step: GraphStep, run_id: str, made: Result | Paused, asked: int) -> None:
    """Notes that a call has come to a result or a pause."""
    with _changing:
        _done(step.busy.pop(run_id, None))
        step.asked[run_id] = asked
        step.waiting.pop(run_id, None)
        if isinstance(made, Paused):
            step.waiting[run_id] = made.pauses


async def _others(step: GraphStep, run_id: str) -> None:
    """Waits until the other calls of the node are at rest, since an interrupt would leave them alone."""
    with _changing:
        others = [call for run, call in step.busy.items() if run != run_id]
    await asyncio.gather(*(asyncio.shield(asyncio.wrap_future(it)) for it in others))


def _answers(step: GraphStep, run_id: str, paused: Paused) -> dict[str, Any] | None:
    """Returns the answers to pauses of a call. None: calls beside it work again, and may ask for more. Raises
    LangGraph's interrupt if nobody has answered."""
    from langgraph.types import interrupt

    while True:
        with _changing:  # a value that one call gets may hold the answers to its neighbours
            found = {
                pause.token: step.answers.pop(pause.token)
                for pause in paused.pauses
                if pause.token in step.answers
            }
            if found:
                return found
            if any(busy != run_id for busy in step.busy):
                return None
            step.take(interrupt(step.payload()))
            for run, pauses in step.waiting.items():
                if any(pause.token in step.answers for pause in pauses):
                    step.busy.setdefault(run, Future())
            if all(pause.kind == "consent" for pause in paused.pauses):
                step.busy.setdefault(run_id, Future())
                return {}


async def _answered(offer: Offer, step: GraphStep, paused: Paused, found: dict[str, Any]) -> Result | Paused:
    """Answers pauses of a call, and returns how it went on."""
    made: Result | Paused = paused
    for pause in paused.pauses:
        if pause.token in found:
            answer, refused = found[pause.token], None
            if is_object(answer) and list(answer) == ["refused"]:
                answer, refused = None, str(answer["refused"])
            try:
                made = await offer.resumed(pause, answer, refused=refused)
            except SpindleError as error:
                step.problem = error.message
    return made


def _done(call: Future[None] | None) -> None:
    if call is not None:
        call.set_result(None)
