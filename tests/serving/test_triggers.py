"""What happens elsewhere starts a flow, once: events of a broker, signed webhooks, files in a folder, changed
resources of an MCP server."""

from __future__ import annotations

import asyncio
import contextlib
import http.client
import json
import os
import signal
import time
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import httpx
import pytest
import tomlkit

import spindle
from mcp_server.conftest import fixture_source
from servers import brokers
from servers.running import PATIENCE
from servers.workers import Place, worker
from spindle.app import Spindle
from spindle.domain.run import Run
from spindle.domain.serve import ServeConfig
from spindle.errors import ConfigurationError, InvalidArgumentsError, NotFoundError
from spindle.listening.limits import ConnectionLimits
from spindle.listening.server import EmbeddedServer, open_socket
from spindle.rest.app import make_app
from spindle.serving.access import ServingAccess
from spindle.serving.file_drops import FileDrops
from spindle.serving.trigger_listeners import remove_spent, triggered_meanwhile
from spindle.serving.triggers import LEASE, Trigger, is_heard, or_owner, triggers_of
from spindle.serving.working import work
from spindle.sources.events.links.signature import signed

CONFIG = ServeConfig(auth_token="secret", allowed_hosts=("here",))
SECRET = "a-long-secret-for-hooks"
TOOLS = '''
from spindle import tool

@tool(idempotent=True)
def count(text: str) -> int:
    """Count words."""
    return len(text.split())
'''
OTHER_BROKERS = ("redis", "rabbitmq", "mosquitto")
FLOW = """
inputs: {text: {type: string}}
nodes:
- {id: words, tool: count, params: {text: "${text}"}}
"""


def trigger(name: str = "drop", *, text: str = "${event.name}", **table: Any) -> dict[str, Any]:
    return {name: {"flow": "report", "inputs": {"text": text}, **table}}


@pytest.fixture
def root(tmp_path: Path) -> Path:
    (tmp_path / "inbox").mkdir()
    for name, content in {"tools/words.py": TOOLS, "flows/report.yaml": FLOW}.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(content)
    return tmp_path


@contextlib.asynccontextmanager
async def opened(root: Path, triggers: dict[str, Any], more: str = "", **rest: Any) -> AsyncIterator[Spindle]:
    (root / "spindle.toml").write_text(more + tomlkit.dumps({"triggers": triggers}))
    async with spindle.open(root, **rest) as app:
        await app.sync()
        yield app


async def until(app: Spindle, is_so: Callable[[list[Run]], bool]) -> list[Run]:
    """Waits until the runs of a workspace are as they should be."""
    async with asyncio.timeout(PATIENCE):
        while True:
            found = await app.store.runs(limit=-1)
            if is_so(found):
                return found
            await asyncio.sleep(0.05)


async def heard(app: Spindle, name: str) -> None:
    async with asyncio.timeout(PATIENCE):
        while not await is_heard(app, name):
            await asyncio.sleep(0.05)


async def started(app: Spindle, name: str, count: int) -> None:
    """Waits until a trigger has started so many runs."""
    async with asyncio.timeout(PATIENCE):
        while name not in (states := await app.store.triggers()) or states[name].runs < count:
            await asyncio.sleep(0.05)


async def texts(app: Spindle) -> list[str]:
    """The input of each run."""
    runs = await app.store.runs(limit=-1)
    return sorted([(await app.flows.trace(run.id))[1]["inputs"]["text"] for run in runs])


