"""Temporal as the engine: what it is told, what is refused, and what is said when it cannot be used."""

from __future__ import annotations

import asyncio
import contextlib
import importlib.util
import subprocess
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError
from temporalio.client import Client

from servers.certificates import Authority, tls_before
from servers.postgres import free_port
from servers.running import PATIENCE
from servers.temporal import TemporalServer
from servers.workers import Place, flow, until_it_is, worker, workspace
from spindle.app import Spindle
from spindle.domain.engine import EngineConfig, TemporalConfig
from spindle.engines import open as opening
from spindle.engines.temporal import TemporalEngine, level_of
from spindle.errors import ConfigurationError, ConnectionFailedError, SpindleError
from spindle.serving.working import work

KEY = "sk-planted-secret"
HERE = "localhost:7233"

ENDS = """
import asyncio, sys
from pathlib import Path
from spindle.domain.engine import TemporalConfig
from spindle.engines.temporal import TemporalEngine


async def asks(engine):
    client = await engine._connected()
    for _ in range(300):
        asyncio.ensure_future(client.service_client.check_health())
    await asyncio.sleep(0)  # they are sent


engine = TemporalEngine(TemporalConfig(address=sys.argv[1]), Path.cwd(), {}, print)
asyncio.run(asks(engine))
print("ended")
"""


def settings(address: str, **more: str) -> str:
    lines = "".join(f'{name} = "{value}"\n' for name, value in more.items())
    return f'[engine]\nkind = "temporal"\n[engine.temporal]\naddress = "{address}"\n{lines}'


def made(folder: Path, text: str) -> Place:
    place = workspace(folder, None, text)
    place.save("three", flow(3))
    return place


@contextlib.asynccontextmanager
async def working(app: Spindle) -> AsyncIterator[None]:
    """A worker in this process."""
    ready = asyncio.Event()
    task = asyncio.create_task(work(app, ["default"], None, print, on_ready=ready.set))
    try:
        await ready.wait()
        yield
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


async def refused(place: Place) -> SpindleError:
    """Returns what is said to one who submits, and checks that nothing was stored."""
    async with place.opened() as app:
        await app.sync()
        with pytest.raises(SpindleError) as caught:
            await app.submit("three", {"item": "a"})
        assert await app.store.queued("default") == 0
    return caught.value


def test_a_process_ends_with_answers_of_the_server_on_their_way(
    tmp_path: Path, temporal_server: TemporalServer
) -> None:
    script = tmp_path / "ends.py"
    script.write_text(ENDS)
    command = [sys.executable, str(script), temporal_server.address]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE, check=False)
    assert (ended.returncode, ended.stdout) == (0, "ended\n"), ended.stderr


async def test_temporal_is_told_ids_only(tmp_path: Path, temporal_server: TemporalServer) -> None:
    text = temporal_server.settings()
    prefix = text.split('prefix = "')[1].split('"')[0]
    place = made(tmp_path, text)
    async with place.opened() as app, worker(place):
        await app.sync()
        run = await app.submit("three", {"item": "planted words"}, dedup="a key")
        again = await app.submit("three", {"item": "planted words"}, dedup="a key")
        assert again.id == run.id
        await until_it_is(app, run.id, "done")
    client = await Client.connect(temporal_server.address)
    history = await client.get_workflow_handle(f"{prefix}.{run.id}.1").fetch_history()
    told = history.to_json()
    assert run.id in told
    assert "planted words" not in told
    assert "a key" not in told
    begun = history.events[0].workflow_execution_started_event_attributes
    assert [payload.data for payload in begun.input.payloads] == [f'"{run.id}"'.encode(), b"1", b"1.5"]


async def test_a_server_that_cannot_be_reached_is_said_before_anything_is_stored(tmp_path: Path) -> None:
    address = f"127.0.0.1:{free_port()}"
    said = await refused(made(tmp_path, settings(address, api_key=KEY) + "tls = false\n"))
    assert isinstance(said, ConnectionFailedError)
    assert said.message == f"Temporal at {address} cannot be reached: Connection refused"
    assert "[engine.temporal]" in str(said.hint)


async def test_a_namespace_that_is_not_there_is_said(tmp_path: Path, temporal_server: TemporalServer) -> None:
    said = await refused(made(tmp_path, settings(temporal_server.address, namespace="nowhere")))
    assert isinstance(said, ConfigurationError)
    assert said.message == f"Temporal at {temporal_server.address} has no namespace 'nowhere'"


async def test_a_certificate_that_cannot_be_read_is_said(tmp_path: Path) -> None:
    said = await refused(made(tmp_path, settings(HERE, ca="no.pem")))
    assert isinstance(said, ConfigurationError)
    assert "no.pem cannot be read" in said.message


