"""Access control of a server: who may come in, for whom they act, and which tools they see."""

from __future__ import annotations

import asyncio
import hmac
import os
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Literal

from spindle.auth.clients import KnownClients
from spindle.auth.issued import PREFIX, IssuedToken, IssuedTokens
from spindle.calls.rates import RateLimiter
from spindle.calls.stored_rates import StoredRate
from spindle.domain.identity import Principal
from spindle.errors import AuthError, ConfigurationError, SpindleError
from spindle.listening.addressing import Addressing
from spindle.listening.connections import CONNECTION
from spindle.listening.headers import RequestHeaders, headers_of
from spindle.listening.response import Response
from spindle.serving.browser_sessions import SESSION, BrowserSession, BrowserSessions
from spindle.serving.cors import ORIGIN, preflight
from spindle.serving.exposure import Exposed, with_groups
from spindle.serving.resource import metadata, not_identified, shown_token
from spindle.serving.rules import (
    Rules,
    address_of,
    asks_for_metadata,
    is_of,
    misled,
    not_from_the_page,
    refuse_open,
    too_large,
    too_often,
)
from spindle.serving.running import RunningRequests
from spindle.serving.widening import widened

if TYPE_CHECKING:
    from starlette.types import Scope

    from spindle.domain.access_entry import AccessEntry
    from spindle.domain.serve import ServeConfig
    from spindle.domain.tool import Tool, ToolSummary
    from spindle.ports.serving_store import QuotaStore
    from spindle.serving.audit import AuditLog
    from spindle.serving.quota_gate import QuotaGate

PRINCIPAL = "spindle.principal"
"""The key under which a request's scope says on whose behalf it acts."""

ANYBODY = Principal("anybody")
"""The principal of requests for what everybody may see, who showed no token."""

_OF_ADMISSION = (b"host", b"authorization")
"""The headers that decide if a request is let in, and for whom."""

Public = Callable[["Scope", "ServeConfig"], Literal["page", "list"] | None]
"""Says what needs no token: a page, which holds nothing of the catalog, or a list that the settings open to
pages of any origin too."""


def nothing_public(_scope: Scope, _config: ServeConfig) -> None:
    """The rule of a server that has nothing to show without a token."""


@dataclass(frozen=True, slots=True)
class Admitted:
    """The request with which a connection was let in."""

    rules: Rules
    shown: bytes
    principal: Principal