class TestFolders:
    async def test_each_file_is_taken_once_by_one_of_many(self, root: Path) -> None:
        notes: list[str] = []
        async with (
            opened(root, trigger(folder="inbox", pattern="*.csv", settle=0.1)) as app,
            spindle.open(root) as other,
            triggered_meanwhile(app, notes.append),
            triggered_meanwhile(other, notes.append),
        ):
            for number in range(12):
                (root / "inbox" / f"{number}.csv").write_text("a,b")
            (root / "inbox" / "no.txt").write_text("not for it")
            (root / "inbox" / "half.csv.part").write_text("not whole")
            (root / "inbox" / "link.csv").symlink_to("/etc/hostname")
            await until(app, lambda runs: len(runs) >= 12)
            assert await texts(app) == sorted(f"{number}.csv" for number in range(12))
        left = {path.name for path in (root / "inbox").iterdir()}
        assert left == {".taken", "no.txt", "half.csv.part", "link.csv"}
        assert list((root / "inbox/.taken/pending").iterdir()) == []
        assert notes == []

    async def test_the_flow_finds_the_file_where_the_event_says(self, root: Path) -> None:
        table = trigger(folder="inbox", settle=0.1, text="${event.path}")
        async with opened(root, table) as app, triggered_meanwhile(app, print):
            (root / "inbox" / "a.csv").write_text("one two")
            await until(app, lambda runs: len(runs) == 1)
            (path,) = await texts(app)
            assert Path(path).read_text() == "one two"

    def test_a_file_that_still_grows_is_not_taken(self, root: Path) -> None:
        clock = [0.0]
        drops = FileDrops(root / "inbox", "*", 2.0, lambda: clock[0])
        file = root / "inbox" / "big.csv"
        with file.open("w") as writing:
            for _ in range(4):
                writing.write("more")
                writing.flush()
                assert drops.take() == []
                clock[0] += 1.9
                assert drops.take() == []
                clock[0] += 0.05
        assert drops.take() == []
        clock[0] += 0.1
        (drop,) = drops.take()
        assert drop.file.read_text() == "more" * 4
        assert not file.exists()

    def test_a_file_that_was_taken_before_a_crash_is_found(self, root: Path) -> None:
        clock = [0.0]

        def drops() -> FileDrops:
            return FileDrops(root / "inbox", "*", 1.0, lambda: clock[0])

        (root / "inbox" / "a.csv").write_text("x")
        before = drops()
        assert before.take() == []
        clock[0] += 1
        (drop,) = before.take()
        # It dies here: its run is not submitted.
        after = drops()
        assert after.take() == [drop]
        drop.done()
        assert after.take() == []
        # A crash while the mark was written, and one before the file was moved.
        (root / "inbox/.taken/pending/torn").write_text('"a.c')
        (root / "inbox/.taken/pending/early").write_text('"b.csv"')
        (root / "inbox/.taken/pending/evil").write_text('"../../../etc/passwd"')
        assert after.take() == []
        assert list((root / "inbox/.taken/pending").iterdir()) == []

    def test_a_file_of_the_same_name_is_another(self, root: Path) -> None:
        clock = [0.0]
        drops = FileDrops(root / "inbox", "*", 1.0, lambda: clock[0])
        keys: set[str] = set()
        for number in range(3):
            (root / "inbox" / "a.csv").write_text(f"{number}")
            assert drops.take() == []
            clock[0] += 1
            (drop,) = drops.take()
            drop.done()
            keys.add(drop.key)
        assert len(keys) == 3

    def test_files_that_were_taken_are_kept_by_age_and_number(self, root: Path) -> None:
        drops = FileDrops(root / "inbox", "*", 0.0, lambda: 0.0)
        for number in range(5):
            (root / "inbox" / f"{number}").write_text("x")
        drops.take()
        taken = sorted(drops.take(), key=lambda drop: drop.name)
        assert len(taken) == 5
        for age, drop in enumerate(reversed(taken)):
            os.utime(drop.file.parent, (1000 - age, 1000 - age))
        keys = [drop.key for drop in taken]  # the oldest first
        assert drops.spent(2.5, None, 1000) == [], "their runs are not submitted"
        for drop in taken[:-1]:
            drop.done()
        assert drops.spent(None, None, 1000) == []
        assert drops.spent(2.5, None, 1000) == keys[:2]
        assert drops.spent(None, 4, 1000) == keys[:1]
        assert drops.spent(2.5, 2, 1000) == keys[:3]
        assert drops.spent(0, 0, 2000) == keys[:4], "the last waits for its run"
        drops.remove(keys[0])
        assert drops.spent(None, 2, 1000) == keys[1:3]
        assert not taken[0].file.exists()

    async def test_a_file_whose_run_has_not_ended_stays(self, root: Path) -> None:
        keep = {"age": "0s", "count": "unlimited"}
        async with opened(root, trigger(folder="inbox", settle=0.1, keep=keep)) as app:
            table = triggers_of(app)["drop"]
            fired = Trigger(app, "drop", table, print)
            drops = FileDrops(root / "inbox", "*", 0.0, lambda: 0.0)
            (root / "inbox" / "a").write_text("x")
            drops.take()
            (drop,) = drops.take()
            run = await fired.fire(drop.event())
            drop.done()
            os.utime(drop.file.parent, (1000, 1000))
            await remove_spent(fired, drops)
            assert drop.file.exists()
            await app.runner.cancel(run, "not wanted")
            await remove_spent(fired, drops)
            assert not drop.file.exists()

    async def test_a_folder_that_is_not_there_is_said_and_heard_later(self, root: Path) -> None:
        notes: list[str] = []
        triggers = {**trigger(folder="later", settle=0.1), **trigger("fine", folder="inbox", settle=0.1)}
        async with opened(root, triggers) as app, triggered_meanwhile(app, notes.append):
            async with asyncio.timeout(PATIENCE):
                while not (states := await app.store.triggers()).get("drop") or not states["drop"].error:
                    await asyncio.sleep(0.05)
            assert "cannot be watched" in str(states["drop"].error)
            (root / "inbox" / "a").write_text("x")
            await until(app, lambda runs: len(runs) == 1)
            (root / "later").mkdir()
            (root / "later" / "b").write_text("x")
            await until(app, lambda runs: len(runs) == 2)
            async with asyncio.timeout(PATIENCE):
                while (state := (await app.store.triggers())["drop"]).error or not state.runs:
                    await asyncio.sleep(0.05)

    async def test_another_process_goes_on_when_the_one_that_listens_is_killed(self, root: Path) -> None:
        """Nobody tells of its death: its lease ends. A file that comes meanwhile waits."""
        async with opened(root, trigger(folder="inbox", settle=0.1)) as app:
            async with worker(Place(root, None)) as first:
                (root / "inbox" / "a").write_text("x")
                await started(app, "drop", 1)
                async with triggered_meanwhile(app, print):
                    await first.end(signal.SIGKILL)
                    died = time.monotonic()
                    (root / "inbox" / "b").write_text("x")
                    await started(app, "drop", 2)
                    print(f"taken {time.monotonic() - died:.1f} s after the death")
            assert await texts(app) == ["a", "b"]

    async def test_a_full_queue_holds_files_back_and_loses_none(self, root: Path) -> None:
        more = "[engine.queues.short]\nlimit = 2\n"
        async with opened(root, trigger(folder="inbox", settle=0.1, queue="short"), more) as app:
            for number in range(4):
                (root / "inbox" / f"{number}").write_text("x")
            async with working(app, "default"):  # which executes nothing of `short`
                async with asyncio.timeout(PATIENCE):
                    while not (states := await app.store.triggers()) or not states["drop"].error:
                        await asyncio.sleep(0.05)
                assert len(await app.store.runs(limit=-1)) == 2
            assert len(list((root / "inbox/.taken/pending").iterdir())) == 2
        async with spindle.open(root) as app, working(app, "short"):
            await until(app, lambda runs: [run.status for run in runs] == ["done"] * 4)


