"""The guard before an app that is served over HTTP."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import TYPE_CHECKING

from spindle.listening.connections import recognise
from spindle.listening.headers import HEADERS, RequestHeaders
from spindle.listening.response import Response
from spindle.serving.access import ANYBODY, PRINCIPAL, Public, nothing_public
from spindle.serving.cors import ORIGIN, readable_by
from spindle.serving.problems import problem, respond
from spindle.serving.running import end_without_answer

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Receive, Scope, Send

    from spindle.domain.serve import ServeConfig
    from spindle.serving.access import ServingAccess


class Guard:
    """Lets requests through to an app by the rules of `ServingAccess`, on every path and method."""

    def __init__(
        self,
        app: ASGIApp,
        access: ServingAccess,
        public: Public = nothing_public,
        posts: Mapping[str, ASGIApp] | None = None,
    ) -> None:
        """`posts`: by path, apps that POSTs go straight to, past all that stands before `app`."""
        self._app = app
        self._access = access
        self._public = public
        self._posts = posts or {}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http":
            access = self._access
            if access.on_request is not None and (looking := access.on_request()) is not None:
                await looking
            headers = scope[HEADERS] = RequestHeaders(scope)
            admitted = access.admitted_before(scope, headers)
            if admitted is None:
                admitted = await access.admit(scope, self._public)
                if ORIGIN in scope:
                    send = readable_by(scope[ORIGIN], send)
                if isinstance(admitted, Response):
                    if access.audit is not None:
                        access.audit.turned_away(scope, admitted)
                    await admitted(scope, receive, send)
                    return
                access.remember(scope, headers, admitted)
                if admitted is not ANYBODY:
                    recognise(scope)
            scope[PRINCIPAL] = admitted
            client, task = admitted.id, asyncio.current_task()
            if not access.begin(client, scope, task):
                refused = _too_many(access.config)
                if access.audit is not None:
                    access.audit.turned_away(scope, refused, client)
                await refused(scope, receive, send)
                return
            app = self._posts.get(scope["path"], self._app) if scope["method"] == "POST" else self._app
            try:
                await app(scope, receive, send)
            except asyncio.CancelledError:
                if not access.running.was_revoked():
                    raise
                await end_without_answer(access.revoked(scope), scope, receive, send)
            finally:
                access.running.end(client, task)
            return
        if scope["type"] == "websocket":
            await send({"type": "websocket.close", "code": 1008})
            return
        await self._app(scope, receive, send)


def _too_many(config: ServeConfig) -> Response:
    message = f"this client has {config.quotas.requests} requests running or waiting"
    body = problem(429, "rate_limited", message, "wait for one to end; see serve.quotas.requests")
    return respond({**body, "retryable": True, "retry_after": 1})
