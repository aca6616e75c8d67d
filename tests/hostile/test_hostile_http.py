"""Clients that send too much, too slowly, in two readings or too often: real servers, real sockets."""

from __future__ import annotations

import contextlib
import json
import os
import re
import select
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from servers.rest import RestWorkspace, Served
from servers.running import PATIENCE
from servers.warm import pid_of

TOKEN = "sesame-of-the-door"
KNOWN = f"Host: localhost\r\nAuthorization: Bearer {TOKEN}\r\n"
CALL = f"POST /tools/say HTTP/1.1\r\n{KNOWN}Content-Type: application/json\r\nContent-Length: 14\r\n\r\n"
SAY = CALL.encode() + b'{"text": "hi"}'
MEGABYTE = 1024 * 1024
ATTACK = Path(__file__).parent / "slow_clients.py"
Figures = Callable[[str], None]


class Client:
    """One connection, byte by byte."""

    def __init__(self, served: Served, data: bytes = b"", source: str | None = None) -> None:
        port = int(served.url.rpartition(":")[2])
        self.socket = socket.socket()
        self.socket.settimeout(PATIENCE)
        # Little enough to be full soon, for who does not read.
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        if source is not None:
            self.socket.bind((source, 0))
        self.socket.connect(("127.0.0.1", port))
        self.send(data)

    def send(self, data: bytes) -> None:
        self.socket.sendall(data)

    def rest(self) -> bytes:
        """All that comes until the server closes."""
        got = bytearray()
        with contextlib.suppress(ConnectionResetError):
            while chunk := self.socket.recv(65536):
                got += chunk
        return bytes(got)

    def answer(self) -> bytes:
        """One whole answer, which says its length."""
        got = b""
        while not (head := re.search(rb"(?is)content-length: (\d+).*?\r\n\r\n", got)):
            got += self._more(got)
        while len(got) < head.end() + int(head[1]):
            got += self._more(got)
        return got

    def chunks(self) -> bytes:
        """An answer in chunks, to its end."""
        got = b""
        while not got.endswith(b"0\r\n\r\n"):
            got += self._more(got)
        return got

    def _more(self, before: bytes) -> bytes:
        chunk = self.socket.recv(65536)
        assert chunk, f"closed after {before!r}"
        return chunk

    def is_open(self) -> bool:
        """True if the server has neither closed nor said anything."""
        return not select.select([self.socket], [], [], 0)[0]

    def until_closed(self) -> None:
        """Returns when the server has closed, without reading."""
        poll = select.poll()
        poll.register(self.socket, select.POLLRDHUP)
        assert poll.poll(PATIENCE * 1000), "it stays open"

    def close(self) -> None:
        self.socket.close()


Connect = Callable[..., Client]


@pytest.fixture
def connect() -> Iterator[Connect]:
    """`connect(served, data)`: a connection that is closed in the end."""
    made: list[Client] = []

    def connected(served: Served, data: bytes = b"", source: str | None = None) -> Client:
        made.append(Client(served, data, source))
        return made[-1]

    yield connected
    for client in made:
        client.close()


def serving(folder: Path, **settings: object) -> contextlib.AbstractContextManager[Served]:
    workspace = RestWorkspace(folder)
    lines = [f"{key} = {value!r}" for key, value in {"auth_token": TOKEN, **settings}.items()]
    workspace.settings("[serve]\n" + "\n".join(lines) + "\n")
    return workspace.serve(token=TOKEN)


