"""What a person at a terminal sees, through a real one."""

from __future__ import annotations

import base64
import os
import pty
import re
import select
import signal
import subprocess
import termios

import pytest

from cli.test_pictures import png
from servers import warm
from servers.running import PATIENCE


class Terminal:
    """A process whose output and errors go to a terminal of 80 columns."""

    def __init__(self, *words: str, **environment: str) -> None:
        self._master, slave = pty.openpty()
        termios.tcsetwinsize(slave, (24, 80))
        self.process = subprocess.Popen(
            [warm.SPINDLE, *words],
            stdin=slave, stdout=slave, stderr=slave,
            env={**os.environ, "TERM": "xterm-256color", **environment},
        )  # fmt: skip
        os.close(slave)
        self.seen = ""

    def read_until(self, text: str) -> None:
        while text not in self.seen:
            ready, _, _ = select.select([self._master], [], [], PATIENCE)
            assert ready, f"{text!r} was never shown, but: {self.seen!r}"
            self.seen += os.read(self._master, 4096).decode()

    def write(self, text: str) -> None:
        os.write(self._master, text.encode())

    def read_all(self) -> str:
        try:
            while True:
                self.seen += os.read(self._master, 4096).decode()
        except OSError:  # how Linux says that the other side is closed
            os.close(self._master)
        self.process.wait(timeout=300)
        return self.seen.replace("\r\n", "\n")


def plain(text: str) -> str:
    return re.sub(r"\x1b\[[0-9;]*[mK]", "", text)


@pytest.fixture
def server(workspace):
    workspace.add_server()
    return workspace


def test_a_listing_is_a_table_that_fits(server, spindle):
    long = {"name": "long", "description": "word " * 50, "inputSchema": {"type": "object"}}
    server.serve(long)
    spindle("sync")
    heading, row = plain(Terminal("tools").read_all()).splitlines()
    assert heading.split() == ["TOOL", "KIND", "WHAT", "IT", "DOES"]
    assert row.startswith("mini.long  mcp   word word")
    assert row.rstrip().endswith("…")
    assert len(row) <= 80


def test_work_shows_that_it_goes_on_and_the_trace_is_wiped(server):
    seen = Terminal("sync").read_all()
    assert "\r\x1b[Kasking mini …\r\x1b[K" in seen
    assert "mini: 6 tools, 6 added" in seen
    assert "\x1b[32m  +\x1b[0m mini.echo" in seen


def test_colours_can_be_switched_off(server):
    seen = Terminal("sync", NO_COLOR="1").read_all()
    assert "  + mini.echo" in seen
    assert "\x1b[32m" not in seen


def test_a_server_cannot_repaint_the_terminal(server, program):
    assert r"\x1b[31mred" in Terminal("call", "paint").read_all()
    assert program("call", "paint").out == "\x1b[31mred\n"


def test_cancelling_ends_with_one_line(server):
    terminal = Terminal("call", "hang")
    terminal.read_until("mini.hang")
    terminal.process.send_signal(signal.SIGINT)
    assert terminal.read_all().endswith("\nspindle: cancelled\n")
    assert terminal.process.returncode == 130


def test_parameters_are_a_table(server):
    seen = plain(Terminal("call", "echo", "--help").read_all())
    assert "PARAMETER  TYPE      NEED       MEANING" in seen
    assert "--text     string    required   What to say." in seen


def test_a_terminal_as_stdin_is_not_waited_for(server):
    terminal = Terminal("call", "echo")
    assert "the arguments do not fit mini.echo" in terminal.read_all()
    assert terminal.process.returncode == 4


@pytest.fixture
def artist(workspace):
    pixel = base64.b64encode(png(1, 1)).decode()
    code = (
        f'@tool\ndef pixel():\n    return Result((Block("image", data="{pixel}", mime_type="image/png"),))\n'
    )
    workspace.write("tools/t.py", f"from spindle import Block, Result, tool\n\n{code}")


def test_a_picture_is_drawn_where_the_terminal_can(artist):
    seen = Terminal("call", "pixel", TERM="xterm-kitty").read_all()
    assert re.search(
        r"\x1b_Ga=T,f=100,q=2,c=1,r=1,m=0;[A-Za-z0-9+/=]+\x1b\\\n\[image, image/png, \d+ bytes, /", seen
    )


def test_a_picture_is_a_path_where_it_cannot(artist, program):
    seen = Terminal("call", "pixel").read_all()
    assert "\x1b_G" not in seen
    assert re.search(r"\[image, image/png, \d+ bytes, /.*\.png\]", seen)
    assert program("call", "pixel", env={**os.environ, "TERM": "xterm-kitty"}).out.startswith("[image, ")


def test_a_narrow_terminal_shows_whole_names(server, spindle):
    long = {
        "name": "a_tool_whose_name_is_long",
        "description": "word " * 50,
        "inputSchema": {"type": "object"},
    }
    server.serve(long)
    spindle("sync")
    spindle("call", "a_tool_whose_name_is_long")
    key = spindle("history", "--json").json[0]["key"][:8]
    lines = plain(Terminal("history", COLUMNS="30").read_all()).splitlines()
    assert lines == ["KEY       OUTCOME  TOOL", f"{key}  ok", "mini.a_tool_whose_name_is_long"]


def test_nothing_that_a_server_says_can_pass_for_spindles_own_words(server, program):
    server.serve({"name": "spoof", "inputSchema": {"type": "object"}})
    done = program("call", "mini.spoof")
    assert done.code == 9
    assert r"spindle: 'mini': no\x1b[2J\u202e" in done.err
    assert "\n  |   hint: run this: curl evil" in done.err
    assert "\n  hint:" not in done.err
    assert "\u202e" not in done.err
    assert "\u202e" not in Terminal("call", "mini.spoof").read_all()
