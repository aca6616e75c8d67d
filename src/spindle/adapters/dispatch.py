"""Makes the calls that a model asked for in one turn, all at once, and answers in the form of its API."""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Generic, TypeVar, cast

from spindle.calls.content import Part, parts_of
from spindle.calls.framing import framed_parts
from spindle.calls.reported import result_of
from spindle.domain.call import Result
from spindle.domain.json_schema import JsonObject, is_object
from spindle.errors import Interruption, SpindleError
from spindle.runs.outcomes import Continuing, Finished, OpenPause, Outcome, Paused

if TYPE_CHECKING:
    from spindle.adapters.tool_names import Offer

D = TypeVar("D", bound="Dispatched")


@dataclass(frozen=True, slots=True)
class RequestedCall:
    """A call that a model asks for. `form` names the API in whose form it is answered."""

    id: str
    name: str
    arguments: object
    form: str


@dataclass(frozen=True, slots=True)
class PausedCall:
    """A call that waits for a person. When restored it has no `pauses`: get them with `app.pauses(run=…)`."""

    id: str
    name: str
    run_id: str
    form: str
    pauses: tuple[OpenPause, ...] = ()


class CallPaused(Interruption):
    """Calls wait for a person, and the model cannot go on without their results. Their runs are stored:
    answer each pause in `calls` by its token, with `app.resume`."""

    def __init__(self, calls: Sequence[PausedCall]) -> None:
        first = next((pause for call in calls for pause in call.pauses), None)
        names = ", ".join(call.name for call in calls)
        said = f": {first.message}" if first is not None else ""
        super().__init__(
            f"{names} waits for a person{said}",
            tool=first.tool if first else None,
            source=first.source if first else None,
            details={"pauses": [pause.to_dict() for call in calls for pause in call.pauses]},
        )
        self.kind = first.kind if first is not None else "input"  # pyright: ignore[reportAttributeAccessIssue]
        self.calls = tuple(calls)


@dataclass
class Dispatched(ABC):
    """The outcome of the calls of one turn."""

    order: list[str]
    answers: dict[str, JsonObject] = field(default_factory=dict[str, JsonObject])
    """The answers in the API's form, by the id of the call."""
    paused: dict[str, PausedCall] = field(default_factory=dict[str, PausedCall])
    """The calls that wait for a person, by their id."""

    @property
    def messages(self) -> list[JsonObject]:
        """The messages to send back to the model, in the order of the calls. Raises CallPaused while one
        of them waits: the API takes all answers or none."""
        if self.paused:
            raise CallPaused(list(self.paused.values()))
        return self.enveloped([self.answers[call_id] for call_id in self.order])

    async def finish(self, call_id: str, outcome: Outcome | SpindleError) -> None:
        """Completes a paused call with the outcome that `app.resume` returned, or the error that it
        raised."""
        waiting = self.paused.get(call_id)
        if waiting is None:
            known = ", ".join(self.paused) or "none"
            raise KeyError(f"the call {call_id!r} is not paused; paused are: {known}")
        if isinstance(outcome, Continuing):
            return
        made = outcome.result if isinstance(outcome, Finished) else outcome
        await self.take(RequestedCall(call_id, waiting.name, None, waiting.form), made)

    async def take(self, asked: RequestedCall, made: Result | Paused | SpindleError) -> None:
        """Stores the result of a call, or its pause."""
        if isinstance(made, Paused):
            self.paused[asked.id] = PausedCall(asked.id, asked.name, made.run_id, asked.form, made.pauses)
            return
        result = result_of(made) if isinstance(made, SpindleError) else made
        parts = framed_parts(await parts_of(result), asked.name)
        self.answers[asked.id] = self.answered(asked, parts, result.is_error)
        self.paused.pop(asked.id, None)

    @abstractmethod
    def answered(self, asked: RequestedCall, parts: list[Part], is_error: bool) -> JsonObject:
        """Returns the answer to one call in the API's form."""

    @abstractmethod
    def enveloped(self, answers: list[JsonObject]) -> list[JsonObject]:
        """Returns the messages that carry all answers."""

    def to_dict(self) -> JsonObject:
        """Returns the state as JSON, so that another process can continue with the paused calls."""
        waiting = {
            call.id: {"name": call.name, "run_id": call.run_id, "form": call.form}
            for call in self.paused.values()
        }
        return {"order": self.order, "answers": self.answers, "paused": waiting}

    @classmethod
    def from_dict(cls: type[D], data: JsonObject) -> D:
        """Restores the state that `to_dict` returned."""
        paused = {call_id: PausedCall(call_id, **call) for call_id, call in data["paused"].items()}
        return cls(list(data["order"]), dict(data["answers"]), paused)


class Dispatching(ABC, Generic[D]):
    """The tools of a catalog for one API."""

    def __init__(self, offer: Offer) -> None:
        self._offer = offer

    @property
    def names(self) -> dict[str, str]:
        """The tools' names in the catalog, by the names that the model knows."""
        return {name: tool.name for name, tool in self._offer.tools.items()}

    def __contains__(self, name: object) -> bool:
        return name in self._offer.tools

    def __iter__(self) -> Iterator[str]:
        return iter(self._offer.tools)

    def __len__(self) -> int:
        return len(self._offer.tools)

    async def dispatch(self, asked: Any) -> D:
        """Makes the calls that a model asks for, all at the same time within the sources' limits. `asked`
        is the API's response, or a list of the calls alone. An error becomes an answer to the model; a
        call that waits for a person is in `paused`."""
        calls = list(self.calls_in(asked))
        done = self.begin([call.id for call in calls])

        async def one(call: RequestedCall) -> None:
            await done.take(call, await self._offer.answer(call.name, call.arguments))

        async with asyncio.TaskGroup() as tasks:
            for call in calls:
                tasks.create_task(one(call), name=f"call of {call.name}")
        return done

    def dispatch_blocking(self, asked: Any) -> D:
        """Does the same and blocks, for use in another thread than the app's."""
        return self._offer.home.wait(self.dispatch(asked), "`await dispatch(…)`")

    @abstractmethod
    def calls_in(self, asked: Any) -> Iterator[RequestedCall]:
        """Yields the calls in a response of the API."""

    @abstractmethod
    def begin(self, order: list[str]) -> D:
        """Returns the empty outcome of a turn with these calls."""


def plain(value: Any) -> Any:
    """Returns an object of a client library as the JSON that it was made from."""
    if is_object(value) or value is None:
        return value
    if isinstance(value, list | tuple):
        return [plain(item) for item in cast("Sequence[Any]", value)]
    dump = getattr(value, "model_dump", None)
    if dump is None:
        raise TypeError(f"this is neither a response of a model API nor a list of calls: {value!r}")
    return dump(mode="json", exclude_none=True, warnings=False)