@pytest.fixture(scope="module")
def patient(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """A server whose sizes are as usual, and that waits for as long as a test may take."""
    waiting = {"header_timeout": PATIENCE, "body_timeout": PATIENCE, "keep_alive": PATIENCE}
    with serving(tmp_path_factory.mktemp("patient") / "w", **waiting) as served:
        yield served


@pytest.fixture(scope="module")
def hasty(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """A server that waits for a second at most."""
    waiting = {"header_timeout": 1.0, "body_timeout": 1.0, "send_timeout": 1.0}
    with serving(tmp_path_factory.mktemp("hasty") / "w", **waiting) as served:
        yield served


def resident(served: Served) -> int:
    """The memory that the server holds, in bytes."""
    status = Path(f"/proc/{pid_of(served.process.pid)}/status").read_text()
    return int(re.findall(r"VmRSS:\s+(\d+) kB", status)[0]) * 1024


# --- too much


@pytest.mark.parametrize(
    "head",
    [
        b"GET / HTTP/1.1\r\nHost: localhost\r\nX: " + b"y" * 40_000 + b"\r\n\r\n",
        b"GET /" + b"y" * 40_000 + b" HTTP/1.1\r\nHost: localhost\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost: localhost\r\n" + b"a:b\r\n" * 200 + b"\r\n",
        b"GET / HTTP/1.1\r\nHost: localhost\r\n" + (b"X: " + b"y" * 995 + b"\r\n") * 40 + b"\r\n",
        b"GET / HTTP/1.1\r\nHost: localhost\r\n" + b"y" * 300_000 + b": z\r\n\r\n",
        b"\r\n" * 20_000,
    ],
    ids=["a value", "the address", "many", "all together", "a name", "empty lines"],
)
def test_a_header_that_is_too_large_is_refused(patient: Served, connect: Connect, head: bytes) -> None:
    assert connect(patient, head).rest().startswith(b"HTTP/1.1 431 ")


def test_a_header_within_the_limit_is_taken(patient: Served, connect: Connect) -> None:
    head = f"GET /utcp HTTP/1.1\r\n{KNOWN}X: {'y' * 32_000}\r\n\r\n".encode()
    client = connect(patient)
    for start in range(0, len(head), 5000):
        client.send(head[start : start + 5000])
    assert client.answer().startswith(b"HTTP/1.1 200 ")


@pytest.mark.parametrize(
    "begin",
    [
        b"GET / HTTP/1.1\r\nHost: localhost\r\nX: ",
        SAY.replace(b"Content-Length: 14", b"Transfer-Encoding: chunked").partition(b"{")[0] + b"2;x=",
        SAY.replace(b"Content-Length: 14", b"Transfer-Encoding: chunked").partition(b"{")[0] + b"0\r\nX: ",
    ],
    ids=["header", "extension of a chunk", "trailer"],
)
def test_what_never_ends_is_cut_off_and_takes_no_memory(
    patient: Served, connect: Connect, begin: bytes
) -> None:
    before, sent = resident(patient), 0
    client = connect(patient, begin)
    with contextlib.suppress(ConnectionError):
        while client.is_open() and sent < 64 * MEGABYTE:
            client.send(b"y" * 65536)
            sent += 65536
    said = client.rest()
    assert sent < 64 * MEGABYTE
    assert not said or re.match(rb"HTTP/1.1 4(00|31|13) ", said)
    assert resident(patient) - before < 20 * MEGABYTE


def test_what_comes_after_the_body_says_nothing_about_the_request(patient: Served, connect: Connect) -> None:
    head = "POST /tools/say HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
    trailer = f"Transfer-Encoding: chunked\r\n\r\n0\r\nAuthorization: Bearer {TOKEN}\r\n\r\n"
    assert connect(patient, (head + trailer).encode()).answer().startswith(b"HTTP/1.1 401 ")


def test_a_body_without_a_token_is_not_taken_for_long(patient: Served, connect: Connect) -> None:
    head = b"POST /tools/say HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n"
    before, sent = resident(patient), 0
    client = connect(patient, head)
    assert client.answer().startswith(b"HTTP/1.1 401 ")
    with contextlib.suppress(ConnectionError):
        while client.is_open() and sent < 64 * MEGABYTE:
            client.send(b"10000\r\n" + b"y" * 65536 + b"\r\n")
            sent += 65536
    assert sent < 64 * MEGABYTE
    assert resident(patient) - before < 20 * MEGABYTE


def test_who_announces_or_sends_too_large_a_body_reads_why(patient: Served, connect: Connect) -> None:
    body = b" " * 6 * MEGABYTE
    announced = request(f"Content-Length: {len(body)}") + body
    in_chunks = request("Transfer-Encoding: chunked") + b"%x\r\n" % len(body) + body + b"\r\n0\r\n\r\n"
    for sent in (announced, in_chunks):
        client = connect(patient, sent)
        assert client.answer().startswith(b"HTTP/1.1 413 ")
        client.send(SAY)
        assert client.answer().endswith(b"hi")


def test_who_asks_to_be_left_after_too_large_a_body_reads_why_too(patient: Served, connect: Connect) -> None:
    """The connection is closed when all of the body has come: a reset could take the answer with it."""
    body = b" " * 10 * MEGABYTE
    announced = request(f"Content-Length: {len(body)}", "Connection: close") + body
    lines = ("Transfer-Encoding: chunked", "Connection: close")
    in_chunks = request(*lines) + b"%x\r\n" % len(body) + body + b"\r\n0\r\n\r\n"
    for sent in (announced, in_chunks, announced + SAY):
        client = connect(patient, sent)
        answer = client.rest()
        assert answer.startswith(b"HTTP/1.1 413 ")
        assert answer.count(b"HTTP/1.1 ") == 1


# --- in two readings


def request(*lines: str, line: str = "POST /tools/say HTTP/1.1", host: str = "Host: localhost") -> bytes:
    token = f"Authorization: Bearer {TOKEN}"
    return "\r\n".join((line, host, token, "Content-Type: application/json", *lines, "", "")).encode()


@pytest.mark.parametrize(
    "data",
    [
        request("Content-Length: 2", "Transfer-Encoding: chunked") + b"0\r\n\r\n",
        request("Transfer-Encoding: chunked", "Content-Length: 2") + b"0\r\n\r\n",
        request("Content-Length: 2", "Content-Length: 3") + b"{} ",
        request("Content-Length: 2", "Content-Length: 2") + b"{}",
        request("Content-Length: +2") + b"{}",
        request("Transfer-Encoding: gzip, chunked") + b"0\r\n\r\n",
        request("Transfer-Encoding: xchunked") + b"0\r\n\r\n",
        request("Transfer-Encoding: chunked", line="POST /tools/say HTTP/1.0") + b"0\r\n\r\n",
        request("Transfer-Encoding: chunked") + b"2\n{}\n0\n\n",
        request("X: a", " folded"),
        request("X: a\nY: b"),
        request("X: a\rY: b"),
        request("X: a\0b"),
        request("X\0: a"),
        request("X : a"),
        request().replace(b"\r\n", b"\n"),
        request("Host: localhost"),
        request("Host: elsewhere"),
        request(host="X: y"),
        request(f"Authorization: Bearer {TOKEN}"),
        request("Authorization: Bearer other"),
        request("Content-Type: text/plain"),
        request("Connection: upgrade", "Upgrade: h2c", "Content-Length: 2") + b"{}",
        request(line="GET http://elsewhere/utcp HTTP/1.1"),
        request(line="GET elsewhere HTTP/1.1"),
    ],
)
def test_a_request_that_can_be_read_in_two_ways_is_refused(
    patient: Served, connect: Connect, data: bytes
) -> None:
    assert connect(patient, data).rest().startswith(b"HTTP/1.1 400 "), data


def test_another_protocol_is_refused(patient: Served, connect: Connect) -> None:
    assert connect(patient, request(line="GET /utcp HTTP/2.0")).rest().startswith(b"HTTP/1.1 400 ")
    assert connect(patient, b"GET /\r\n\r\n").rest().startswith(b"HTTP/1.1 400 ")
    assert connect(patient, b"\x16\x03\x01\x02\x00\x01\x00").rest().startswith(b"HTTP/1.1 400 ")


def test_a_request_to_upgrade_is_answered_as_another(patient: Served, connect: Connect) -> None:
    wanted = request("Connection: upgrade", "Upgrade: websocket", line="GET /utcp HTTP/1.1")
    said = connect(patient, wanted + b"\x81\x05hello").rest()
    assert said.startswith(b"HTTP/1.1 200 ")
    assert said.count(b"HTTP/1.1") == 1


def test_an_old_client_is_answered_and_let_go(patient: Served, connect: Connect) -> None:
    said = connect(patient, request(line="GET /utcp HTTP/1.0")).rest()
    assert said.startswith(b"HTTP/1.1 200 ")
    assert b"connection: close" in said.lower()


def test_a_client_that_ends_its_side_is_taken_for_one_that_left(patient: Served, connect: Connect) -> None:
    call = SAY.replace(b"/say", b"/wait_for").replace(b'{"text": "hi"}', b'{"name": "hc"}')
    client = connect(patient, call)
    begun = patient.root / "tools" / "hc.begun"
    wait_for(begun.exists)
    client.socket.shutdown(socket.SHUT_WR)
    assert client.rest() == b""
    wait_for((patient.root / "tools" / "hc.cancelled").exists)


def wait_for(happened: Callable[[], bool]) -> None:
    deadline = time.monotonic() + PATIENCE
    while not happened():
        assert time.monotonic() < deadline
        time.sleep(0.01)


# --- several on one connection


def test_requests_sent_ahead_are_answered_in_order(patient: Served, connect: Connect) -> None:
    three = [SAY.replace(b"hi", b"n%d" % number) for number in range(3)]
    client = connect(patient, b"".join(three))
    said = b""
    while said.count(b"HTTP/1.1 200") < 3 or not said.endswith(b"n2"):
        said += client.answer()
    assert re.findall(rb"n\d", said) == [b"n0", b"n1", b"n2"]


def test_a_thousand_requests_sent_ahead_end_the_connection(patient: Served, connect: Connect) -> None:
    client = connect(patient)
    with contextlib.suppress(ConnectionError):
        client.send(b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n" * 1000)
    assert connect(patient, SAY).answer().endswith(b"hi")
    assert client.rest().count(b"HTTP/1.1 200") < 100


def test_a_call_ends_with_its_client_also_when_another_request_waits(
    patient: Served, connect: Connect
) -> None:
    call = SAY.replace(b"/say", b"/wait_for").replace(b'{"text": "hi"}', b'{"name": "pl"}')
    client = connect(patient, call + SAY)
    wait_for((patient.root / "tools" / "pl.begun").exists)
    client.close()
    wait_for((patient.root / "tools" / "pl.cancelled").exists)


# --- too slowly

HALF_SENT = {
    "nothing": (b"", b""),
    "half a line": (b"GE", b"HTTP/1.1 408 "),
    "half a header": (b"GET /utcp HTTP/1.1\r\nHost: local", b"HTTP/1.1 408 "),
    "half a body": (SAY[:-3], b"HTTP/1.1 408 "),
    "half a body in chunks": (request("Transfer-Encoding: chunked") + b"5\r\nab", b"HTTP/1.1 408 "),
    "a body without a token": (
        b"POST /tools/say HTTP/1.1\r\nHost: localhost\r\nContent-Length: 9\r\n\r\n",
        b"HTTP/1.1 401 ",
    ),
    "a body for a page": (request("Content-Length: 9", line="POST /docs HTTP/1.1") + b"{", b"HTTP/1.1 4"),
    "a body that waits to be asked for": (
        request("Content-Length: 9", "Expect: 100-continue"),
        b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 408 ",
    ),
}


def test_who_sends_half_is_cut_off_in_time_on_every_path(hasty: Served, connect: Connect) -> None:
    clients = {name: connect(hasty, sent) for name, (sent, _) in HALF_SENT.items()}
    for name, (_, answer) in HALF_SENT.items():
        said = clients[name].rest()
        assert said.startswith(answer), (name, said)
        assert len(re.findall(rb"HTTP/1.1 [2-5]", said)) == bool(answer), (name, said)


def test_a_byte_now_and_then_wins_no_time(hasty: Served, connect: Connect) -> None:
    head = connect(hasty, b"GET / HTTP/1.1\r\nX: ")
    body = connect(hasty, SAY.replace(b"Content-Length: 14", b"Content-Length: 9999"))
    for client in (head, body):
        client.socket.settimeout(0.1)
    said = {head: b"", body: b""}
    deadline = time.monotonic() + PATIENCE
    left = [head, body]
    while left:
        assert time.monotonic() < deadline
        for client in tuple(left):
            try:
                chunk = client.socket.recv(65536)
            except TimeoutError:
                client.send(b" ")
            except ConnectionResetError:
                left.remove(client)
            else:
                said[client] += chunk
                if not chunk or said[client].endswith(b" s"):
                    left.remove(client)
    assert said[head].startswith(b"HTTP/1.1 408 ")
    assert said[body].startswith(b"HTTP/1.1 408 ")


def test_who_does_not_read_is_dropped(hasty: Served, connect: Connect) -> None:
    text = b'{"text": "%s"}' % (b"x" * 3 * MEGABYTE)
    call = CALL.replace("Content-Length: 14", f"Content-Length: {len(text)}").encode()
    client = connect(hasty, call + text)
    client.until_closed()
    assert len(client.rest()) < len(text)


# --- too many


def test_strangers_make_room_and_lock_nobody_out(tmp_path: Path, connect: Connect) -> None:
    patience = {"header_timeout": PATIENCE, "body_timeout": PATIENCE, "keep_alive": PATIENCE}
    with serving(tmp_path / "w", max_connections=8, **patience) as served:
        kept = connect(served, SAY)
        assert kept.answer().endswith(b"hi")
        call = SAY.replace(b"/say", b"/wait_for").replace(b'{"text": "hi"}', b'{"name": "it"}')
        at_work = connect(served, call.replace(b"Host:", b"Accept: text/event-stream\r\nHost:"))
        wait_for((served.root / "tools" / "it.begun").exists)
        half = b"POST /tools/say HTTP/1.1\r\nHost: localhost\r\nContent-Length: 9\r\n\r\n"
        strangers = [connect(served, (b"", b"GET / HT", half)[number % 3]) for number in range(40)]
        for _ in range(10):
            client = connect(served, SAY)
            assert client.answer().endswith(b"hi")
            client.close()
        for stranger in strangers[:34]:
            stranger.until_closed()
        kept.send(SAY)
        assert kept.answer().endswith(b"hi")
        (served.root / "tools" / "it").touch()
        assert b"it came" in at_work.chunks()


def test_an_address_has_its_share(tmp_path: Path, connect: Connect) -> None:
    patience = {"header_timeout": PATIENCE, "keep_alive": PATIENCE}
    share = {"max_connections_per_address": 3, "trusted_proxies": []}
    with serving(tmp_path / "w", **share, **patience) as served:
        other = connect(served, source="127.0.0.2")
        crowd = [connect(served) for _ in range(9)]
        for stranger in crowd[:6]:
            stranger.until_closed()
        assert all(client.is_open() for client in (other, *crowd[6:]))
        assert connect(served, SAY).answer().endswith(b"hi")


def test_when_all_are_at_work_one_more_is_told_to_come_back(tmp_path: Path, connect: Connect) -> None:
    with serving(tmp_path / "w", max_connections=2) as served:
        call = SAY.replace(b"/say", b"/wait_for").replace(b'{"text": "hi"}', b'{"name": "it"}')
        two = [connect(served, call.replace(b'"it"', b'"i%d"' % number)) for number in range(2)]
        for number in range(2):
            wait_for((served.root / "tools" / f"i{number}.begun").exists)
        said = connect(served, SAY).rest()
        assert said.startswith(b"HTTP/1.1 503 ")
        assert b"retry-after: 1" in said
        for number in range(2):
            (served.root / "tools" / f"i{number}").touch()
        assert all(b"it came" in client.answer() for client in two)
        assert connect(served, SAY).answer().endswith(b"hi")


def test_connections_are_as_many_as_the_system_allows(tmp_path: Path, connect: Connect) -> None:
    import resource

    with serving(tmp_path / "w", header_timeout=PATIENCE) as served:
        resource.prlimit(pid_of(served.process.pid), resource.RLIMIT_NOFILE, (400, 400))
        served.root.joinpath("spindle.toml").write_text(
            f'[serve]\nauth_token = "{TOKEN}"\nmax_headers = 99\n'
        )
        wait_for(lambda: "in force" in (served.process.stderr.readline() if served.process.stderr else ""))
        for _ in range(250):
            connect(served)
        for _ in range(5):
            assert connect(served, SAY).answer().endswith(b"hi")


def test_a_stop_waits_for_nobody_who_has_sent_half(tmp_path: Path, connect: Connect) -> None:
    # Long enough to fail, were it waited out.
    with serving(tmp_path / "w", shutdown_timeout=PATIENCE * 10) as served:
        half = [connect(served, sent) for sent in (SAY[:-3], SAY[:40], b"", request(line="junk"))]
        assert connect(served, SAY).answer().endswith(b"hi")
        code, _ = served.stop()
        assert code == 0
        assert half[0].rest().startswith(b"HTTP/1.1 503 ")


def test_limits_change_while_serving(tmp_path: Path, connect: Connect) -> None:
    with serving(tmp_path / "w") as served:
        head = b"GET / HTTP/1.1\r\nHost: localhost\r\nX: " + b"y" * 3000 + b"\r\n\r\n"
        assert connect(served, head).answer().startswith(b"HTTP/1.1 200 ")
        served.root.joinpath("spindle.toml").write_text(
            f'[serve]\nauth_token = "{TOKEN}"\nmax_header_size = "2KiB"\n'
        )
        wait_for(lambda: connect(served, head).socket.recv(12) == b"HTTP/1.1 431")


# --- all at once, for a minute


def percentile(times: list[float], part: float) -> float:
    return sorted(times)[int(len(times) * part)] * 1000


def calls(served: Served, seconds: float) -> list[float]:
    """The seconds that valid calls took, on a connection that is kept and, each tenth, on a new one."""
    kept, times, end = Client(served), [], time.monotonic() + seconds
    while time.monotonic() < end:
        began = time.perf_counter()
        fresh = Client(served) if len(times) % 10 == 9 else None
        client = fresh or kept
        client.send(SAY)
        said = client.answer()
        times.append(time.perf_counter() - began)
        assert said.startswith(b"HTTP/1.1 200 "), said
        if fresh is not None:
            fresh.close()
        select.select([], [], [], 0.005)
    kept.close()
    return times


@pytest.mark.soak
def test_four_thousand_slow_clients_do_not_slow_the_others(
    tmp_path: Path, seconds: float, figures: Figures
) -> None:
    with serving(tmp_path / "w") as served:
        calls(served, 2.0)
        quiet = calls(served, max(5.0, seconds / 8))
        before = resident(served)
        attack = subprocess.Popen(
            [sys.executable, "-ISE", str(ATTACK), served.url.rpartition(":")[2], "2000", "2000"],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
        )  # fmt: skip
        try:
            attacked = calls(served, max(10.0, min(60.0, seconds * 3 / 4)))
            grown = resident(served) - before
        finally:
            counted, _ = attack.communicate("", PATIENCE)
        quiet += calls(served, max(5.0, seconds / 8))
    slower = percentile(attacked, 0.99) / percentile(quiet, 0.99)
    for name, times in (("quiet", quiet), ("attacked", attacked)):
        shown = " ".join(f"p{part * 100:g} {percentile(times, part):.1f} ms" for part in (0.5, 0.99))
        figures(f"{name}: {len(times)} calls, {shown}")
    figures(f"p99 is {slower:.2f} times the quiet one; memory {grown / MEGABYTE:+.1f} MB")
    figures(f"the attack: {counted.strip()}")
    assert json.loads(counted)["dropped"] > 0
    assert slower < 4
    assert grown < 50 * MEGABYTE


@pytest.mark.soak
def test_kept_connections_outlive_a_stall(tmp_path: Path, connect: Connect, figures: Figures) -> None:
    with serving(tmp_path / "w", keep_alive=6.0) as served:
        kept = [connect(served, SAY) for _ in range(50)]
        assert all(client.answer().endswith(b"hi") for client in kept)
        server = pid_of(served.process.pid)
        os.kill(server, signal.SIGSTOP)
        try:
            select.select([], [], [], 8.0)
            for client in kept:
                client.send(SAY)
        finally:
            os.kill(server, signal.SIGCONT)
        assert all(client.answer().endswith(b"hi") for client in kept)
        figures(f"{len(kept)} of {len(kept)} connections are there after a stall of 8 s")
