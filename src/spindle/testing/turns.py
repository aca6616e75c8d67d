"""The turns of a scripted model: it answers, fails, or breaks the connection."""

from __future__ import annotations

import asyncio
import contextlib
import re
import threading
from collections.abc import Awaitable, Callable, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

from spindle.domain.json_schema import to_json

if TYPE_CHECKING:
    from spindle.testing.requests import ModelRequest

PATIENCE = 30.0

Stop = Literal["end", "length", "content_filter", "refusal"]


class Gate:
    """Holds an answer back until the test opens it. Works across threads and event loops.

    `reached` tells the test that the request has arrived and waits here.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._open: Future[None] = Future()
        self._reached: Future[None] = Future()

    def open(self) -> None:
        """Lets all waiting and all later requests through."""
        self._settle(self._open)

    def wait_reached(self, timeout: float = PATIENCE) -> None:
        """Blocks until a request waits here."""
        self._reached.result(timeout)

    async def reached(self, timeout: float = PATIENCE) -> None:
        """Waits until a request waits here, without blocking."""
        async with asyncio.timeout(timeout):
            await _settled(self._reached)

    async def passed(self) -> None:
        """Waits until the gate is open. Called by the server."""
        self._settle(self._reached)
        await _settled(self._open)

    def _settle(self, future: Future[None]) -> None:
        with self._lock:
            if not future.done():
                future.set_result(None)


async def _settled(future: Future[None]) -> None:
    loop = asyncio.get_running_loop()
    settled = asyncio.Event()

    def wake(_: object) -> None:
        with contextlib.suppress(RuntimeError):  # the loop was closed: no caller waits any more
            loop.call_soon_threadsafe(settled.set)

    future.add_done_callback(wake)
    await settled.wait()


@dataclass(frozen=True, slots=True)
class Usage:
    """The numbers of tokens that an answer reports."""

    input_tokens: int = 10
    output_tokens: int = 5
    cached_tokens: int = 0
    """The part of the input that was read from the provider's cache."""
    reasoning_tokens: int = 0
    """The part of the output that was reasoning."""


@dataclass(frozen=True, slots=True)
class ToolCall:
    """A call that the model asks for. Arguments given as a string are sent unchanged, so they can be
    broken JSON. Without an `id`, one is made up."""

    name: str
    arguments: dict[str, Any] | str = field(default_factory=dict[str, Any])
    id: str | None = None

    @property
    def written(self) -> str:
        """The arguments as text, the way most APIs carry them."""
        return self.arguments if isinstance(self.arguments, str) else to_json(self.arguments).decode()


@dataclass(frozen=True, slots=True)
class Turn:
    """One answer of the model: text, calls of tools, both, or nothing at all.

    `stop` is the reason for ending, if not the natural one: `length` for the limit of tokens,
    `content_filter`, or `refusal`, whose words are the text. The answer waits at `after` before its first
    byte and, if it is streamed, at `midway` after its first piece.
    """

    text: str = ""
    calls: Sequence[ToolCall] = ()
    thought: str = ""
    stop: Stop = "end"
    usage: Usage = Usage()
    after: Gate | None = None
    midway: Gate | None = None


@dataclass(frozen=True, slots=True)
class Failure:
    """An answer with an error status, in the API's own form."""

    status: int
    message: str = "the script says so"
    retry_after: float | None = None
    after: Gate | None = None


@dataclass(frozen=True, slots=True)
class Dropped:
    """The connection breaks: after the text if the answer is streamed, otherwise within the answer."""

    text: str = ""
    after: Gate | None = None


Answer = Turn | Failure | Dropped
Scripted = Answer | str
"""A string is a turn that says it."""

Reply = Callable[["ModelRequest"], Scripted | Awaitable[Scripted]]
"""Makes the answer to a request."""


def as_answer(scripted: object) -> Answer:
    """The answer that an entry of a script means."""
    if isinstance(scripted, str):
        return Turn(scripted)
    if isinstance(scripted, Turn | Failure | Dropped):
        return scripted
    raise TypeError(
        f"a turn of a script is a Turn, a Failure, a Dropped, a string or a function, not {scripted!r}"
    )


def pieces(text: str) -> list[str]:
    """The text split as it is streamed, a word at a time."""
    return re.findall(r"\s*\S+\s*$|\s*\S+|\s+$", text)


def halves(text: str) -> list[str]:
    """Arguments split as they are streamed, into parts that are not JSON by themselves."""
    middle = len(text) // 2
    return [part for part in (text[:middle], text[middle:]) if part]
