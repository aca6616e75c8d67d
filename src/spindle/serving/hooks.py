"""The addresses of webhooks: `POST /hooks/TOKEN`, for which a run waits, and `POST /hooks/NAME` of a trigger.

Whoever knows the address for which a run waits may call it, once: it is unguessable, and no token is asked
for. The body is data, within bounds, and must fit the schema that the run gave; one that does not fit leaves
the run waiting. Calls for a trigger are signed.
"""

from __future__ import annotations

import logging
from functools import partial
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import parse_qsl

from starlette.requests import ClientDisconnect, Request

from spindle.documents.text import read
from spindle.domain.json_schema import to_json
from spindle.errors import ClientError, ConfigurationError, NotFoundError, SpindleError
from spindle.listening.response import Response
from spindle.runs.waits import HOOK_PATH
from spindle.serving.going_on import RunsGoingOn
from spindle.serving.problems import body_of, of_error, problem, respond
from spindle.serving.triggers import Trigger, triggers_of
from spindle.sources.events.cloudevents import decoded
from spindle.sources.events.links.signature import problem as signature_problem

if TYPE_CHECKING:
    from starlette.types import Receive, Scope, Send

    from spindle.app import Spindle
    from spindle.domain.trigger import TriggerConfig
    from spindle.runs.outcomes import OpenPause
    from spindle.serving.access import ServingAccess
    from spindle.settings import Settings

logger = logging.getLogger("spindle")

MAX_BODY: Final = 1024 * 1024
MAX_FIELDS: Final = 1000
MAX_TOKEN: Final = 200
EARLY: Final = 2
"""Seconds after which to try again: the run may not have come to its wait yet."""


class Webhooks:
    """Answers at these paths."""

    def __init__(self, spindle: Spindle, access: ServingAccess) -> None:
        self._spindle = spindle
        self._access = access
        self._going_on = RunsGoingOn("its webhook was called", partial(logger.warning, "%s"))
        self._triggers: dict[str, TriggerConfig] = {}
        self._read: Settings | None = None
        """The settings of which the triggers are known."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            response = await self._take(Request(scope, receive))
        except ClientDisconnect:
            return
        except SpindleError as error:
            response = respond(of_error(error))
        await response(scope, receive, send)

    async def _take(self, request: Request) -> Response:
        if request.method != "POST":
            return respond(problem(405, "client", "a webhook is called by POST"), {"Allow": "POST"})
        name = request.scope["path"].removeprefix(HOOK_PATH)
        trigger = self._trigger(name)
        if trigger is not None:
            return await self._start(trigger, request)
        pause = await self._waiting(name)
        if pause is None:
            message = "no run waits here: it was called before, its time is over, or it does not wait yet"
            return respond({**problem(404, "not_found", message), "retry_after": EARLY})
        body = await body_of(request, self._limit())
        try:
            value = _value(body, request.headers.get("content-type", ""))
        except (ConfigurationError, ValueError) as error:
            return respond(problem(400, "invalid_arguments", f"the body cannot be read: {error}"))
        try:
            going_on = await self._spindle.runner.accept(pause, value, principal=pause.principal)
        except (ClientError, NotFoundError):
            return respond(problem(410, "not_found", "it was called before, or its time is over"))
        if going_on is not None:
            self._going_on.begin(going_on)
        return Response(to_json({"accepted": True}), 202, media_type="application/json")

    def _trigger(self, name: str) -> Trigger | None:
        """Returns the trigger of this name that webhooks fire."""
        settings = self._spindle.settings
        if self._read is not settings:
            self._triggers, self._read = triggers_of(self._spindle), settings
        config = self._triggers.get(name)
        if config is None or config.kind != "webhook":
            return None
        return Trigger(self._spindle, name, config, logger.warning)

    async def _start(self, trigger: Trigger, request: Request) -> Response:
        """Starts the flow of a trigger, if the call is signed and was not made before."""
        assert trigger.config.secret is not None
        body = await body_of(request, self._limit())
        headers = dict(request.headers)
        wrong = signature_problem(trigger.config.secret.get_secret_value(), headers, body)
        id = headers.get("webhook-id", "")
        if wrong is not None or len(id) > MAX_TOKEN:
            return respond(problem(401, "auth", wrong or "its id is too long"))
        event = decoded(body, headers, trigger.name).to_dict()
        run = await trigger.fire({**event, "id": id})
        return Response(to_json({"accepted": True, "run": run.id}), 202, media_type="application/json")

    async def _waiting(self, token: str) -> OpenPause | None:
        if not token or len(token) > MAX_TOKEN or not token.isalnum():
            return None
        runner = self._spindle.runner
        found = await runner.due.waiting(token)
        pause = runner.details(found) if found is not None else None
        # The token of another pause is no address: those are answered by whom they ask.
        is_hook = pause is not None and pause.details.get("webhook") == f"{HOOK_PATH}{token}"
        return pause if is_hook else None

    def _limit(self) -> int:
        return min(MAX_BODY, self._access.config.max_body_size)


def _value(body: bytes, content_type: str) -> Any:
    """Returns the body as templates see it: JSON, the fields of a form, or a text."""
    kind = content_type.partition(";")[0].strip().lower()
    text = body.decode()
    if kind == "application/json" or kind.endswith("+json"):
        return read(text, "json").value if text else None
    if kind == "application/x-www-form-urlencoded":
        return dict(parse_qsl(text, keep_blank_values=True, max_num_fields=MAX_FIELDS))
    return text
