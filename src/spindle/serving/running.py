"""The requests that a server answers at the moment: how many each client has, and their end when the token
that they showed is revoked."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Mapping
from typing import TYPE_CHECKING, Any

from spindle.listening.response import Response

if TYPE_CHECKING:
    from starlette.types import Receive, Send

Scope = Mapping[str, Any]


class RunningRequests:
    """The tasks that answer requests, and the client and scope of each."""

    def __init__(self) -> None:
        self._counts: dict[str, int] = {}
        self._running: dict[asyncio.Task[Any] | None, tuple[str, Scope]] = {}
        self._revoked: set[asyncio.Task[Any]] = set()

    def __len__(self) -> int:
        return len(self._running)

    def begin(self, client: str, scope: Scope, task: asyncio.Task[Any] | None, most: int) -> bool:
        """Counts a request of a client, which this task answers, until its `end`. Returns False if the client
        has too many."""
        count = self._counts.get(client, 0)
        if count >= most:
            return False
        self._counts[client] = count + 1
        self._running[task] = client, scope
        return True

    def end(self, client: str, task: asyncio.Task[Any] | None) -> None:
        """The request of a client that this task answers is over."""
        del self._running[task]
        count = self._counts[client]
        if count == 1:
            del self._counts[client]
        else:
            self._counts[client] = count - 1
        if self._revoked and task is not None:
            self._revoked.discard(task)

    async def end_revoked(self, is_revoked: Callable[[Scope, str], Awaitable[bool]]) -> None:
        """Ends the requests that this says of, given their scope and their client, that nobody may make them
        any more."""
        for task, (client, scope) in list(self._running.items()):
            if task is not None and await is_revoked(scope, client) and task in self._running:
                self._revoked.add(task)
                task.cancel()

    def is_revoked(self) -> bool:
        """True if this task is cancelled since its token is good for nothing."""
        return asyncio.current_task() in self._revoked

    def was_revoked(self) -> bool:
        """The same. The task is then no longer cancelled."""
        task = asyncio.current_task()
        if task is None or task not in self._revoked:
            return False
        task.uncancel()
        return True


async def end_without_answer(refusal: Response, scope: Any, receive: Receive, send: Send) -> None:
    """Ends a request with a refusal; where its answer has begun, without the rest of it."""
    try:
        await refusal(scope, receive, send)
    except RuntimeError:  # the head of an answer is sent
        with contextlib.suppress(RuntimeError, OSError):
            await send({"type": "http.response.body", "body": b"", "more_body": False})
