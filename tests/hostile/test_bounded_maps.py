"""Every map that lives as long as a server, fed with 10,000 keys and measured; and a look at the code for
maps that nobody has thought of."""

from __future__ import annotations

import ast
import asyncio
import contextlib
import fnmatch
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import spindle
from spindle.auth.credentials import Credentials
from spindle.auth.oauth.discovery import Discovery
from spindle.auth.oauth.single_flight import SharedLocks
from spindle.calls.breaker import Breakers
from spindle.calls.guards import SourceGuards
from spindle.calls.queues import FairQueue
from spindle.calls.rates import MAX_KEYS, RateLimiter
from spindle.calls.validate import MAX_COMPILED, Validation
from spindle.catalog.connections import MAX_SUPERSEDED
from spindle.domain.bounded import BoundedMap
from spindle.domain.identity import Credential, Principal
from spindle.domain.serve import ServeConfig
from spindle.domain.source import BreakerConfig, RateLimit
from spindle.domain.tool import Tool
from spindle.errors import BreakerOpenError, BusyError, CallTimeoutError, ClientError, RateLimitedError
from spindle.mcp_protocol.names import LATEST_HANDSHAKE
from spindle.mcp_server.changes import MAX_STREAMS, MAX_WATCHES
from spindle.mcp_server.http import McpApp
from spindle.mcp_server.kept_answers import MAX_OVER
from spindle.mcp_server.listeners import StreamListener
from spindle.mcp_server.notices import MAX_MISSED, MAX_UNREAD, Notices
from spindle.mcp_server.server import CatalogServer
from spindle.mcp_server.session_ids import SessionFacts
from spindle.mcp_server.sessions import HttpSession, Sessions
from spindle.mcp_server.suspended import MAX_SUSPENDED, Suspended
from spindle.serving.access import ServingAccess
from spindle.serving.guard import Guard
from spindle.settings import Settings
from spindle.sources.websocket.waiting import Desk

KEYS = 10_000
SRC = Path(spindle.__file__).parent


class Parts:
    """A workspace with a server that nobody has come to yet."""

    def __init__(self, app: spindle.Spindle) -> None:
        self.app = app
        self.access = ServingAccess.of(ServeConfig(), {})
        self.catalog = CatalogServer(app, self.access)
        self.served = McpApp(self.catalog)


@pytest.fixture
async def parts(tmp_path: Path) -> AsyncIterator[Parts]:
    def own(n: int) -> int:
        """Mine."""
        return n

    async with spindle.open(settings=Settings(tmp_path, {"store": ":memory:"}), tools=[own]) as app:
        await app.sync()
        yield Parts(app)


def someone(number: int) -> Principal:
    return Principal(f"user-{number}")


async def tools(parts: Parts) -> list[Tool]:
    tool = await parts.app.show("own")
    return [replace(tool, name=f"own{n}", fingerprint=f"print-{n}") for n in range(KEYS)]


Feed = Callable[[Parts], Awaitable[tuple[int, int]]]
FEEDS: dict[str, Feed] = {}
"""Each feeds one map, and returns its size and the size that it may have."""


def feed(function: Feed) -> Feed:
    FEEDS[function.__name__.replace("_", " ")] = function
    return function