@contextlib.asynccontextmanager
async def working(app: Spindle, queue: str) -> AsyncIterator[None]:
    task = asyncio.create_task(work(app, [queue], None, print))
    try:
        yield
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


class TestWebhooks:
    @pytest.fixture
    async def app(self, root: Path) -> AsyncIterator[Spindle]:
        table = trigger("orders", text="${event.data.note}", webhook=True, secret="${HOOK_SECRET}")
        async with opened(root, table, environ={"HOOK_SECRET": SECRET}) as app:
            yield app

    @pytest.fixture
    async def client(self, app: Spindle) -> AsyncIterator[httpx.AsyncClient]:
        api = make_app(app, ServingAccess.of(CONFIG))
        async with httpx.AsyncClient(transport=httpx.ASGITransport(api), base_url="http://here") as client:
            yield client

    async def send(
        self, client: httpx.AsyncClient, body: bytes, key: str = "m1", secret: str = SECRET, **rest: Any
    ) -> httpx.Response:
        headers = {"content-type": "application/json", **signed(secret, key, body, **rest)}
        return await client.post("/hooks/orders", content=body, headers=headers)

    async def test_a_signed_call_starts_the_flow_once(self, app: Spindle, client: httpx.AsyncClient) -> None:
        body = b'{"note": "one two"}'
        first, again = await self.send(client, body), await self.send(client, body)
        assert first.status_code == again.status_code == 202, first.text
        assert first.json() == again.json()
        other = await self.send(client, body, "m2")
        assert other.json()["run"] != first.json()["run"]
        assert await texts(app) == ["one two", "one two"]
        state = (await app.store.triggers())["orders"]
        assert (state.runs, state.last_run) == (2, other.json()["run"])

    async def test_what_is_delivered_many_times_at_once_counts_once(
        self, app: Spindle, client: httpx.AsyncClient
    ) -> None:
        body = b'{"note": "one two"}'
        answers = await asyncio.gather(*(self.send(client, body) for _ in range(8)))
        assert len({answer.json()["run"] for answer in answers}) == 1
        assert (await app.store.triggers())["orders"].runs == 1

    async def test_a_call_that_is_not_signed_right_starts_nothing(
        self, app: Spindle, client: httpx.AsyncClient
    ) -> None:
        body = b'{"note": "x"}'
        moment = time.time()
        answers = [
            await client.post("/hooks/orders", content=body),
            await self.send(client, body, secret="another-secret-of-length"),
            await self.send(client, body, now=moment - 3600),
            await self.send(client, body, now=moment + 3600),
        ]
        headers = signed(SECRET, "m1", body)
        answers.append(await client.post("/hooks/orders", content=body + b" ", headers=headers))
        answers.append(
            await client.post("/hooks/orders", content=body, headers={**headers, "webhook-id": "m2"})
        )
        assert {answer.status_code for answer in answers} == {401}
        assert await app.store.runs(limit=-1) == []
        assert await app.store.triggers() == {}

    async def test_hostile_bodies_are_bounded_and_others_come_through(
        self, app: Spindle, client: httpx.AsyncClient
    ) -> None:
        assert (await self.send(client, b"x" * 10_000_000)).status_code == 413
        assert (await self.send(client, b"\xff\xfe{", "m2")).status_code == 400
        assert (await self.send(client, b"[" * 100_000, "m3")).status_code == 400
        assert (await self.send(client, b'{"note": 5}', "m4")).status_code == 400
        state = (await app.store.triggers())["orders"]
        assert (state.runs, state.error and state.error["category"]) == (0, "invalid_arguments")
        assert (await client.get("/hooks/orders")).status_code == 405
        assert (await client.post("/hooks/order", content=b"x")).status_code == 404
        assert (await self.send(client, b'{"note": "${secrets.X}"}', "m5")).status_code == 202
        assert await texts(app) == ["${secrets.X}"]

    @pytest.mark.parametrize("in_chunks", [False, True])
    @pytest.mark.parametrize("limit", [2000, 4 * 1024 * 1024])
    async def test_a_body_of_10_mb_is_refused_by_an_answer_and_not_by_a_reset(
        self, app: Spindle, in_chunks: bool, limit: int
    ) -> None:
        """Of a sender that sends all before it reads, and asks for the connection to be closed."""
        config = CONFIG.model_copy(update={"max_body_size": limit, "allowed_hosts": ("127.0.0.1",)})
        api = make_app(app, ServingAccess.of(config))
        body = b"x" * 10_000_000

        def post(port: int) -> tuple[int, bytes]:
            client = http.client.HTTPConnection("127.0.0.1", port, timeout=PATIENCE)
            sent = iter([body[: len(body) // 2], body[len(body) // 2 :]]) if in_chunks else body
            headers = {**signed(SECRET, "m1", body), "connection": "close"}
            client.request("POST", "/hooks/orders", sent, headers, encode_chunked=in_chunks)
            answer = client.getresponse()
            return answer.status, answer.read()

        server = EmbeddedServer(api, lambda: ConnectionLimits.of(config))
        with open_socket("127.0.0.1", 0) as bound:
            serving = asyncio.create_task(server.serve([bound]))
            status, said = await asyncio.to_thread(post, bound.getsockname()[1])
            server.stop(1.0)
            await serving
        assert (status, b"the body is larger than" in said) == (413, True)
        assert await app.store.runs(limit=-1) == []

    async def test_a_full_queue_is_said_so_that_the_sender_tries_again(self, root: Path) -> None:
        table = trigger("orders", text="x", webhook=True, secret=SECRET, queue="short")
        async with opened(root, table, "[engine.queues.short]\nlimit = 1\n") as app:
            api = make_app(app, ServingAccess.of(CONFIG))
            async with httpx.AsyncClient(
                transport=httpx.ASGITransport(api), base_url="http://here"
            ) as client:
                assert (await self.send(client, b"{}", "m1")).status_code == 202
                full = await self.send(client, b"{}", "m2")
                assert full.status_code in (429, 503)
                assert full.headers["retry-after"]


async def test_what_a_server_does_not_show_to_others_its_triggers_may_use(root: Path) -> None:
    table = trigger("orders", text="x", webhook=True, secret=SECRET)
    access = ServingAccess.of(CONFIG.model_copy(update={"exposed_tools": ("nothing",)}))
    async with opened(root, table, visible=or_owner(access.shows)) as app:
        with pytest.raises(NotFoundError):
            await app.call("count", text="x")
        run = await Trigger(app, "orders", triggers_of(app)["orders"], print).fire({"id": "1"})
        assert run.status == "queued"
        with pytest.raises(NotFoundError):
            await app.call("count", text="x")


async def test_an_event_that_is_too_large_is_refused_and_seen(root: Path) -> None:
    async with opened(root, trigger(folder="inbox")) as app:
        fired = Trigger(app, "drop", triggers_of(app)["drop"], print)
        with pytest.raises(InvalidArgumentsError, match="10000"):
            await fired.fire({"id": "1", "name": "x" * 10_000_000})
        await fired.fire_or_drop({"id": "1", "name": "x" * 10_000_000})
        await fired.fire_or_drop({"id": "1", "name": "fine"})
        assert await texts(app) == ["fine"]


class TestChannels:
    @pytest.fixture
    def document(
        self, request: pytest.FixtureRequest, root: Path, tmp_path_factory: pytest.TempPathFactory
    ) -> Any:
        kind = getattr(request, "param", "nats")
        with contextlib.ExitStack() as stack:
            if kind == "kafka":
                protocol, host = kind, stack.enter_context(brokers.kafka())
            else:
                broker = stack.enter_context(getattr(brokers, kind)(tmp_path_factory.mktemp(kind)))
                protocol, host = broker.protocol, broker.host
            (root / "events").mkdir()
            (root / "events" / "shop.json").write_text(
                json.dumps(
                    {
                        "asyncapi": "3.0.0",
                        "info": {"title": "Shop", "version": "1"},
                        "id": "urn:shop",
                        "servers": {"main": {"host": host, "protocol": protocol}},
                        "channels": {
                            "placed": {
                                "address": "orders.placed",
                                "messages": {"Placed": {"payload": {"type": "object"}}},
                            }
                        },
                        "operations": {
                            "announce": {
                                "action": "send",
                                "channel": {"$ref": "#/channels/placed"},
                                "x-agent-tool": True,
                            }
                        },
                    }
                )
            )
            yield

    @pytest.mark.parametrize(
        "document",
        ["nats", "kafka", *(pytest.param(kind, marks=pytest.mark.brokers) for kind in OTHER_BROKERS)],
        indirect=True,
    )
    @pytest.mark.usefixtures("document")
    async def test_an_event_of_a_broker_starts_the_flow_once(self, root: Path) -> None:
        notes: list[str] = []
        table = trigger("orders", text="${event.data.note}", channel="orders.*")
        async with (
            opened(root, table) as app,
            spindle.open(root) as other,
            triggered_meanwhile(app, notes.append),
            triggered_meanwhile(other, notes.append),
        ):
            await heard(app, "orders")
            async with asyncio.timeout(PATIENCE):
                # A broker says nothing of who listens, so the first event is sent until it is heard.
                while not await app.store.runs(limit=1):
                    await app.call("announce", {"note": "first"})
                    await asyncio.sleep(0.2)
            await app.call("announce", {"other": 1})
            await app.call("announce", {"note": 7})
            sent = [f"n{number}" for number in range(5)]
            for note in sent:
                await app.call("announce", {"note": note})
            async with asyncio.timeout(PATIENCE):
                # One that was sent to be heard may still be on its way.
                while len(found := [text for text in await texts(app) if text != "first"]) < len(sent):
                    await asyncio.sleep(0.05)
            assert found == sent
        assert len([note for note in notes if "started no run" in note]) == 2

    @pytest.mark.brokers
    # The library leaves a socket to the collector when it is stopped while it connects.
    @pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
    @pytest.mark.parametrize("document", ["rabbitmq"], indirect=True)
    async def test_rabbitmq_keeps_what_comes_between_the_death_of_one_and_the_next(
        self, root: Path, document: Any
    ) -> None:
        del document
        table = trigger("orders", text="${event.data.note}", channel="orders.*")
        async with opened(root, table) as app:
            async with worker(Place(root, None)) as first:
                await heard(app, "orders")
                async with asyncio.timeout(PATIENCE):
                    while not await app.store.runs(limit=1):
                        await app.call("announce", {"note": "first"})
                        await asyncio.sleep(0.2)
                await first.end(signal.SIGKILL)
            for number in range(5):
                await app.call("announce", {"note": f"n{number}"})
            async with triggered_meanwhile(app, print):
                await until(app, lambda runs: len(runs) >= 6)
                await app.call("announce", {"note": "z"})
                async with asyncio.timeout(PATIENCE):
                    while "z" not in (found := await texts(app)):
                        await asyncio.sleep(0.05)
            assert [text for text in found if text != "first"] == [
                *(f"n{number}" for number in range(5)),
                "z",
            ]

    async def test_another_listens_when_the_first_ends(self, root: Path, document: Any) -> None:
        del document
        table = trigger("orders", text="${event.data.note}", channel="orders.*")
        async with opened(root, table) as app, spindle.open(root) as other:
            async with triggered_meanwhile(app, print):
                await heard(app, "orders")
            assert not await is_heard(app, "orders")
            assert await app.store.acquire("trigger:orders", "one that died", 0.5)
            async with triggered_meanwhile(other, print), asyncio.timeout(PATIENCE + LEASE):
                while not await app.store.runs(limit=1):
                    await app.call("announce", {"note": "later"})
                    await asyncio.sleep(0.2)


async def test_a_changed_resource_of_an_mcp_server_starts_the_flow(root: Path) -> None:
    source = fixture_source(prefix=True)
    more = tomlkit.dumps({"sources": {"far": source}})
    table = trigger("changed", text="${event.uri}", resource="test://watched-resource", source="far")
    async with opened(root, table, more) as app, triggered_meanwhile(app, print):
        await heard(app, "changed")
        async with asyncio.timeout(PATIENCE):
            while not await app.store.runs(limit=1):
                await app.call("far.test_touch_resource")
                await asyncio.sleep(0.2)
        assert set(await texts(app)) == {"test://watched-resource"}


@pytest.mark.parametrize(
    ("table", "why"),
    [
        ({}, "one of `channel`"),
        ({"channel": "a", "folder": "b"}, "channel and folder"),
        ({"webhook": True}, "needs a `secret`"),
        ({"webhook": True, "secret": "short"}, "needs a `secret`"),
        ({"folder": "a", "secret": SECRET}, "`secret` is not for"),
        ({"folder": "a", "foldre": "b"}, "foldre"),
        ({"folder": "a", "keep": {"age": "soon"}}, "must be a time"),
        ({"channel": "a", "keep": {"count": 1}}, "`keep` is not for"),
        ({"folder": "a", "inputs": 3}, "inputs should be a table"),
    ],
)
async def test_mistakes_in_the_settings_are_said(root: Path, table: dict[str, Any], why: str) -> None:
    async with opened(root, {"t": {"flow": "report", **table}}) as app:
        with pytest.raises(ConfigurationError, match=why) as refused:
            triggers_of(app)
    assert "triggers.t" in refused.value.message
    assert SECRET not in refused.value.message
