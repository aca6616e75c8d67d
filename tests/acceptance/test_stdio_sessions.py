"""The life of a server's process: started once, shared, replaced when it dies, never left behind."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from servers.running import (
    OpenSources,
    Signal,
    StdioServers,
    is_running,
    listening,
    next_change,
    process_end,
    until,
)
from spindle import CallOptions, Principal
from spindle.domain.identity import Credential
from spindle.errors import ConnectionFailedError

TOGETHER = {"max_concurrency": 200}


async def test_two_hundred_parallel_calls_start_one_process(
    open_sources: OpenSources, stdio_server: StdioServers
) -> None:
    async with open_sources({"s": stdio_server() | TOGETHER}) as app:
        results = await asyncio.gather(*(app.call("s.echo", text=str(number)) for number in range(200)))
    assert [result.text for result in results] == [str(number) for number in range(200)]
    assert len(stdio_server.starts()) == 1
    assert len([entry for entry in stdio_server.recorded() if entry.get("method") == "tools/list"]) == 1


async def test_nothing_runs_after_the_app_is_closed(
    open_sources: OpenSources, stdio_server: StdioServers
) -> None:
    async with open_sources({"s": stdio_server()}) as app:
        await app.call("s.echo", text="x")
    (pid,) = stdio_server.starts()
    assert not is_running(pid)
    assert stdio_server.recorded()[-1]["end"] == "stdin closed"


async def test_a_call_after_closing_says_that_it_was_closed(
    open_sources: OpenSources, stdio_server: StdioServers
) -> None:
    async with open_sources({"s": stdio_server()}) as app:
        tool = await app.show("s.echo")
        connections, source = app.catalog.connections, app.catalog.sources.get("s")
        config = app.catalog.sources.config("s")
    with pytest.raises(ConnectionFailedError, match="was closed"):
        async with connections.session(tool.source, source, config, Credential()):
            pass


async def test_a_server_that_ignores_its_end_is_killed(
    open_sources: OpenSources, stdio_server: StdioServers, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("spindle.sources.mcp.process.STDIN_GRACE", 0.05)
    monkeypatch.setattr("spindle.sources.mcp.process.TERM_GRACE", 0.05)
    async with open_sources({"s": stdio_server(at_start="stubborn")}) as app:
        pid = int((await app.call("s.pid")).text)
    assert not is_running(pid)


async def test_a_dead_server_is_restarted_on_the_next_call(
    open_sources: OpenSources, stdio_server: StdioServers
) -> None:
    async with open_sources({"s": stdio_server()}) as app:
        first = int((await app.call("s.pid")).text)
        os.kill(first, signal.SIGKILL)
        await process_end(first)
        second = int((await app.call("s.pid")).text)
        assert first != second
        assert not is_running(first)
    assert stdio_server.starts() == [first, second]


async def test_a_dead_server_is_not_restarted_without_a_call(
    open_sources: OpenSources, stdio_server: StdioServers
) -> None:
    notes: list[str] = []
    async with open_sources({"s": stdio_server(modern=True)}, note=notes.append) as app:
        await app.sync()
        change = next_change(app)
        await listening(app)
        await app.call("s.add_tool", name="newcomer")
        await change()
        pid = int((await app.call("s.pid")).text)
        os.kill(pid, signal.SIGKILL)
        await process_end(pid)
        connection = next(iter(app.catalog.connections._open.values()), None)
        if connection is not None:
            await connection.task
        assert app.catalog._refreshes.tasks == {}
        assert stdio_server.starts() == [pid]
    # Two of its tools have schemas with faults, which is said when they are listed.
    assert [note for note in notes if " is loosened: " not in note] == []


async def test_calls_in_flight_on_a_killed_server_fail_or_are_repeated_where_that_is_safe(
    open_sources: OpenSources, stdio_server: StdioServers, tmp_path: Path
) -> None:
    mark = tmp_path / "go"
    source = stdio_server() | TOGETHER
    async with open_sources({"s": source}) as app:
        pid = int((await app.call("s.pid")).text)
        signals = [Signal() for _ in range(20)]
        names = ["s.wait", "s.wait_safely"] * 10
        tasks = [
            asyncio.create_task(app.call(name, {"until": str(mark)}, CallOptions(on_progress=took)))
            for name, took in zip(names, signals, strict=True)
        ]
        await asyncio.gather(*(took.wait() for took in signals))
        mark.touch()
        os.kill(pid, signal.SIGKILL)
        outcomes = await asyncio.gather(*tasks, return_exceptions=True)
        assert (await app.call("s.echo", text="next")).text == "next"
        assert not is_running(pid)
    lost, repeated = outcomes[0::2], outcomes[1::2]
    assert all(isinstance(outcome, ConnectionFailedError) for outcome in lost)
    assert {str(outcome) for outcome in lost} == {"lost 's': the server was ended by SIGKILL"}
    assert [getattr(outcome, "text", outcome) for outcome in repeated] == ["waited"] * 10
    assert stdio_server.calls("wait") == 10
    assert len(stdio_server.starts()) == 2


async def test_a_call_that_kills_its_server_is_not_repeated(
    open_sources: OpenSources, stdio_server: StdioServers
) -> None:
    async with open_sources({"s": stdio_server()}) as app:
        with pytest.raises(ConnectionFailedError, match="ended by SIGKILL") as caught:
            await app.call("s.die")
        assert caught.value.sent
    assert stdio_server.calls("die") == 1


async def test_a_read_only_call_that_kills_its_server_is_repeated(
    open_sources: OpenSources, stdio_server: StdioServers, tmp_path: Path
) -> None:
    async with open_sources({"s": stdio_server()}) as app:
        assert (await app.call("s.die_once", mark=str(tmp_path / "mark"))).text == "alive"
    assert stdio_server.calls("die_once") == 2


async def test_a_server_that_closes_its_output_counts_as_lost(
    open_sources: OpenSources, stdio_server: StdioServers, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("spindle.sources.mcp.process.LAST_GRACE", 0.05)
    monkeypatch.setattr("spindle.sources.mcp.process.STDIN_GRACE", 0.05)
    async with open_sources({"s": stdio_server()}) as app:
        first = int((await app.call("s.pid")).text)
        with pytest.raises(ConnectionFailedError, match="closed its output"):
            await app.call("s.close_output")
        second = int((await app.call("s.pid")).text)
        await process_end(first)
        assert first != second


async def test_killing_a_launcher_ends_the_server_it_started(
    open_sources: OpenSources, stdio_server: StdioServers
) -> None:
    async with open_sources({"s": stdio_server(wrapper=True)}) as app:
        server = int((await app.call("s.pid")).text)
        wrapper = next(entry["pid"] for entry in stdio_server.recorded() if entry.get("start") == "wrapper")
        os.kill(wrapper, signal.SIGKILL)
        await process_end(server)
        assert int((await app.call("s.pid")).text) != server
    starts = [entry["pid"] for entry in stdio_server.recorded() if "start" in entry]
    await asyncio.gather(*(process_end(pid) for pid in starts))
    assert len(starts) == 4


async def test_closing_ends_a_launcher_and_its_server(
    open_sources: OpenSources, stdio_server: StdioServers, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("spindle.sources.mcp.process.STDIN_GRACE", 0.05)
    async with open_sources({"s": stdio_server(wrapper=True, at_start="stubborn")}) as app:
        server = int((await app.call("s.pid")).text)
    await process_end(server)
    starts = [entry["pid"] for entry in stdio_server.recorded() if "start" in entry]
    assert len(starts) == 2


async def test_an_idle_session_closes_and_is_opened_again(
    open_sources: OpenSources, stdio_server: StdioServers
) -> None:
    async with open_sources({"s": stdio_server() | {"idle_timeout": 0.05}}) as app:
        first = int((await app.call("s.pid")).text)
        await process_end(first)
        second = int((await app.call("s.pid")).text)
        await process_end(second)
    assert first != second


async def test_a_session_in_use_is_not_idle(open_sources: OpenSources, stdio_server: StdioServers) -> None:
    async with open_sources({"s": stdio_server() | {"idle_timeout": 0.01}}) as app:
        took = Signal()
        waiting = asyncio.create_task(app.call("s.wait", {}, CallOptions(on_progress=took)))
        await took.wait()
        pids = {(await app.call("s.pid")).text for _ in range(20)}
        waiting.cancel()
        await asyncio.wait([waiting])
    assert pids == {str(stdio_server.starts()[-1])}


async def test_what_ended_is_not_kept(open_sources: OpenSources, stdio_server: StdioServers) -> None:
    async def own_token(source: str, principal: Principal) -> Credential:
        return Credential(env=(("TOKEN", principal.id),))

    source = stdio_server() | {"idle_timeout": 0.01}
    async with open_sources({"s": source}, credentials=own_token) as app:
        for number in range(3):
            options = CallOptions(principal=Principal(f"user {number}"))
            await process_end(int((await app.call("s.pid", {}, options)).text))
        await asyncio.gather(*(item.task for item in app.catalog.connections._open.values()))
        assert app.catalog.connections._open == {}


async def test_each_principal_with_an_own_credential_has_an_own_process(
    open_sources: OpenSources, stdio_server: StdioServers
) -> None:
    async def own_token(source: str, principal: Principal) -> Credential:
        return Credential(env=(("TOKEN", f"token of {principal.id}"),))

    async with open_sources({"s": stdio_server() | TOGETHER}, credentials=own_token) as app:
        people = [Principal("ann"), Principal("ben")] * 25
        results = await asyncio.gather(
            *(app.call("s.env", {"name": "TOKEN"}, CallOptions(principal=person)) for person in people)
        )
    assert [result.text for result in results] == [f"token of {person.id}" for person in people]
    assert len(stdio_server.starts()) == 2


async def test_sessions_are_bounded_and_the_least_used_idle_one_makes_room(
    open_sources: OpenSources, stdio_server: StdioServers
) -> None:
    async def own_token(source: str, principal: Principal) -> Credential:
        return Credential(env=(("TOKEN", principal.id),))

    async with open_sources({"s": stdio_server() | {"max_sessions": 2}}, credentials=own_token) as app:

        async def pid(who: str) -> int:
            return int((await app.call("s.pid", {}, CallOptions(principal=Principal(who)))).text)

        await app.sync()
        ann, ben = await pid("ann"), await pid("ben")
        assert await pid("ann") == ann
        cleo = await pid("cleo")
        await process_end(ben)
        assert await pid("ann") == ann
        assert await pid("cleo") == cleo


class Changing:
    """Gives each user a token of their own, which the test replaces."""

    def __init__(self) -> None:
        self.tokens: dict[str, str] = {}

    async def __call__(self, source: str, principal: Principal) -> Credential:
        token = self.tokens.get(principal.id, f"first of {principal.id}")
        return Credential(env=(("TOKEN", token),))


def of(who: str, **more: Any) -> CallOptions:
    return CallOptions(principal=Principal(who), **more)


async def test_the_process_of_a_credential_that_was_replaced_ends_at_once_if_nobody_uses_it(
    open_sources: OpenSources, stdio_server: StdioServers
) -> None:
    given = Changing()
    async with open_sources({"s": stdio_server()}, credentials=given) as app:
        old, other = [int((await app.call("s.pid", {}, of(who))).text) for who in ("ann", "ben")]
        given.tokens["ann"] = "second"
        assert (await app.call("s.env", {"name": "TOKEN"}, of("ann"))).text == "second"
        await process_end(old)
        assert int((await app.call("s.pid", {}, of("ben"))).text) == other


async def test_the_process_of_a_credential_that_was_replaced_ends_with_its_last_call(
    open_sources: OpenSources, stdio_server: StdioServers, tmp_path: Path
) -> None:
    given, mark, signals = Changing(), tmp_path / "go", [Signal(), Signal()]
    async with open_sources({"s": stdio_server()}, credentials=given) as app:
        old = int((await app.call("s.pid", {}, of("ann"))).text)
        first = asyncio.create_task(app.call("s.wait", {}, of("ann", on_progress=signals[0])))
        await signals[0].wait()
        last = asyncio.create_task(
            app.call("s.stop_reading", {"until": str(mark)}, of("ann", on_progress=signals[1]))
        )
        await signals[1].wait()
        given.tokens["ann"] = "second"
        new = int((await app.call("s.pid", {}, of("ann"))).text)
        first.cancel()
        await asyncio.wait([first])
        assert is_running(old)
        mark.touch()
        assert (await last).text == "reading again"
        await process_end(old)
        assert int((await app.call("s.pid", {}, of("ann"))).text) == new
    assert stdio_server.starts() == [old, new]


async def test_a_call_that_was_late_with_an_older_credential_leaves_no_process_behind(
    open_sources: OpenSources, stdio_server: StdioServers, tmp_path: Path
) -> None:
    given, took = Changing(), Signal()
    async with open_sources({"s": stdio_server() | {"max_concurrency": 1}}, credentials=given) as app:
        await app.sync()
        mark = tmp_path / "go"
        holding = asyncio.create_task(
            app.call("s.stop_reading", {"until": str(mark)}, of("ben", on_progress=took))
        )
        await took.wait()
        late = asyncio.create_task(app.call("s.pid", {}, of("ann")))
        limit = app.caller.guards["s"].limit
        await until(lambda: limit.waiting == 1)
        given.tokens["ann"] = "second"
        newer = asyncio.create_task(app.call("s.pid", {}, of("ann")))
        await until(lambda: limit.waiting == 2)
        mark.touch()
        await holding
        old, new = int((await late).text), int((await newer).text)
        await process_end(old)
        assert int((await app.call("s.pid", {}, of("ann"))).text) == new


async def test_a_credential_that_comes_back_is_kept_again(
    open_sources: OpenSources, stdio_server: StdioServers
) -> None:
    given = Changing()
    async with open_sources({"s": stdio_server()}, credentials=given) as app:
        pids: list[int] = []
        for token in ("first", "second", "first", "first"):
            given.tokens["ann"] = token
            pids.append(int((await app.call("s.pid", {}, of("ann"))).text))
        assert pids[2] == pids[3]
        assert len(set(pids)) == 3
        await asyncio.gather(process_end(pids[0]), process_end(pids[1]))


async def test_a_credential_that_another_user_still_has_keeps_its_process(
    open_sources: OpenSources, stdio_server: StdioServers
) -> None:
    given = Changing()
    given.tokens = {"ann": "common", "ben": "common"}
    async with open_sources({"s": stdio_server()}, credentials=given) as app:
        common = {int((await app.call("s.pid", {}, of(who))).text) for who in ("ann", "ben")}
        given.tokens["ann"] = "own"
        await app.call("s.pid", {}, of("ann"))
        assert {int((await app.call("s.pid", {}, of("ben"))).text)} == common
        given.tokens["ben"] = "own"
        await app.call("s.pid", {}, of("ben"))
        await process_end(*common)


async def test_a_caller_that_gives_up_does_not_end_the_opening_for_others(
    open_sources: OpenSources, stdio_server: StdioServers
) -> None:
    async with open_sources({"s": stdio_server()}) as app:
        await app.sync()
        (connection,) = app.catalog.connections._open.values()
        connection.stop()
        await connection.task
        first = asyncio.create_task(app.call("s.echo", text="first"))
        others = [asyncio.create_task(app.call("s.echo", text="other")) for _ in range(5)]
        await until(lambda: any(item.opening for item in app.catalog.connections._open.values()))
        first.cancel()
        results = await asyncio.gather(*others)
        with pytest.raises(asyncio.CancelledError):
            await first
    assert [result.text for result in results] == ["other"] * 5
    assert len(stdio_server.starts()) == 2


async def test_closing_while_a_session_opens_leaves_nothing_running(
    open_sources: OpenSources, stdio_server: StdioServers, tmp_path: Path
) -> None:
    async with open_sources({"s": stdio_server(at_start="silent")}) as app:
        syncing = asyncio.create_task(app.sync())
        await until(lambda: bool(stdio_server.starts()))
    (report,) = await syncing
    assert report.error is not None
    (pid,) = stdio_server.starts()
    assert not is_running(pid)


async def test_one_dead_source_sinks_no_other_and_keeps_its_last_known_tools(
    open_sources: OpenSources, stdio_server: StdioServers, tmp_path: Path
) -> None:
    broken = tmp_path / "broken"
    sources = {
        "flaky": stdio_server("flaky", fail_starts=str(broken)) | {"idle_timeout": 0.01},
        "silent": stdio_server("silent", at_start="silent") | {"connect_timeout": 0.3},
        "good": stdio_server("good"),
    }
    async with open_sources(sources) as app:
        reports = {report.source: report for report in await app.sync()}
        assert reports["flaky"].error is None
        assert reports["good"].error is None
        assert reports["silent"].error is not None
        known = [tool.name for tool in await app.tools(source="flaky")]
        await process_end(stdio_server.starts("flaky")[-1])
        broken.touch()
        reports = {report.source: report for report in await app.sync()}
        assert "the token is missing" in (reports["flaky"].error or {})["message"]
        assert reports["good"].error is None
        assert [tool.name for tool in await app.tools(source="flaky")] == known
        states = await app.catalog.states()
        assert "the token is missing" in (states["flaky"].error or "")
        broken.unlink()
        assert (await app.call("flaky.echo", text="back")).text == "back"


CALL_FOREVER = """
import asyncio, json, sys
from pathlib import Path
import spindle
from spindle.settings import Settings

