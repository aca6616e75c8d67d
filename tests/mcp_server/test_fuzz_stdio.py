"""Whatever is written to `spindle serve --stdio` is answered, refused or passed over: nothing breaks the
server, makes it hang or fills its memory, in either era of the protocol."""

from __future__ import annotations

import contextlib
import itertools
import json
import os
import queue
import re
import subprocess
import threading
from collections import Counter
from collections.abc import Generator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mcp_server.test_fuzz import HANDSHAKE, MAX_GROWTH, META, METHODS, ODD_NUMBERS, ODD_TEXT, SPECIALS, TOOLS
from servers import warm
from servers.examples import examples
from servers.running import PATIENCE
from servers.serving import ERAS

EACH_ERA = pytest.mark.parametrize("era", list(ERAS))
EXAMPLES = 60
CALL = {"name": "shout", "arguments": {"text": "hi", "times": 2}}


class Server:
    """The other end of the server's pipes. What it answers is read by a thread, and looked at as it comes."""

    def __init__(self, folder: Path, era: str) -> None:
        (folder / "spindle.toml").touch()
        (folder / "tools").mkdir()
        (folder / "tools" / "tools.py").write_text(TOOLS)
        self.stderr = folder / "stderr"
        with self.stderr.open("wb") as stderr:
            self.process = subprocess.Popen(
                [warm.SPINDLE, "-w", str(folder), "serve", "--stdio"],
                stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=stderr,
                env={**os.environ, "SPINDLE_HOME": str(folder / "home")},
            )  # fmt: skip
        self.era = era
        self.wrong: list[bytes] = []
        self.odd: Counter[str] = Counter()
        """Answers to requests other than our own, which have text as their id."""
        self.answers: queue.Queue[Any] = queue.Queue()
        self._numbers = itertools.count()
        self._writing = ThreadPoolExecutor(1)
        self._reading = threading.Thread(target=self._read)
        self._reading.start()

    def _read(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            try:
                message = json.loads(line)
                sound = message["jsonrpc"] == "2.0" and message.get("error", {}).get("code") != -32603
            except (ValueError, TypeError, KeyError):
                message, sound = None, False
            if not sound or b"Traceback" in line:
                self.wrong.append(line[:500])
            if message is not None and isinstance(message.get("id"), int):
                self.odd["result" if "result" in message else "error"] += 1
            if message is not None and "id" in message:
                self.answers.put(message)

    def write(self, data: bytes) -> None:
        assert self.process.stdin is not None
        stdin = self.process.stdin

        def all_of_it() -> None:
            stdin.write(data)
            stdin.flush()

        self._writing.submit(all_of_it).result(PATIENCE)

    def request(self, method: str, params: dict[str, Any]) -> str:
        """Send what is right, and return its id."""
        number = f"right {next(self._numbers)}"
        if self.era == "modern":
            params = {**params, "_meta": META}
        self.write(
            json.dumps({"jsonrpc": "2.0", "id": number, "method": method, "params": params}).encode() + b"\n"
        )
        return number

    def answer(self, number: str) -> Any:
        while True:
            message = self.answers.get(timeout=PATIENCE)
            if message["id"] == number:
                return message

    def open(self) -> None:
        if self.era == "handshake":
            info = {"name": "test", "version": "1"}
            params = {"protocolVersion": HANDSHAKE, "capabilities": {}, "clientInfo": info}
            assert "result" in self.answer(self.request("initialize", params))
            self.write(b'{"jsonrpc":"2.0","method":"notifications/initialized"}\n')
        self.works()

    def works(self) -> None:
        """An ordinary call is answered, and nothing was wrong up to here."""
        answer = self.answer(self.request("tools/call", CALL))
        assert answer["result"]["content"][0]["text"] == "HIHI"
        assert self.wrong == []

    @property
    def memory(self) -> int:
        found = re.search(
            r"VmRSS:\s+(\d+) kB", Path(f"/proc/{warm.pid_of(self.process.pid)}/status").read_text()
        )
        assert found is not None
        return int(found[1]) * 1024

    def close(self) -> None:
        assert self.process.stdin is not None
        with contextlib.suppress(OSError):
            self.process.stdin.close()
        try:
            assert self.process.wait(PATIENCE) == 0
        finally:
            self.process.kill()
            self._reading.join(PATIENCE)
            assert self.process.stdout is not None
            self.process.stdout.close()
            self._writing.shutdown()
        assert self.wrong == []
        assert "Traceback" not in self.stderr.read_text("utf-8", "replace")


@contextlib.contextmanager
def serving(folder: Path, era: str) -> Generator[Server]:
    server = Server(folder, era)
    try:
        yield server
    finally:
        server.close()


# --- what is made up

scalars = st.one_of(
    st.none(), st.booleans(), st.integers(), st.floats(), st.text(max_size=20), st.sampled_from(ODD_NUMBERS),
    st.sampled_from(ODD_TEXT),
)  # fmt: skip
values = st.recursive(
    scalars,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=10), inner, max_size=3),
    max_leaves=8,
)


