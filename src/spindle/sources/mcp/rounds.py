"""A request that its server answers with questions first, made again with the answers until there is a
result."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, TypeVar

from spindle.domain.json_schema import is_object
from spindle.errors import AuthError
from spindle.mcp_protocol.names import URL_ELICITATION_REQUIRED
from spindle.sources.mcp.questions import (
    MAX_QUESTIONS,
    Asked,
    answers_to,
    comes_back_for,
    links_of,
    refuse_if_declined,
    repeated_with,
    require_visited,
    too_many,
)

if TYPE_CHECKING:
    from spindle.domain.call import Call
    from spindle.domain.json_schema import JsonObject

FIRST_WAIT, LONGEST_WAIT = 0.05, 1.0

AnswerT = TypeVar("AnswerT")
Send = Callable[["JsonObject"], Awaitable[AnswerT | Asked]]
"""Makes the request once, with answers and state as further parameters."""


async def until_done(source: str, call: Call, send: Send[AnswerT], *, is_modern: bool) -> AnswerT | Asked:
    """The result, once all that the server asks is answered. What a client that comes back
    is asked is returned as it is. Raises the pause that waits for an answer."""
    if not is_modern:
        refuse_if_declined(call)
    given = repeated_with(call) if is_modern else {}
    result = await _sent(source, send, given)
    wait, rounds = FIRST_WAIT, 0
    while isinstance(result, Asked):
        given = {"requestState": result.state}
        if result.requests:
            if comes_back_for(call, result):
                return result
            rounds += 1
            if rounds > MAX_QUESTIONS:
                raise too_many(source, call.tool)
            given = await answers_to(call, source, result)
            if not is_modern:
                require_visited(call, given)
        else:
            # It asks nobody, and only wants to be asked again: until the call's own timeout.
            await asyncio.sleep(wait)
            wait = min(wait * 2, LONGEST_WAIT)
        result = await _sent(source, send, given if is_modern else {})
    return result


async def _sent(source: str, send: Send[AnswerT], given: JsonObject) -> AnswerT | Asked:
    """The server's answer. Pages that it wants visited first are questions like others."""
    try:
        return await send(given)
    except AuthError as error:
        about = error.details if is_object(error.details) else {}
        if about.get("code") != URL_ELICITATION_REQUIRED:
            raise
        # It has not done anything: once the pages were visited, the same request is made again.
        asked = links_of(source, about.get("data"))
        requests = {key: {"method": "elicitation/create", "params": item} for key, item in asked.items()}
        return Asked(requests, None, {"resultType": "input_required", "inputRequests": requests})