class TestTls:
    """A real server behind a proxy that speaks TLS, once of any client and once of those it knows."""

    @pytest.fixture
    def authority(self, tmp_path: Path) -> Authority:
        return Authority(tmp_path, "ours")

    async def test_a_run_is_executed_over_tls_with_a_certificate_of_our_own(
        self, tmp_path: Path, authority: Authority, temporal_server: TemporalServer
    ) -> None:
        certificate, key = authority.issue("worker")
        async with tls_before(temporal_server.port, authority, clients=authority) as port:
            files = f'ca = "{authority.ca}"\ncertificate = "{certificate}"\nkey = "{key}"\n'
            place = made(tmp_path, temporal_server.settings(f"localhost:{port}") + files)
            async with place.opened() as app, working(app):
                await app.sync()
                run = await app.submit("three", {"item": "a"})
                await until_it_is(app, run.id, "done")

    async def test_what_is_wrong_with_tls_is_said_with_the_way_out(
        self, tmp_path: Path, authority: Authority, temporal_server: TemporalServer
    ) -> None:
        other = Authority(tmp_path, "theirs")
        certificate, key = authority.issue("worker")
        strange, strange_key = other.issue("stranger")

        async def said(port: int, host: str = "localhost", **table: Any) -> tuple[str, str]:
            config = TemporalConfig.model_validate({"address": f"{host}:{port}", **table})
            with pytest.raises(ConnectionFailedError) as caught:
                await TemporalEngine(config, tmp_path, {}, print).check()
            start = f"Temporal at {host}:{port} cannot be reached: "
            assert caught.value.message.startswith(start)
            return caught.value.message.removeprefix(start), caught.value.hint or ""

        ca, plain = str(authority.ca), temporal_server.port
        own = {"ca": ca, "certificate": str(certificate), "key": str(key)}
        async with (
            tls_before(plain, authority) as anyone,
            tls_before(plain, authority, clients=authority) as known,
        ):
            for wrong in ({"ca": str(other.ca)}, {"tls": True}):
                why, hint = await said(anyone, **wrong)
                assert why == "its certificate is of an authority that is not trusted"
                assert "`ca`" in hint
            assert (await said(anyone, "127.0.0.1", ca=ca))[0] == "its certificate is for another name"
            assert (await said(plain, ca=ca))[0] == "it does not speak TLS"
            assert await said(anyone) == (
                "it hung up", "if it speaks TLS, set `tls = true` or `ca` of [engine.temporal]"
            )  # fmt: skip
            assert "want a `certificate` and `key`" in (await said(known, ca=ca))[1]
            stranger = {"ca": ca, "certificate": str(strange), "key": str(strange_key)}
            assert "want another `certificate`" in (await said(known, **stranger))[1]
            mixed = {**own, "key": str(strange_key)}
            assert (await said(known, **mixed))[0] == "the key is not that of the certificate"

    @pytest.mark.parametrize("setting", ["ca", "certificate", "key"])
    async def test_a_file_that_is_none_of_the_kind_is_said(
        self, tmp_path: Path, authority: Authority, setting: str
    ) -> None:
        certificate, key = authority.issue("worker")
        (tmp_path / "words.txt").write_text("no certificate")
        files = {"ca": authority.ca, "certificate": certificate, "key": key, setting: "words.txt"}
        config = TemporalConfig.model_validate(
            {"address": HERE, **{name: str(file) for name, file in files.items()}}
        )
        with pytest.raises(ConfigurationError, match=f"words.txt, its `{setting}`, has no"):
            await TemporalEngine(config, tmp_path, {}, print).check()


async def test_a_run_is_stored_while_the_server_is_away_and_executed_when_it_is_back(tmp_path: Path) -> None:
    from servers.temporal import running_server

    with running_server() as server:
        place = made(tmp_path, server.settings())
        async with place.opened() as app:
            await app.sync()
            await app.submit("three", {"item": "a"})
            server.stop()
            run = await app.submit("three", {"item": "b"})
            assert run.status == "queued"
            server.start()
            async with worker(place):
                await until_it_is(app, run.id, "done")


def test_without_its_library_the_line_that_installs_it_is_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = importlib.util.find_spec
    monkeypatch.setattr(opening, "find_spec", lambda name: None if name == "temporalio" else found(name))
    config = EngineConfig(kind="temporal", temporal=TemporalConfig(address=HERE))
    with pytest.raises(ConfigurationError) as missing:
        opening.open_engine(config, "state.db", None, tmp_path, print, root=tmp_path)
    assert missing.value.hint == "pip install 'spindle-tools[temporal]'"


@pytest.mark.parametrize(
    ("table", "said"),
    [
        ({}, "[engine.temporal] is missing"),
        ({"temporal": {"address": "somewhere"}}, "not HOST:PORT"),
        ({"temporal": {"address": HERE, "certificate": "a.pem"}}, "belong together"),
        ({"temporal": {"address": HERE, "tls": False, "ca": "a.pem"}}, "with `tls` only"),
        ({"temporal": {"address": HERE, "prefix": "it's"}}, "prefix"),
        ({"temporal": {"address": "far.example.com:1", "tls": False, "api_key": KEY}}, "in the clear"),
        ({"temporal": {"address": HERE}, "queues": {"mail": {"total": 20}}}, "queues.mail.total"),
        ({"kind": "dbos", "temporal": {"address": HERE}}, 'with `kind = "temporal"` only'),
    ],
)
def test_what_temporal_does_not_have_is_refused_with_the_settings(table: dict[str, Any], said: str) -> None:
    with pytest.raises(ValidationError) as refusal:
        EngineConfig.model_validate({"kind": "temporal", **table})
    assert said in str(refusal.value)


def test_a_key_is_sent_over_tls_and_shown_nowhere() -> None:
    config = TemporalConfig.model_validate({"address": "far.example.com:7233", "api_key": KEY})
    assert config.uses_tls
    assert KEY not in repr(config)
    assert not TemporalConfig(address=HERE).uses_tls


def test_priorities_keep_their_order_in_temporals_levels() -> None:
    levels = [level_of(priority) for priority in (-5, 0, 99, 100, 101, 199, 200, 10_000)]
    assert levels == [2, 2, 2, 3, 4, 4, 5, 5]
