"""Requests of MCP other than calls of tools, behind the same guards: credential, breaker, limits, time limit
and record."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, cast

from spindle.calls.limits import hold
from spindle.calls.record import ended_by, fit_to_store, hide_secrets
from spindle.domain.call import CallRecord, new_id
from spindle.domain.json_schema import is_object
from spindle.errors import (
    AuthError,
    CallTimeoutError,
    ClientError,
    NotFoundError,
    PermissionDeniedError,
    ServerError,
    SpindleError,
)
from spindle.ports.source import RelaySession

if TYPE_CHECKING:
    from spindle.auth.credentials import Credentials
    from spindle.calls.guards import Guards, SourceGuards
    from spindle.calls.record import Recorder
    from spindle.catalog.catalog import Catalog
    from spindle.domain.identity import Credential, Principal
    from spindle.domain.json_schema import JsonObject
    from spindle.domain.source import SourceConfig

RECORDED = frozenset({"resources/read", "prompts/get"})
"""The requests that history keeps. The others only look around."""
RESOURCE_NOT_FOUND, INVALID_PARAMS = -32002, -32602
"""Codes of JSON-RPC."""


class SourceRequests:
    """Makes requests of sources that relay, on behalf of a principal."""

    def __init__(
        self,
        catalog: Catalog,
        credentials: Credentials,
        guards: SourceGuards,
        recorder: Recorder,
        now: Callable[[], float],
    ) -> None:
        self.catalog = catalog
        self._credentials = credentials
        self._guards = guards
        self._recorder = recorder
        self._now = now

    async def request(
        self, source: str, principal: Principal, method: str, params: JsonObject, offer: str | None = None
    ) -> JsonObject | None:
        """Makes a request and returns its result as it came; None if the source does not have the `offer`
        that it belongs to."""
        config = self.catalog.sources.config(source)
        guards = self._guards.of(source, config, self.catalog.sources)
        started_at, began = self._now(), time.perf_counter()
        secrets, outcome, problem = guards.secrets, "ok", None
        if method in RECORDED:
            await self._recorder.unsaved.wait_for_space()
        try:
            credential = await self._credentials.for_call(source, config, principal)
            secrets |= credential.secrets
            try:
                return await self._send(source, config, guards, principal, credential, method, params, offer)
            except (AuthError, PermissionDeniedError) as error:
                refused = (source, config, principal, credential, error)
                fresh = await self._credentials.after_refusal(*refused)
                if fresh is None:
                    raise
            secrets |= fresh.secrets
            return await self._send(source, config, guards, principal, fresh, method, params, offer)
        except BaseException as error:
            if isinstance(error, SpindleError):
                hide_secrets(error.about(source=source), secrets)
            outcome, problem = ended_by(error)
            raise
        finally:
            if method in RECORDED:
                await self._recorder.save(
                    CallRecord(
                        key=new_id(),
                        tool=f"{source}.{method}",
                        source=source,
                        principal=principal.id,
                        arguments=fit_to_store(params, secrets),
                        outcome=outcome,
                        started_at=started_at,
                        duration=time.perf_counter() - began,
                        attempts=1,
                        error=fit_to_store(problem, secrets),
                    )
                )

    async def _send(
        self,
        source: str,
        config: SourceConfig,
        guards: Guards,
        principal: Principal,
        credential: Credential,
        method: str,
        params: JsonObject,
        offer: str | None,
    ) -> JsonObject | None:
        made = self.catalog.sources.get(source)
        place = (made.server_of(None), credential.key)
        guards.breakers.check(*place)
        async with hold([guards.limit], principal.id, config.timeout) as held:
            left = config.timeout - held.waited
            if guards.rate is not None:
                left -= await guards.rate.acquire(principal.id, left)
            use = self.catalog.connections.session(source, made, config, credential, seconds=left)
            with guards.breakers.enter(*place):
                async with use as opened:
                    session = cast(RelaySession, opened)
                    if offer is not None and offer not in session.offers:
                        return None
                    left -= use.waited
                    return await self._answer(source, session, credential, method, params, left)

    async def _answer(
        self,
        source: str,
        session: RelaySession,
        credential: Credential,
        method: str,
        params: JsonObject,
        seconds: float,
    ) -> JsonObject:
        timer = asyncio.timeout(seconds)
        try:
            async with timer:
                return await session.relay(method, params, credential)
        except (ClientError, ServerError) as error:
            if method != "resources/read" or not _says_missing(error):
                raise
            raise NotFoundError(error.message, details=error.details, source=source) from None
        except TimeoutError:
            if not timer.expired():
                raise
            raise CallTimeoutError(
                f"{source!r} did not answer {method} within {seconds:.6g} s",
                hint=f"raise sources.{source}.timeout if it needs longer",
            ) from None


def _says_missing(error: SpindleError) -> bool:
    """True if a server says that there is no such resource: until 2026-07-28 there was a code for it."""
    about = error.details if is_object(error.details) else {}
    named = is_object(about.get("data")) and "uri" in about["data"]
    return about.get("code") == RESOURCE_NOT_FOUND or (about.get("code") == INVALID_PARAMS and named)
