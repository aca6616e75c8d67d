"""A model behind an endpoint that speaks as OpenAI's `/embeddings` does: a service, or one's own server."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any, Final

from spindle.domain.json_schema import from_json, is_array, is_object, to_json
from spindle.errors import (
    CallTimeoutError,
    ConnectionFailedError,
    ResultTooLargeError,
    ServerError,
    SpindleError,
)
from spindle.http.addresses import plain_url
from spindle.http.client import HttpClient
from spindle.http.credentials import bearer
from spindle.http.exchange import RedirectPolicy, exchange
from spindle.http.failures import HttpFailure, as_error
from spindle.http.request import Prepared, with_credential
from spindle.http.responses import to_error
from spindle.ports.embedder import Purpose
from spindle.settings.search import SearchSettings
from spindle.threads import in_turn

MAX_ANSWER: Final = 32 * 1024 * 1024
ATTEMPTS: Final = {"tool": 4, "query": 2}
"""A search does not wait for long: it asks again only where a connection was lost."""
FIRST_WAIT = 0.25
LONGEST_WAIT: Final = 20.0
"""Seconds before another attempt: an endpoint that asks for more is away."""
ANSWER_TIMEOUT: Final = 60.0
TOO_MUCH: Final = (400, 413, 422)
"""Statuses with which endpoints refuse more texts, or longer ones, than they take."""
SHORTEST: Final = 200
"""Characters of a text that every endpoint is expected to take."""
NAME: Final = "the endpoint of search"
_POLICY: Final = RedirectPolicy(most=3, same_origin=True, keeps_method=True)


class EndpointEmbedder:
    """Asks an endpoint for vectors, some texts at a time; fewer or shorter ones where it refuses these."""

    batch = 64

    def __init__(self, wanted: SearchSettings) -> None:
        assert wanted.model is not None
        self._wanted = wanted
        self._name = wanted.model
        size = f"/{wanted.dimensions}" if wanted.dimensions else ""
        self.model = f"{plain_url(wanted.base_url)} {wanted.model}{size}"
        self._http = HttpClient(10.0)
        self._most = 2 * self.batch

    async def embed(self, texts: Sequence[str], purpose: Purpose) -> Sequence[Sequence[float]]:
        found: list[Sequence[float]] = []
        start = 0
        while start < len(texts):
            part = texts[start : start + self._most]
            found += await self._vectors(part, purpose)
            start += len(part)
        return found

    async def _vectors(self, texts: Sequence[str], purpose: Purpose) -> Sequence[Sequence[float]]:
        try:
            return await self._asked(texts, purpose)
        except SpindleError as error:
            if error.status not in TOO_MUCH or (len(texts) == 1 and len(texts[0]) <= SHORTEST):
                raise
        if len(texts) == 1:
            return await self._vectors([texts[0][: len(texts[0]) // 2]], purpose)
        self._most = len(texts) // 2  # remembered, so that not every batch is refused first
        return await self.embed(texts, purpose)

    async def _asked(self, texts: Sequence[str], purpose: Purpose) -> list[Sequence[float]]:
        """Asks again, a few times, where that may help."""
        for attempt in range(1, ATTEMPTS[purpose]):
            try:
                return await self._once(texts)
            except SpindleError as error:
                is_lost = isinstance(error, ConnectionFailedError)
                passes = is_lost and error.sent if purpose == "query" else is_lost or error.retryable
                wait = FIRST_WAIT * 4 ** (attempt - 1) if error.retry_after is None else error.retry_after
                if not passes or wait > LONGEST_WAIT:
                    raise
            await asyncio.sleep(wait)
        return await self._once(texts)

    async def _once(self, texts: Sequence[str]) -> list[Sequence[float]]:
        body: dict[str, Any] = {"model": self._name, "input": list(texts)}
        if self._wanted.dimensions:
            body["dimensions"] = self._wanted.dimensions
        headers = {"accept": "application/json", "content-type": "application/json"}
        request = Prepared("POST", f"{self._wanted.base_url}/embeddings", headers, to_json(body))
        if self._wanted.api_key:
            request = with_credential(request, bearer(self._wanted.api_key))
        try:
            async with asyncio.timeout(ANSWER_TIMEOUT):
                data = await self._read(request)
        except TimeoutError:
            raise CallTimeoutError(f"{NAME} did not answer within {ANSWER_TIMEOUT:g} s") from None
        except HttpFailure as failure:
            raise _failed(failure) from failure
        return await in_turn(_read_vectors, data, len(texts))

    async def _read(self, request: Prepared) -> bytes:
        async with exchange(self._http, request, _POLICY, timeout=ANSWER_TIMEOUT) as answer:
            if answer.status < 300:
                return await answer.read(MAX_ANSWER)
            error = to_error(NAME, answer, await answer.read(64 * 1024))
        error.message = _plain(error.message)
        error.details = None
        if error.status in (401, 403):
            error.hint = "set search.api_key"
        elif error.status == 404:
            error.hint = "check search.base_url and search.model"
        raise error

    async def close(self) -> None:
        await self._http.aclose()


def _failed(failure: HttpFailure) -> SpindleError:
    error = as_error(
        failure,
        NAME,
        reach_hint="check the network, and search.base_url",
        inside_hint="check search.base_url",
        size_setting="limit",
    )
    error.message = _plain(error.message)
    if isinstance(error, ResultTooLargeError):
        error.hint = "check search.model"
    return error


def _plain(message: str) -> str:
    return message.replace(f"{NAME!r}", NAME, 1)


def _read_vectors(data: bytes, count: int) -> list[Sequence[float]]:
    try:
        answer: Any = from_json(data)
    except ValueError:
        raise ServerError(f"{NAME} did not answer with JSON", hint="check search.base_url") from None
    items: Any = answer.get("data") if is_object(answer) else None
    if not is_array(items) or len(items) != count:
        raise ServerError(f"{NAME} did not answer with a list `data` of {count} vectors")
    found: list[Any] = [None] * count
    for place, item in enumerate(items):
        at = item.get("index", place) if is_object(item) else None
        vector: Any = item.get("embedding") if is_object(item) else None
        if not isinstance(at, int) or not 0 <= at < count or found[at] is not None or not is_array(vector):
            raise ServerError(f"{NAME} did not answer with one `embedding` for each `index`")
        found[at] = vector
    return found