@st.composite
def messages(draw: st.DrawFn, era: str) -> dict[str, Any]:
    """A message that is right, or wrong in one or more of its parts."""
    method = draw(st.sampled_from([*METHODS, "initialize"]) | st.sampled_from(["tools/call", "tools/list"]))
    params: Any = dict(METHODS.get(method, {}))
    for key in list(params):
        if draw(st.integers(0, 3)) == 0:
            params[key] = draw(values)
    if era == "modern":
        params["_meta"] = META
    if draw(st.integers(0, 3)) == 0:
        params["_meta"] = draw(st.just(META) | values)
    message: dict[str, Any] = {
        "jsonrpc": "2.0",
        "id": draw(st.integers(0, 3) | st.integers(0, 10**6)),
        "method": method,
        "params": params,
    }
    for key in draw(st.lists(st.sampled_from([*message, "result", "error", "more"]), max_size=2)):
        if draw(st.booleans()):
            message.pop(key, None)
        else:
            message[key] = draw(values)
    return message


def as_json(value: Any) -> bytes:
    return json.dumps(value).encode()


@st.composite
def broken(draw: st.DrawFn, era: str) -> bytes:
    """A message in which bytes are missing, added or others."""
    line = bytearray(as_json(draw(messages(era))))
    at = draw(st.integers(0, len(line)))
    line[at : at + draw(st.integers(0, 5))] = draw(st.binary(max_size=10))
    return bytes(line)


def lines(era: str) -> st.SearchStrategy[bytes]:
    return st.one_of(
        messages(era).map(as_json),
        messages(era).map(as_json),
        st.lists(messages(era), max_size=3).map(as_json),
        values.map(as_json),
        broken(era),
        st.binary(max_size=200),
    )


@EACH_ERA
def test_odd_lines_are_answered_or_passed_over(tmp_path: Path, era: str) -> None:
    with serving(tmp_path, era) as server:
        server.open()

        @examples(EXAMPLES)
        @given(st.lists(lines(era), min_size=1, max_size=8))
        def throw(odd: list[bytes]) -> None:
            server.write(b"\n".join(odd) + b"\n")
            server.works()

        throw()
        before = server.memory
        throw()
        assert server.memory - before < MAX_GROWTH
        # What is made up must be neither all refused nor all taken, or it would test nothing.
        assert min(server.odd["result"], server.odd["error"]) > EXAMPLES / 4, server.odd


@EACH_ERA
def test_lines_that_are_no_messages_are_refused(tmp_path: Path, era: str) -> None:
    with serving(tmp_path, era) as server:
        server.open()
        for line in SPECIALS:
            server.write(line + b"\n")
            server.works()
        before = server.memory
        for line in SPECIALS * 2:
            server.write(line + b"\n")
            server.works()
        assert server.memory - before < MAX_GROWTH


@EACH_ERA
def test_noise_before_the_first_message_does_no_harm(tmp_path: Path, era: str) -> None:
    with serving(tmp_path, era) as server:
        server.write(b"\x00\xff\xfe\n\n\r\n  \n[1,2]\nnull\n" + b"[" * 100_000 + b"\n")
        server.open()


def test_a_line_that_does_not_end_fills_no_memory(tmp_path: Path) -> None:
    with serving(tmp_path, "handshake") as server:
        server.open()
        before = server.memory
        for _ in range(64):
            server.write(b"x" * 1024 * 1024)
        server.write(b"\n")
        server.works()
        assert server.memory - before < 32 * 1024 * 1024


def test_every_request_is_answered_also_where_all_have_one_id(tmp_path: Path) -> None:
    with serving(tmp_path, "handshake") as server:
        server.open()
        message = {"jsonrpc": "2.0", "id": 7, "method": "tools/call", "params": {"name": "work"}}
        server.write((as_json(message) + b"\n") * 200)
        found = [server.answers.get(timeout=PATIENCE) for _ in range(200)]
        assert {answer["id"] for answer in found} == {7}
        assert any("result" in answer for answer in found)
        assert all("result" in answer or answer["error"]["code"] == -32600 for answer in found)
        server.works()


@pytest.mark.parametrize("last", [b"", b'{"jsonrpc"', b"\xff", b"[" * 1000, b"x" * (5 * 1024 * 1024)])
def test_an_input_that_ends_in_the_middle_of_a_line_is_the_end(tmp_path: Path, last: bytes) -> None:
    with serving(tmp_path, "handshake") as server:
        server.open()
        server.write(last)
