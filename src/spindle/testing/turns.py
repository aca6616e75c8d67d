"""What a scripted model does when it is asked: it answers, fails, or breaks the connection."""

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
    """Holds an answer back until the test opens it. Works between threads and event loops.

    `reached` tells the test that the request has come and is waiting here.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._open: Future[None] = Future()
        self._reached: Future[None] = Future()

    def open(self) -> None:
        """Let all through that wait, and all that come."""
        self._settle(self._open)

    def wait_reached(self, timeout: float = PATIENCE) -> None:
        """Block until a request waits here."""
        self._reached.result(timeout)

    async def reached(self, timeout: float = PATIENCE) -> None:
        """The same without blocking."""
        async with asyncio.timeout(timeout):
            await _settled(self._reached)

    async def passed(self) -> None:
        """Wait until it is open. The server does this."""
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
        with contextlib.suppress(RuntimeError):  # the loop was closed: nobody waits any more
            loop.call_soon_threadsafe(settled.set)

    future.add_done_callback(wake)
    await settled.wait()


@dataclass(frozen=True, slots=True)
class Usage:
    """The numbers of tokens that an answer reports."""

    input_tokens: int = 10
    output_tokens: int = 5
    cached_tokens: int = 0
    """Of the input, how many were read from the provider's cache."""
    reasoning_tokens: int = 0
    """Of the output, how many were thoughts."""


@dataclass(frozen=True, slots=True)
class ToolCall:
    """A call that the model asks for. Arguments that are a string are sent as they are: so JSON can be
    broken. `id` is made up where it is left out."""

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

    `stop` says why it ended, where that is not the natural reason: `length` for the limit of tokens,
    `content_filter`, or `refusal`, whose words are the text. It waits at `after` before its first byte
    and, where the answer is streamed, at `midway` behind its first piece.
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
    """An answer with a status that is an error, in the form that the API gives it."""

    status: int
    message: str = "the script says so"
    retry_after: float | None = None
    after: Gate | None = None


@dataclass(frozen=True, slots=True)
class Dropped:
    """The connection breaks: after the text where the answer is streamed, else within the answer."""

    text: str = ""
    after: Gate | None = None


Answer = Turn | Failure | Dropped
Scripted = Answer | str
"""A string is a turn that says it."""

Reply = Callable[["ModelRequest"], Scripted | Awaitable[Scripted]]
"""Makes the answer to a request."""


def as_answer(scripted: object) -> Answer:
    if isinstance(scripted, str):
        return Turn(scripted)
    if isinstance(scripted, Turn | Failure | Dropped):
        return scripted
    raise TypeError(
        f"a turn of a script is a Turn, a Failure, a Dropped, a string or a function, not {scripted!r}"
    )


def pieces(text: str) -> list[str]:
    """Text the way it is streamed, a word at a time."""
    return re.findall(r"\s*\S+\s*$|\s*\S+|\s+$", text)


def halves(text: str) -> list[str]:
    """Arguments the way they are streamed, in parts that are not JSON by themselves."""
    middle = len(text) // 2
    return [part for part in (text[:middle], text[middle:]) if part]