class ServingAccess:
    """The rules of one server. They can be replaced while it runs, as a whole or not at all."""

    def __init__(
        self,
        config: ServeConfig,
        environ: Mapping[str, str] | None = None,
        *,
        over_pipe: bool = False,
        shared: bool = False,
    ) -> None:
        """`over_pipe`: the one client is the program that started us, and needs no token. `shared`: there may
        be tokens in the store, which `share` brings before `require_for` is asked."""
        self._environ = os.environ if environ is None else environ
        self._over_pipe = over_pipe
        self._listening_on = set[str]() if shared else {config.host}
        self._awaits_entries = shared
        self._entries: Sequence[AccessEntry] = ()
        self.look_for_token: Callable[[], Awaitable[None]] | None = None
        """Looks for tokens that were made a moment ago."""
        self.look_for_changes: Callable[[], Awaitable[None]] | None = None
        self._store: QuotaStore | None = None
        """Counts the requests of each client for all processes, if they share a database."""
        self._rules = self._made(config, None)
        self.running = RunningRequests()
        self._before: Rules | None = None
        """The rules that were in force when `end_revoked` was last asked, if others are now."""
        self.audit: AuditLog | None = None
        self.gate: QuotaGate | None = None
        """Counts what clients use. Set by the server."""
        self.sessions: BrowserSessions | None = None
        """The sessions of browsers, where there is a console. Set by the server."""
        self.draining = False
        """True once the server was told to stop."""
        self.on_request: Callable[[], Awaitable[None] | None] | None = None
        """Asked before each request, so that what it meets is what the settings say now. Returns None if
        there is nothing to wait for."""

    @classmethod
    def of(
        cls,
        config: ServeConfig,
        environ: Mapping[str, str] | None = None,
        *,
        over_pipe: bool = False,
        shared: bool = False,
    ) -> ServingAccess:
        return cls(config, environ, over_pipe=over_pipe, shared=shared)

    def count_in(self, store: QuotaStore) -> None:
        """Has `rate_limit` hold over all processes that share this store."""
        self._store = store
        self._rules = self._made(self._rules.config, self._rules)

    def share(self, entries: Sequence[AccessEntry]) -> None:
        """Puts the tokens, groups and quotas of administrators in force, besides those of the settings."""
        self._entries, self._awaits_entries = entries, False
        self._replace(self._rules.config)
        self._apply_quotas()

    def adopt(self, config: ServeConfig, further: Sequence[str] = ()) -> bool:
        """Puts other settings in force, and returns True if anything differs. Raises ConfigurationError, and
        keeps those in force, for what would stop a start, and for what would let requests without a token
        do more than before, to which `further` adds."""
        opened = [] if self._over_pipe else [*widened(self._rules.config, config), *further]
        if opened:
            raise ConfigurationError(
                f"clients without a token could do more than before: {'; '.join(opened)}",
                hint="restart the server if that is meant",
            )
        if config == self._rules.config:
            return False
        self._replace(config)
        self._apply_quotas()
        return True

    def _replace(self, config: ServeConfig) -> None:
        now = self._made(config, self._rules)
        self._before, self._rules = self._before or self._rules, now

    def _apply_quotas(self) -> None:
        if self.gate is not None:
            self.gate.follow(self._rules.config, self._entries)

    @property
    def quotas(self) -> QuotaGate | None:
        """Holds clients to their quotas; None while there are none."""
        return self.gate if self.gate is not None and self.gate.rules else None

    def count_by(self, gate: QuotaGate) -> None:
        """Has this count what clients use."""
        self.gate = gate
        self._apply_quotas()

    def _made(self, config: ServeConfig, before: Rules | None) -> Rules:
        issued = IssuedTokens(IssuedToken.of(entry) for entry in self._entries if entry.kind == "token")
        clients = KnownClients.of(config, self._environ, before.clients.issuer if before else None, issued)
        for host in self._listening_on:
            refuse_open(clients, host)
        if "*" in config.allowed_origins and not clients.wants_token and not self._awaits_entries:
            raise ConfigurationError(
                'serve.allowed_origins is "*", and no token is required: every page could call the tools',
                hint="name the origins, or make a token with `spindle token create NAME`",
            )
        rates, stored = None, None
        if config.rate_limit is not None:
            kept = before.rates if before else None
            same = kept is not None and kept.limit == config.rate_limit
            rates = kept if same else RateLimiter(config.rate_limit)
            if self._store is not None:
                stored = StoredRate("requests of", config.rate_limit, self._store)
        exposed = Exposed(with_groups(config, self._entries))
        limits = config.quotas.requests, config.max_body_size
        return Rules(config, clients, Addressing.of(config), exposed, rates, stored, *limits)

    @property
    def config(self) -> ServeConfig:
        return self._rules.config

    @property
    def wants_token(self) -> bool:
        return self._rules.clients.wants_token

    def require_for(self, host: str) -> None:
        """Refuse to be open to others than this machine without a token. Also asked with the address
        that a name turned out to lead to."""
        refuse_open(self._rules.clients, host)
        self._listening_on.add(host)

    # --- what exists for whom

    def principal(self, scope: Mapping[str, Any] | None) -> Principal:
        """The principal of a request. `scope` is that of the admitted HTTP request, or None over a pipe,
        where it is the user who started us."""
        found = scope.get(PRINCIPAL) if scope is not None else None
        return found if isinstance(found, Principal) else self._rules.clients.owner

    def visible(self, principal: Principal, tool: ToolSummary | Tool) -> bool:
        """True if this principal may see a tool; a tool that is not visible can be neither listed, found
        nor called."""
        return self.shows(principal, tool.name)

    def shows(self, principal: Principal, name: str) -> bool:
        return self._rules.exposed.shows(principal, name)

    def shown_of(self, principal: Principal, names: list[str]) -> list[str]:
        """Returns those of these tools that this principal may see, for long lists."""
        return self._rules.exposed.seen_of(principal, names)

    def offers(self, principal: Principal, source: str) -> bool:
        """True if this principal may see the resources and prompts of a source."""
        return self._rules.exposed.offers(principal, source)

    def connects(self, principal: Principal, source: str, name: str) -> bool:
        """True if this principal may see some tool of a source whose tools are not known yet, and the tool of
        this name that connects to it."""
        return self._rules.exposed.connects(principal, source, name)

    @property
    def groups(self) -> list[str]:
        """The groups that have lists of their own."""
        return self._rules.exposed.groups

    def group_shows(self, group: str, name: str) -> bool:
        """True if somebody in this group alone sees a tool."""
        return self._rules.exposed.shows(Principal("", frozenset({group})), name)

    def drain(self) -> None:
        """Has load balancers send requests elsewhere, by `/readyz`."""
        self.draining = True

    async def now_admits(self, scope: Mapping[str, Any] | None, principal: Principal) -> Principal | None:
        """The principal of a request that was admitted as it is now, perhaps in other groups; None if its
        token is no longer good. `scope` is that of the HTTP request, or None over a pipe."""
        if scope is None:
            return principal
        try:
            now = await self._principal_of(self._rules, scope)
        except SpindleError:
            return None
        return now if now.id == principal.id else None

    # --- who may come in

    def admitted_before(self, scope: Scope, headers: RequestHeaders) -> Principal | None:
        """The principal of a request that shows what an earlier one on its connection was let in with, by
        the rules that are in force now."""
        connection = scope.get(CONNECTION)
        before: Admitted | None = connection.admitted if connection is not None else None
        if before is None or before.rules is not self._rules or scope["method"] != "POST":
            return None
        if b"origin" in headers or (self.sessions is not None and b"cookie" in headers):
            return None  # a page's, which gets its answer with headers of its own
        shown = headers.shown(_OF_ADMISSION)
        # How long it takes tells nothing about a token, though the one before was another's.
        if shown is None or not hmac.compare_digest(shown, before.shown):
            return None
        return before.principal if too_large(self._rules, headers) is None else None

    def remember(self, scope: Scope, headers: RequestHeaders, principal: Principal) -> None:
        """Spares the next request on this connection the same look. Not where a rate counts each request, or
        a token ends by itself."""
        rules, connection, shown = self._rules, scope.get(CONNECTION), headers.shown(_OF_ADMISSION)
        if connection is None or shown is None or principal is ANYBODY or SESSION in scope:
            return
        if rules.rates is None and rules.clients.are_lasting:
            connection.admitted = Admitted(rules, shown, principal)

    def readmits(self, admitted: Admitted, size: int) -> bool:
        """True if a request with a body of this size that shows what this one showed is let in without
        another look."""
        return admitted.rules is self._rules and size <= self._rules.body_size

    def begin(self, client: str, scope: Mapping[str, Any], task: asyncio.Task[Any] | None) -> bool:
        """Counts a request of a client, which this task answers, until `running` is told of its end. Returns
        False if the client has too many."""
        return self.running.begin(client, scope, task, self._rules.requests)

    async def end_revoked(self) -> None:
        """Ends the requests whose tokens were good by the rules before, and are not by those in force. One
        that has expired meanwhile is another matter: it was good when the work began."""
        before, self._before = self._before, None
        if before is None or not before.clients.wants_token:
            return

        async def is_revoked(scope: Mapping[str, Any], client: str) -> bool:
            shown = _token_of(scope)
            return await is_of(before, shown, client) and not await is_of(self._rules, shown, client)

        await self.running.end_revoked(is_revoked)

    def revoked(self, scope: Mapping[str, Any]) -> Response:
        """The answer to a request that was ended so."""
        clients, config = self._rules.clients, self._rules.config
        said = "the token was revoked while this ran: it was ended, and whether it had an effect is not known"
        return not_identified(config, dict(scope), AuthError(said), has_issuer=clients.issuer is not None)

    async def admit(self, scope: Scope, public: Public = nothing_public) -> Principal | Response:
        """The principal of a request, or the response that refuses it."""
        rules, headers = self._rules, headers_of(scope)
        way = public(scope, rules.config)
        refused = misled(rules, headers, any_origin=way == "list") or too_large(rules, headers)
        if refused is not None:
            return refused
        if b"origin" in headers and way != "list":
            scope[ORIGIN] = headers.get(b"origin")
            if scope["method"] == "OPTIONS" and b"access-control-request-method" in headers:
                return preflight(headers)
        clients = rules.clients
        session = await self._session(headers)
        if session is not None:
            scope[SESSION] = session
            if not session.allows(scope["method"], headers) and way is None:
                return not_from_the_page()
        if clients.issuer is not None and asks_for_metadata(scope):
            return await too_often(rules, address_of(scope)) or metadata(rules.config, scope)
        try:
            principal = await self._principal_of(rules, scope)
        except SpindleError as error:
            if await self._knows_by_now(headers):
                return await self.admit(scope, public)
            if way is not None:
                return await too_often(rules, address_of(scope)) or ANYBODY
            # Guessing is limited too.
            return await too_often(rules, address_of(scope)) or not_identified(
                rules.config, scope, error, has_issuer=clients.issuer is not None
            )
        if rules.rates is None:
            return principal
        key = f"user {principal.id}" if clients.wants_token else address_of(scope)
        return await too_often(rules, key) or principal

    async def knows(self, token: str) -> bool:
        """True if a token is good now. None is where nobody has to show one."""
        if self.look_for_token is not None and token.startswith(PREFIX):
            await self.look_for_token()  # it may have been made a moment ago
        try:
            return bool(await self._rules.clients.identify(token)) and self.wants_token
        except SpindleError:
            return False

    async def _session(self, headers: RequestHeaders) -> BrowserSession | None:
        """The session of the browser that a request comes from. A token that it shows goes first."""
        if self.sessions is None or b"cookie" not in headers or b"authorization" in headers:
            return None
        return await self.sessions.of(headers)

    async def _principal_of(self, rules: Rules, scope: Mapping[str, Any]) -> Principal:
        """Raises AuthError for a request of nobody."""
        session: BrowserSession | None = scope.get(SESSION)
        if session is not None and session.token is None:
            return replace(rules.clients.owner, admin=True)
        if session is None and self.sessions is not None and self.sessions.alone:
            raise AuthError("nobody is signed in", hint="`spindle console` makes a link that signs you in")
        return await rules.clients.identify(_token_of(scope))

    async def _knows_by_now(self, headers: RequestHeaders) -> bool:
        """True if another look at the store brought the token that is shown."""
        shown = shown_token(headers)
        if shown is None or not shown.startswith(PREFIX) or self.look_for_token is None:
            return False
        await self.look_for_token()
        try:
            await self._rules.clients.identify(shown)
        except SpindleError:
            return False
        return True


def _token_of(scope: Mapping[str, Any]) -> str | None:
    """The token that a request shows, itself or by the session of its browser."""
    session: BrowserSession | None = scope.get(SESSION)
    return session.token if session is not None else shown_token(RequestHeaders(scope))


def admission_of(scope: Scope) -> Admitted | None:
    """The request with which the connection of this one was let in, if this one shows the same."""
    connection = scope.get(CONNECTION)
    found: Admitted | None = connection.admitted if connection is not None else None
    shown = headers_of(scope).shown(_OF_ADMISSION)
    if found is None or shown is None or not hmac.compare_digest(shown, found.shown):
        return None
    return found if scope.get(PRINCIPAL) == found.principal else None
