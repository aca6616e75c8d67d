"""The pauses of people over HTTP: `GET /pauses`, `POST /pauses/TOKEN` and the document of both."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING

from spindle.domain.json_schema import JsonObject, to_json
from spindle.errors import SpindleError
from spindle.listening.response import Response
from spindle.rest import runs_document
from spindle.rest.forms import JSON
from spindle.serving.answering import TakenAnswers, answered_for, as_json, waiting_for
from spindle.serving.browser_sessions import SESSION
from spindle.serving.resource import base_url

if TYPE_CHECKING:
    from starlette.requests import Request

    from spindle.app import Spindle
    from spindle.domain.identity import Principal
    from spindle.serving.access import ServingAccess
    from spindle.serving.browser_sessions import BrowserSession

ANSWERED = 50
"""Answers that a list of pauses tells of."""


class PausesApi:
    """Lists what waits, and takes answers."""

    def __init__(
        self, spindle: Spindle, access: ServingAccess, body: Callable[[Request], Awaitable[JsonObject]]
    ) -> None:
        """`body` reads the object that a request brings."""
        self._spindle = spindle
        self._access = access
        self._body = body
        self._answering = TakenAnswers(spindle)

    async def document(self, request: Request) -> Response:
        """Answers with the description of these paths."""
        url = base_url(self._access.config, request.scope)
        return _json(runs_document.document(url, wants_token=self._access.wants_token))

    async def listed(self, request: Request) -> Response:
        """Answers with what waits for whoever asks, and with what was answered."""
        person = self._person(request)
        waiting = await waiting_for(self._spindle, person)
        return _json(as_json(waiting, await answered_for(self._spindle, person, ANSWERED)))

    async def answer(self, request: Request) -> Response:
        """Takes an answer."""
        token, person = request.path_params["token"], self._person(request)
        error: BaseException | None = None
        try:
            return _json(await self._answering.take(token, await self._body(request), person))
        except SpindleError as refused:
            error = refused
            raise
        finally:
            if self._access.audit is not None:
                self._access.audit.did(self._access.principal(request.scope), "pause.answer", token, error)

    def _person(self, request: Request) -> Principal | None:
        """Returns the one who answers: None is the owner, whose browser came by a link."""
        session: BrowserSession | None = request.scope.get(SESSION)
        is_owner = session is not None and session.is_owner
        return None if is_owner else self._access.principal(request.scope)


def _json(body: JsonObject) -> Response:
    return Response(to_json(body, default=str), media_type=JSON)