@feed
async def rates_by_client(parts: Parts) -> tuple[int, int]:
    rates = RateLimiter(RateLimit(calls=5, seconds=3600), max_keys=MAX_KEYS // 2)
    for number in range(KEYS):
        rates.take(f"address {number}")
    return len(rates), MAX_KEYS // 2


@feed
async def calls_that_wait_for_a_place(parts: Parts) -> tuple[int, int]:
    queue = FairQueue(lambda reason: BusyError(reason), 100)
    waiting = [asyncio.create_task(queue.wait(f"user-{number}", None, int)) for number in range(KEYS)]
    await asyncio.sleep(0)
    size, lines = len(queue), len(queue._lines)
    for task in waiting:
        task.cancel()
    await asyncio.gather(*waiting, return_exceptions=True)
    assert len(queue._lines) == 0
    return max(size, lines), 100


@feed
async def guards_of_sources(parts: Parts) -> tuple[int, int]:
    guards, sources = SourceGuards(lambda: 0.0, asyncio.sleep, parts.app.store), parts.app.catalog.sources
    config = sources.config("python")
    for number in range(KEYS // 10):
        guards.of(f"source-{number}", config, sources)
    return len(guards._made), 2


@feed
async def breakers_of_users_and_servers(parts: Parts) -> tuple[int, int]:
    breakers = Breakers("x", BreakerConfig(failures=50), lambda: 0.0)
    for number in range(KEYS):
        with contextlib.suppress(BreakerOpenError):
            breakers.failed(CallTimeoutError("slow"), breakers.enter("one", f"user {number}"))
        assert len(breakers._servers["one"]._suspicions) < 50
    for number in range(KEYS):
        breakers.failed(CallTimeoutError("slow"), breakers.enter(f"server {number}", "user"))
    return max(len(breakers._servers), len(breakers._own)), 1000


@feed
async def newest_credentials_of_users(parts: Parts) -> tuple[int, int]:
    async def own(source: str, principal: Principal) -> Credential:
        return Credential(env=(("TOKEN", principal.id),))

    credentials, config = Credentials(own), parts.app.catalog.sources.config("python")
    credentials._newest.limit = 500
    for number in range(KEYS // 10):
        await credentials.for_call("python", config, someone(number))
    return len(credentials._newest), 500


@feed
async def credentials_that_were_replaced(parts: Parts) -> tuple[int, int]:
    connections = parts.app.catalog.connections
    for number in range(2 * KEYS):
        connections.supersede("python", str(number), str(number + 1))
    return len(connections._superseded), MAX_SUPERSEDED


@feed
async def validators(parts: Parts) -> tuple[int, int]:
    validation = Validation()
    for tool in await tools(parts):
        validation.check_arguments(tool, {"n": 1})
    return len(validation._compiled), MAX_COMPILED


@feed
async def homes_of_resources(parts: Parts) -> tuple[int, int]:
    relay = parts.catalog.relay
    relay._homes.limit = 500
    for number in range(KEYS):
        relay.linked(f"made://{number}", "source")
    return len(relay._homes), 500


@feed
async def links_to_files(parts: Parts) -> tuple[int, int]:
    relay = parts.catalog.relay
    relay._issued.limit = 500
    for number in range(KEYS):
        relay.file_link(someone(number), f"{number:032x}.bin")
    return len(relay._issued), 500


def handshaken(parts: Parts, number: int) -> HttpSession:
    session = HttpSession(parts.catalog, someone(number))
    client = {
        "protocolVersion": "2025-11-25",
        "capabilities": {},
        "clientInfo": {"name": "test", "version": "1"},
    }
    session.connection.agree("2025-11-25", client)
    return session


@feed
async def sessions_of_one_client(parts: Parts) -> tuple[int, int]:
    sessions = parts.served.sessions
    for _ in range(KEYS // 10):
        await sessions.opened(handshaken(parts, 1))
    size = len(sessions._open)
    assert size == len(sessions._shares) == len(sessions._by_key) == len(parts.catalog.changes._sessions)
    await sessions.close()
    assert not sessions._open
    assert not sessions._by_key
    assert not sessions._shares._held
    return size, parts.access.config.quotas.sessions


@feed
async def sessions_of_all_clients(parts: Parts) -> tuple[int, int]:
    sessions = parts.served.sessions
    sessions._shares._total = 300
    refused = 0
    for number in range(KEYS // 10):
        try:
            await sessions.opened(handshaken(parts, number))
        except RateLimitedError:
            refused += 1
    assert refused == KEYS // 10 - 300
    return len(sessions._open), 300


@feed
async def messages_for_a_session_without_a_stream(parts: Parts) -> tuple[int, int]:
    session = HttpSession(parts.catalog, someone(1))
    for number in range(KEYS):
        await session.put({"method": "notifications/message", "params": {"n": number}})
    return len(session.notices), MAX_MISSED


@feed
async def messages_for_a_stream_that_is_not_read(parts: Parts) -> tuple[int, int]:
    notices = Notices("process")
    notices._stream = object()
    for number in range(KEYS):
        notices.put({"n": number})
    return len(notices), MAX_UNREAD


@feed
async def answers_that_are_over(parts: Parts) -> tuple[int, int]:
    sessions = Sessions(parts.catalog)
    session = HttpSession(parts.catalog, someone(1))
    session.begin("id", SessionFacts("key", LATEST_HANDSHAKE, 0.0, None))
    for number in range(KEYS):
        kept = sessions.kept.begin(session, {"id": number})
        await kept.finish({"id": number, "result": {}}, is_lost=False)
    return len(sessions.kept), MAX_OVER


def listening(parts: Parts, number: int) -> StreamListener:
    principal = someone(number)
    return StreamListener(principal, None, {}, HttpSession(parts.catalog, principal).listener)


@feed
async def streams_of_all_clients(parts: Parts) -> tuple[int, int]:
    changes = parts.catalog.changes
    for number in range(KEYS):
        with contextlib.suppress(RateLimitedError):
            changes.take_stream(
                StreamListener(
                    someone(number), None, {}, HttpSession(parts.catalog, someone(number)).listener
                )
            )
    return len(changes.open_streams), MAX_STREAMS


@feed
async def watched_resources(parts: Parts) -> tuple[int, int]:
    changes, relay = parts.catalog.changes, parts.catalog.relay

    async def home(_principal: Principal, uri: str, *_: Any) -> tuple[str, str]:
        return "python", uri

    async def watch(*_: Any) -> None:
        await asyncio.Event().wait()

    relay.home, relay.watch = home, watch  # type: ignore[method-assign]
    refused = 0
    for number in range(2 * MAX_WATCHES):
        listener = StreamListener(
            someone(number), None, {}, HttpSession(parts.catalog, someone(number)).listener
        )
        try:
            await changes._watch(listener, f"made://{number}")
        except ClientError:
            refused += 1
    size = len(changes._watches)
    assert refused == MAX_WATCHES
    await changes.close()
    return size, MAX_WATCHES


@feed
async def calls_that_wait_for_an_answer(parts: Parts) -> tuple[int, int]:
    waiting = parts.catalog._waiting
    for number in range(2 * MAX_SUSPENDED):
        call = Suspended(someone(number), ("tool", b""), lambda _: None)
        with contextlib.suppress(RateLimitedError):
            await waiting.run(call, call.ask("elicitation/create", {}, 60))
    size = len(waiting._calls)
    await waiting.close()
    await asyncio.sleep(0)
    assert not waiting._calls
    assert not waiting._shares._held
    return size, MAX_SUSPENDED


@feed
async def requests_that_run(parts: Parts) -> tuple[int, int]:
    async def nothing(*_: Any) -> None:
        pass

    guard = Guard(nothing, parts.access)
    scope = {"type": "http", "method": "GET", "path": "/x", "headers": [(b"host", b"127.0.0.1")]}
    for number in range(KEYS):
        await guard({**scope, "client": (f"10.0.{number // 250}.{number % 250}", 1)}, nothing, nothing)
    return len(parts.access.running), 0


@feed
async def locks_of_credentials(parts: Parts) -> tuple[int, int]:
    locks = SharedLocks(parts.app.store)
    for number in range(KEYS // 50):
        async with locks.hold(f"user-{number}"):
            pass
    return len(locks._local), 0


@feed
async def providers_of_sources(parts: Parts) -> tuple[int, int]:
    discovery = Discovery(None, lambda: 0.0)  # type: ignore[arg-type]
    for number in range(KEYS):
        discovery._locks.setdefault(("source", str(number)), asyncio.Lock())
    return len(discovery._locks), 1000


@feed
async def replies_that_nobody_waits_for(parts: Parts) -> tuple[int, int]:
    desk = Desk("id")
    for number in range(KEYS):
        desk.unawaited[str(number)] = None
        desk.enter(str(number), _waiting())
        desk.leave(str(number))
    return max(len(desk.unawaited), len(desk._waiting), len(desk._ended)), 1000


def _waiting() -> Any:
    from spindle.sources.websocket.waiting import WaitingCall

    return WaitingCall()


@feed
async def users_who_were_shown_that_a_source_waits(parts: Parts) -> tuple[int, int]:
    connect, consents = parts.catalog.connect, parts.app.catalog.consents
    consents.asked_for = lambda: ["python"]  # type: ignore[method-assign]

    async def waiting(_principal: Principal) -> list[str]:
        return ["python"]

    async def taken() -> set[str]:
        return set()

    consents.waiting = waiting  # type: ignore[method-assign]
    for number in range(KEYS // 5):
        assert list(await connect.tools(someone(number), taken)) == ["connect_python"]
    return len(connect._shown), 1000


@feed
async def tools_that_were_found(parts: Parts) -> tuple[int, int]:
    for number in range(KEYS // 20):
        with contextlib.suppress(spindle.NotFoundError):
            await parts.app.show(f"nothing{number}")
    return len(parts.app.catalog._known), 1


@pytest.mark.parametrize("name", FEEDS)
async def test_a_map_that_is_fed_with_many_keys_stays_small(parts: Parts, name: str) -> None:
    size, most = await FEEDS[name](parts)
    assert size <= most


def test_a_bounded_map_drops_what_was_used_longest_ago() -> None:
    kept: BoundedMap[int, str] = BoundedMap(3)
    for number in range(3):
        kept[number] = str(number)
    assert kept.use(0) == "0"
    kept[3] = "3"
    assert kept.setdefault(4, "4") == "4"
    assert list(kept) == [0, 3, 4]
    assert kept.use(1) is None
    kept[0] = "again"
    assert list(kept.items()) == [(3, "3"), (4, "4"), (0, "again")]


# --- those that nobody has thought of

PACKAGES = (
    "app.py", "auth", "calls", "catalog", "console", "http", "listening", "mcp_server", "rest", "runs",
    "serving",
)  # fmt: skip
GROWS = {"dict", "set", "list", "deque", "OrderedDict", "defaultdict", "Counter", "WeakSet"}
KNOWN: dict[str, str] = {
    "open pages, of which there are at most MAX_PAGES, each with the topics that there are": """
        console.live.LiveUpdates._watchers console.live.Watcher._topics
        console.live.LiveUpdates._known console.live.Watcher._marks
    """,
    "one entry for each call of a tape that is played, and MAX_MISSED others": """
        calls.tape.Tape._used calls.tape.Tape._changed calls.tape.Tape.missed calls.taping.Taping.missed
    """,
    "one entry for each file of the console": "console.rendering._digests",
    "one entry for each stored tool": "catalog.vectors.Vectors._names catalog.vectors.Vectors._places",
    "parts of pages that requests of this moment wait for": "console.shared_parts.SharedParts._making",
    "serve --workers, or those of one step of a call that waits": """
        serving.workers.Workers._kept serving.workers.Workers._running
    """,
    "lives for one call, document, list or run, or as long as a session with a limit of its own": """
        calls.allowance.Allowance._told calls.allowance.Allowance._used
        calls.flags.Flags._texts calls.flags.Flags._values calls.limits.hold._held
        mcp_server.client_peer.ClientPeer.sending mcp_server.stdio.Pipes._early
        rest.schemas.Components._names rest.schemas.Components._plain rest.schemas.Components._waiting
        rest.schemas.Components.schemas runs.stops.Stops._places runs.stops.Stops._first
        runs.journal.RunJournal._unsaved calls.known_secrets.KnownSecrets.named
        runs.record.RunRecord.* catalog.repeated.RepeatedSecrets.*
        runs.journal.RunJournal.asked runs.journal.RunJournal.replaced runs.journal.RunJournal.tasks
        catalog.screening._Screening.* runs.places.RunPlace._made mcp_server.questions.Questions._waiting
        mcp_server.kept_answers.KeptAnswer._answered mcp_server.kept_answers.KeptAnswer.given
    """,
    "one entry for each source of the settings": """
        calls.guards.SourceGuards._made catalog.marks.SourceMarks.* catalog.pace.Refreshes._again
        catalog.pace.Refreshes._paces catalog.pace.Refreshes._timers catalog.pace.Refreshes.tasks
        catalog.catalog.Catalog._synced_as catalog.catalog.Catalog._syncing catalog.catalog.Catalog._pending
        catalog.connections.Connections._shared
        catalog.sources.SourceSet._classes catalog.sources.SourceSet._configs catalog.sources.SourceSet._made
        catalog.sources.SourceSet._handed_over catalog.sources.SourceSet._table_marks
        catalog.sources.SourceSet.elsewhere
        auth.secrets.Secrets._declared auth.secrets.Secrets._environ
        serving.reload.Live._late http.origins.CredentialOrigins._origins
    """,
    "one entry for each rule of the settings, or of administrators": """
        serving.quota_gate.QuotaGate.costs serving.quota_gate.QuotaGate.rules
    """,
    "forgets a connection with its end, which comes five seconds after its last request": """
        http.pool.ConnectionPool._places http.pool.ConnectionPool._resting
    """,
    "the bounds of one answer": """
        http.answer.HttpAnswer._pieces http.answer.HttpAnswer.headers
        http.connection.ServerConnection._raw
    """,
    "serve.max_connections, or one entry for each reason to drop one": """
        listening.connections.OpenConnections.* listening.state.ServerState.connections
        listening.state.ServerState.tasks
    """,
    "serve.max_headers, eight requests that wait, or what every request has": """
        listening.requests.RequestConnection.*
    """,
    "one entry for each address that is listened on": "listening.server.EmbeddedServer.listening",
    "one entry for each tool that is stored": "catalog.catalog.Catalog._known",
    "forgets a sealer with its end, and an open workspace has one or two": "auth.details._sealers",
    "sources.NAME.max_sessions for each source": """
        catalog.connections.Connections._alive catalog.connections.Connections._open
        catalog.connections.Connections._further
    """,
    "one entry for each part of the program that listens, or resource that is watched": """
        catalog.catalog.Catalog._listeners catalog.sources.SourceSet.notices app.Spindle._subscriptions
        calls.resources.Resources._watches serving.processes.Processes._receivers
        mcp_server.connection.ClientConnection.state
        serving.relays.Relays._answers
    """,
    "one entry for each request, call or task that runs, taken out when it ends": """
        auth.oauth.single_flight.Flights._tasks auth.oauth.single_flight.SharedLocks._local
        catalog.catalog.Catalog._closing catalog.connection.Connection.uses
        catalog.connections.Connections.lines
        console.oauth_callback.Callback._resuming console.consents.ConsoleConsents._listing
        mcp_server.changes.Changes._tasks
        mcp_server.lines.LineServer._others mcp_server.lines.LineServer._running
        mcp_server.sessions.HttpSession.running mcp_server.sessions.Sessions._tasks
        mcp_server.kept_answers.KeptAnswers._running mcp_server.resuming.Resuming._tasks
        runs.submissions.Submissions._turns
        runs.executions.Executions._working runs.waits.DueRuns._at_work
        serving.going_on.RunsGoingOn._at_work
        calls.unsaved.UnsavedRecords.records runs.executions.Executions.running runs.leases.RunLeases._kept
        serving.running.RunningRequests.* calls.limits.Limit._held
        serving.relays.Relays._tasks serving.quota_gate.QuotaGate._held
    """,
    "one entry for each trigger of the settings, of which there are 1,000 at most": """
        serving.hooks.Webhooks._triggers
    """,
    "LOOKED_AT, or the files of a folder": "serving.file_drops.FileDrops._seen",
    "a limit where it is filled, which is tested above": """
        calls.breaker._Breaker._suspicions calls.queues.FairQueue._lines calls.rates.RateLimiter._whole_at
        calls.validate.Validation._compiled
        mcp_server.changes.Changes._sessions mcp_server.changes.Changes._streams
        mcp_server.changes.Changes._watches mcp_server.notices.Notices._unsent
        mcp_server.kept_answers.KeptAnswers._over
        mcp_server.sessions.Sessions._by_key mcp_server.sessions.Sessions._open
        mcp_server.suspended.SuspendedCalls._calls
        serving.quotas.Shares._held
    """,
    "a limit where it is filled": """
        serving.audit.AuditLog._waiting http.origins.CredentialOrigins._known auth.issuer.Issuer._ready
        mcp_server.kept_answers.KeptAnswer._events
        auth.details.DetailSealer._known mcp_server.sse.SseApp._open runs.tasks.Tasks._jobs
    """,
}


def containers(file: Path) -> Iterator[str]:
    """The attributes of a module's classes, and its variables, that begin as an empty container."""
    module = ".".join(file.relative_to(SRC).with_suffix("").parts)
    for node in ast.parse(file.read_text()).body:
        if isinstance(node, ast.ClassDef):
            for inner in ast.walk(node):
                target, value = _assigned(inner)
                if isinstance(target, ast.Attribute) and _grows(value):
                    yield f"{module}.{node.name}.{target.attr}"
        else:
            target, value = _assigned(node)
            if isinstance(target, ast.Name) and _grows(value) and not target.id.isupper():
                yield f"{module}.{target.id}"


def _assigned(node: ast.AST) -> tuple[ast.AST | None, ast.expr | None]:
    if isinstance(node, ast.AnnAssign):
        return node.target, node.value
    return (node.targets[0], node.value) if isinstance(node, ast.Assign) else (None, None)


def _grows(value: ast.expr | None) -> bool:
    if isinstance(value, ast.Dict):
        return not value.keys
    if isinstance(value, ast.List):
        return not value.elts
    if not isinstance(value, ast.Call) or value.args:
        return False
    made = value.func.value if isinstance(value.func, ast.Subscript) else value.func
    name = made.id if isinstance(made, ast.Name) else getattr(made, "attr", "")
    return name in GROWS and not any(item.arg == "maxlen" for item in value.keywords)


def test_every_container_of_a_server_has_a_limit_or_a_reason_to_need_none() -> None:
    files = [
        file
        for package in PACKAGES
        for file in ([SRC / package] if package.endswith(".py") else sorted((SRC / package).rglob("*.py")))
    ]
    found = {name for file in files for name in containers(file)}
    known = {name for names in KNOWN.values() for name in names.split()}
    new = sorted(name for name in found if not any(fnmatch.fnmatchcase(name, each) for each in known))
    gone = sorted(each for each in known if not fnmatch.filter(found, each))
    assert not new, f"use a BoundedMap, or write into KNOWN why it cannot grow: {new}"
    assert not gone, f"take out of KNOWN: {gone}"