async def told(progress, total, message):
    print("waiting", flush=True)

async def main():
    settings = Settings(Path(sys.argv[1]), {"sources": {"s": json.loads(sys.argv[2])}, "store": ":memory:"})
    async with spindle.open(settings=settings) as app:
        await app.call("s.wait", {}, spindle.CallOptions(on_progress=told))

asyncio.run(main())
"""

CALL_AND_EXIT = """
import json, sys
from pathlib import Path
import spindle
from spindle.settings import Settings

settings = Settings(Path(sys.argv[1]), {"sources": {"s": json.loads(sys.argv[2])}, "store": ":memory:"})
app = spindle.open(settings=settings).__enter__()
print(app.call("s.pid").text, flush=True)
"""

RUN_AND_FORGET = """
import asyncio, json, sys
from pathlib import Path
import spindle
from spindle.settings import Settings

async def main():
    settings = Settings(Path(sys.argv[1]), {"sources": {"s": json.loads(sys.argv[2])}, "store": ":memory:"})
    app = await spindle.open(settings=settings).__aenter__()
    print((await app.call("s.pid")).text, flush=True)

asyncio.run(main())
"""


def start_client(script: str, folder: Path, source: dict[str, object]) -> subprocess.Popen[str]:
    command = [sys.executable, "-c", script, str(folder), json.dumps(source)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


async def test_ctrl_c_during_a_call_leaves_nothing_running(
    stdio_server: StdioServers, tmp_path: Path
) -> None:
    with start_client(CALL_FOREVER, tmp_path, stdio_server()) as client:
        assert client.stdout is not None
        assert await asyncio.to_thread(client.stdout.readline) == "waiting\n"
        client.send_signal(signal.SIGINT)
        _, errors = await asyncio.to_thread(client.communicate)
    assert "KeyboardInterrupt" in errors
    (pid,) = stdio_server.starts()
    await process_end(pid)
    methods = [entry.get("method") for entry in stdio_server.recorded()]
    assert methods[-2:] == ["notifications/cancelled", None]


@pytest.mark.parametrize("script", [CALL_AND_EXIT, RUN_AND_FORGET], ids=["blocking", "async"])
async def test_an_interpreter_that_exits_without_closing_leaves_nothing_running(
    stdio_server: StdioServers, tmp_path: Path, script: str
) -> None:
    with start_client(script, tmp_path, stdio_server(at_start="stubborn", wrapper=True)) as client:
        output, errors = await asyncio.to_thread(client.communicate)
    assert client.returncode == 0, errors
    # Some Pythons complain that the loop was closed under the process; nothing of ours may.
    assert "spindle" not in errors
    await process_end(int(output))
    starts = [entry["pid"] for entry in stdio_server.recorded() if "start" in entry]
    assert len(starts) == 2


MEASURE = """
import asyncio, json, resource, sys
from pathlib import Path
import spindle
from spindle.errors import ResultTooLargeError
from spindle.settings import Settings

def peak():
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024

async def main():
    settings = Settings(Path(sys.argv[1]), {"sources": {"s": json.loads(sys.argv[2])}, "store": ":memory:"})
    async with spindle.open(settings=settings) as app:
        await app.call("s.echo", text="warm")
        before = peak()
        for _ in range(2):
            try:
                await app.call("s.big", size=50_000_000)
            except ResultTooLargeError:
                pass
            else:
                raise AssertionError("it was not refused")
        await app.call("s.flood", count=100_000)
        print(peak() - before)

asyncio.run(main())
"""


async def test_a_result_of_fifty_megabytes_does_not_fill_the_memory(
    stdio_server: StdioServers, tmp_path: Path
) -> None:
    source = stdio_server() | {"max_result_size": "1MB"}
    with start_client(MEASURE, tmp_path, source) as client:
        output, errors = await asyncio.to_thread(client.communicate)
    assert client.returncode == 0, errors
    assert int(output) < 20_000_000
