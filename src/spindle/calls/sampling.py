"""A language model for servers that ask for one in the middle of a call or another request (sampling),
within limits.

Whoever makes a call has it answered by the model of their own: an agent, a client that can. For all others
the workspace's answers, if it has one.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Generator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from spindle.domain.json_schema import JsonObject
from spindle.errors import ApprovalRequired, ClientError, PermissionDeniedError

if TYPE_CHECKING:
    from spindle.domain.call import Host
    from spindle.domain.peer import Peer

SAMPLE = "sampling/createMessage"

MAX_OF_CLIENT = 100
"""Answers of a client's own model during one call: the client has its limits and its person."""

Sample = Callable[[JsonObject], Awaitable[JsonObject]]
"""A model's answer to the parameters of MCP's `sampling/createMessage`."""


@dataclass(frozen=True, slots=True)
class Sampling:
    """A model that answers servers."""

    sample: Sample
    max_requests: int
    """Answers that one call may ask for."""
    approve: bool = False
    """True if a person must allow each."""


own_model: ContextVar[Sampling | None] = ContextVar("spindle_own_model", default=None)
"""The model of whoever makes the calls of this context, if they have one."""


@contextmanager
def answered_by(model: Sampling | None) -> Generator[None]:
    """Has this model answer for the calls that are made meanwhile, and for those that they make."""
    token = own_model.set(model)
    try:
        yield
    finally:
        own_model.reset(token)


def of_client(peer: Peer) -> Sampling | None:
    """The model of a client that made a call, if it has one."""
    if not peer.can_answer(SAMPLE):
        return None

    async def sample(params: JsonObject) -> JsonObject:
        return await peer.ask(SAMPLE, params)

    return Sampling(sample, MAX_OF_CLIENT)


class CallSampling:
    """The answers of a model during one call."""

    def __init__(self, model: Sampling, source: str, name: str, host: Host) -> None:
        """`name` is that of the tool, or of the request, during which the source asks."""
        self._model = model
        self._source = source
        self._name = name
        self._host = host
        self._count = 0

    async def answer(self, params: JsonObject) -> JsonObject:
        """The model's answer. Raises ApprovalRequired if a person must allow it first."""
        self._count += 1
        if self._count > self._model.max_requests:
            raise ClientError(f"{self._name} asked the model more than {self._model.max_requests} times")
        if self._model.approve:
            self._require_approval(params)
        return await self._model.sample(params)

    def _require_approval(self, params: JsonObject) -> None:
        # What it is asked by `_meta` or a task differs each time, and the model is not shown it.
        shown = ("messages", "systemPrompt", "maxTokens", "temperature", "stopSequences")
        request: dict[str, Any] = {key: params[key] for key in shown if key in params}
        reply = self._host.ask(
            ApprovalRequired(
                f"{self._source} wants the answer of a language model to go on with {self._name}",
                source=self._source,
                tool=self._name,
                details={"tool": self._name, "request": request, "repeats": True},
            )
        )
        if reply.refused is not None:
            reason = f": {reply.refused}" if reply.refused else ""
            raise PermissionDeniedError(f"the answer of a model was not approved{reason}")
