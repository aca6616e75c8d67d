"""Requests of MCP other than calls of tools, behind the same guards: credential, breaker, limits, time limit
and record."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, cast

from spindle.calls.deadlines import Deadline
from spindle.calls.host import CallHost, PatientPeer
from spindle.calls.limits import hold
from spindle.calls.record import ended_by, fit_to_store, hide_secrets
from spindle.domain.call import Call, CallRecord
from spindle.domain.json_schema import is_object
from spindle.errors import (
    ApprovalRequired,
    AuthError,
    CallTimeoutError,
    ClientError,
    InputRequired,
    NotFoundError,
    PermissionDeniedError,
    ServerError,
    SpindleError,
)
from spindle.ports.source import RelaySession
from spindle.remedies import Remedy

if TYPE_CHECKING:
    from spindle.auth.credentials import Credentials
    from spindle.calls.caller import Caller
    from spindle.calls.guards import Guards
    from spindle.catalog.catalog import Catalog
    from spindle.domain.identity import Principal
    from spindle.domain.json_schema import JsonObject
    from spindle.domain.peer import Peer
    from spindle.domain.source import SourceConfig

RECORDED = frozenset({"resources/read", "prompts/get"})
"""The requests that history keeps. The others only look around."""
MAY_ASK = RECORDED | {"completion/complete"}
"""The requests during which a source may ask something. A list is the same whoever answers."""
RESOURCE_NOT_FOUND, INVALID_PARAMS = -32002, -32602
"""Codes of JSON-RPC."""


@dataclass(frozen=True, slots=True)
class Client:
    """The program that makes a request: who is asked what the source asks meanwhile, and the answers that it
    brings with it."""

    peer: Peer
    answers: JsonObject | None = None


class SourceRequests:
    """Makes requests of sources that relay, on behalf of a principal."""

    def __init__(
        self,
        catalog: Catalog,
        credentials: Credentials,
        caller: Caller,
        now: Callable[[], float],
    ) -> None:
        self.catalog = catalog
        self._credentials = credentials
        self._caller = caller
        self._recorder = caller.recorder
        self._now = now

    async def request(
        self,
        source: str,
        principal: Principal,
        method: str,
        params: JsonObject,
        offer: str | None = None,
        client: Client | None = None,
    ) -> JsonObject | None:
        """Makes a request and returns its result as it came, which may ask the `client`; None if the source
        does not have the `offer` that it belongs to."""
        used: set[str] = set()
        make = partial(self._request, source, principal, method, params, offer, client, used)
        taping = self._caller.taping
        return await (make() if taping is None else taping.request(source, method, params, used, make))

    async def _request(
        self,
        source: str,
        principal: Principal,
        method: str,
        params: JsonObject,
        offer: str | None,
        client: Client | None,
        used: set[str],
    ) -> JsonObject | None:
        """The same, without a tape. The secrets that were needed are added to `used`."""
        config = self.catalog.sources.config(source)
        guards = self._caller.guards.of(source, config, self.catalog.sources)
        call = self._call(source, config, principal, method, params, client)
        started_at, began = self._now(), time.perf_counter()
        secrets, outcome, problem = guards.secrets, "ok", None
        if method in RECORDED:
            await self._recorder.unsaved.wait_for_space()
        try:
            credential = await self._credentials.for_call(source, config, principal)
            secrets |= credential.secrets
            call = replace(call, credential=credential)
            try:
                return await self._send(source, config, guards, method, call, offer)
            except (AuthError, PermissionDeniedError) as error:
                refused = (source, config, principal, credential, error)
                # What a server reports about the work behind it says nothing about the credential.
                fresh = None if error.answered else await self._credentials.after_refusal(*refused)
                if fresh is None:
                    raise
            secrets |= fresh.secrets
            return await self._send(source, config, guards, method, replace(call, credential=fresh), offer)
        except BaseException as error:
            if isinstance(error, SpindleError):
                hide_secrets(error.about(source=source), secrets)
            outcome, problem = ended_by(error)
            raise
        finally:
            used |= secrets
            if method in RECORDED:
                await self._recorder.save(
                    CallRecord(
                        key=call.key,
                        tool=call.tool,
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

    def _call(
        self,
        source: str,
        config: SourceConfig,
        principal: Principal,
        method: str,
        params: JsonObject,
        client: Client | None,
    ) -> Call:
        name = f"{source}.{method}"
        peer = client.peer if client is not None else None
        if method in MAY_ASK and self._caller.answers is not None:
            # Without a journal: nothing of a request is kept that an answer could go on with later.
            host = CallHost(self._caller, principal, None)
            peer = self._caller.answers.peer(source, name, config, host, peer, can_pause=False)
        answers = client.answers if client is not None else None
        return Call(name, params, principal, peer=peer, answers=answers, can_pause=False)

    async def _send(
        self,
        source: str,
        config: SourceConfig,
        guards: Guards,
        method: str,
        call: Call,
        offer: str | None,
    ) -> JsonObject | None:
        made = self.catalog.sources.get(source)
        holder = made.holder_of(call.principal, call.peer)
        place = (made.server_of(None), f"{call.credential.key} {holder}" if holder else call.credential.key)
        guards.breakers.check(*place)
        async with hold([guards.limit], call.principal.id, config.timeout) as held:
            left = config.timeout - held.waited
            if guards.rate is not None:
                left -= await guards.rate.acquire(call.principal.id, left)
            use = self.catalog.connections.session(
                source, made, config, call.credential, holder, alone=made.runs_alone(call), seconds=left
            )
            with guards.breakers.enter(*place):
                async with use as opened:
                    session = cast(RelaySession, opened)
                    if offer is not None and offer not in session.offers:
                        return None
                    left -= use.waited
                    return await self._answer(source, session, method, call, left, config.timeout)

    async def _answer(
        self, source: str, session: RelaySession, method: str, call: Call, seconds: float, limit: float
    ) -> JsonObject:
        task = asyncio.current_task()
        assert task is not None
        deadline = Deadline(self._caller.timers, task, seconds)
        if call.peer is not None:
            call = replace(call, peer=PatientPeer(call.peer, limit, deadline))
        try:
            with deadline:
                return await session.relay(method, call)
        except (InputRequired, ApprovalRequired) as asked:
            raise _cannot_wait(source, method, asked) from None
        except (ClientError, ServerError) as error:
            if method != "resources/read" or not _says_missing(error):
                raise
            raise NotFoundError(error.message, details=error.details, source=source) from None
        except TimeoutError:
            if not deadline.expired:
                raise
            raise CallTimeoutError(
                f"{source!r} did not answer {method} within {seconds:.6g} s",
                hint=f"raise sources.{source}.timeout if it needs longer",
            ) from None


def _cannot_wait(source: str, method: str, asked: InputRequired | ApprovalRequired) -> ClientError:
    """The error for a question that nobody is there to answer, of a request that cannot wait for a person."""
    if isinstance(asked, ApprovalRequired):
        message = f"{asked.message}, which a person has to approve, and {method} cannot wait for that"
        return ClientError(message, remedy=Remedy("no_approval"), details=asked.details)
    links = "".join(f" ({url})" for url in asked.details.get("urls", ()))
    message = f"{source!r} asks a person before it answers {method}: {asked.message}{links}"
    return ClientError(message, remedy=Remedy("answer"), details=asked.details)


def _says_missing(error: SpindleError) -> bool:
    """True if a server says that there is no such resource: until 2026-07-28 there was a code for it."""
    about = error.details if is_object(error.details) else {}
    named = is_object(about.get("data")) and "uri" in about["data"]
    return about.get("code") == RESOURCE_NOT_FOUND or (about.get("code") == INVALID_PARAMS and named)
