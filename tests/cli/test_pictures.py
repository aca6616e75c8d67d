"""Pictures in terminals that can show them."""

from __future__ import annotations

import base64
import re
import shutil
import struct
import zlib

import pytest

from servers.running import missing
from spindle.cli.pictures import MAX_BYTES, drawn, pixels, protocol_of
from spindle.domain.call import Block

KITTY = {"TERM": "xterm-kitty", "KITTY_WINDOW_ID": "1"}
ITERM = {"TERM": "xterm-256color", "TERM_PROGRAM": "iTerm.app"}
FOOT = {"TERM": "foot"}


def png(width: int, height: int) -> bytes:
    def chunk(kind: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    rows = zlib.compress(b"".join(b"\0" + b"\x80" * width for _ in range(height)))
    head = struct.pack(">IIBBBBB", width, height, 8, 0, 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", head) + chunk(b"IDAT", rows) + chunk(b"IEND", b"")


JPEG = bytes.fromhex("ffd8ffe000104a46494600010100000100010000ffc0000b080010002001011100ffd9")
GIF = b"GIF89a" + struct.pack("<HH", 7, 9) + b"\x00\x00\x00;"


def image(data: bytes, mime_type: str = "image/png") -> Block:
    return Block("image", data=base64.b64encode(data).decode(), mime_type=mime_type)


@pytest.mark.parametrize(
    ("environ", "protocol"),
    [
        (KITTY, "kitty"),
        ({"TERM": "xterm-ghostty", "TERM_PROGRAM": "ghostty"}, "kitty"),
        (ITERM, "iterm"),
        ({"TERM": "xterm-256color", "LC_TERMINAL": "iTerm2"}, "iterm"),
        ({"TERM": "xterm-256color", "TERM_PROGRAM": "WezTerm"}, "iterm"),
        (FOOT, "sixel"),
        ({"TERM": "xterm-256color", "TERM_PROGRAM": "mintty"}, "sixel"),
        ({"TERM": "xterm-256color", "KONSOLE_VERSION": "230804"}, "sixel"),
        ({"TERM": "xterm-256color", "KONSOLE_VERSION": "210400"}, None),
        ({"TERM": "xterm-256color", "KONSOLE_VERSION": "new"}, None),
        ({**FOOT, "TMUX": "/tmp/tmux-1/default,1,0"}, None),
        ({"TERM": "xterm-256color"}, None),
        ({}, None),
        ({**KITTY, "TMUX": "/tmp/tmux-1/default,1,0"}, None),
        ({**KITTY, "TERM": "screen-256color"}, None),
        ({**ITERM, "TERM": "dumb"}, None),
    ],
)
def test_a_terminal_is_known_by_its_environment(environ, protocol):
    assert protocol_of(environ) == protocol


@pytest.mark.parametrize(("data", "size"), [(png(30, 20), (30, 20)), (GIF, (7, 9)), (JPEG, (32, 16))])
def test_the_size_of_a_picture_is_read(data, size):
    assert pixels(data) == size


@pytest.mark.parametrize(
    "data", [b"", b"hello", b"\x89PNG\r\n\x1a\n", b"\xff\xd8\xff", b"GIF89a", b"\xff\xd8" * 50]
)
def test_what_is_no_picture_has_no_size(data):
    assert pixels(data) is None
    assert drawn(image(data), 80, ITERM) is None


def test_kitty_gets_a_png_in_pieces():
    data = png(300, 100) + bytes(6000)
    made = drawn(image(data), 80, KITTY)
    pieces = re.findall(r"\x1b_G([^;]*);([^\x1b]*)\x1b\\", made)
    assert "".join(f"\x1b_G{keys};{text}\x1b\\" for keys, text in pieces) == made
    assert pieces[0][0] == "a=T,f=100,q=2,c=30,r=5,m=1"
    assert [keys for keys, _ in pieces[1:]] == ["m=1"] * (len(pieces) - 2) + ["m=0"]
    assert base64.b64decode("".join(text for _, text in pieces)) == data
    assert max(len(text) for _, text in pieces) == 4096


def test_iterm_gets_any_kind_of_picture():
    made = drawn(image(JPEG, "image/jpeg"), 80, ITERM)
    assert made == (
        f"\x1b]1337;File=inline=1;size={len(JPEG)};width=3;height=1;preserveAspectRatio=1:"
        f"{base64.b64encode(JPEG).decode()}\a"
    )


def test_kitty_is_not_given_what_it_cannot_read():
    assert drawn(image(JPEG, "image/jpeg"), 80, KITTY) is None


def test_a_large_picture_is_scaled_to_the_window():
    assert "c=80,r=20," in drawn(image(png(1000, 500)), 80, KITTY)
    assert "c=24,r=24," in drawn(image(png(500, 1000)), 80, KITTY)


@pytest.mark.parametrize(
    "data", [png(1, 1) + bytes(MAX_BYTES), png(8, 8)[:16] + struct.pack(">II", 99999, 99999) + bytes(9)]
)
def test_pictures_are_bounded(data):
    assert drawn(image(data), 80, KITTY) is None


def test_a_picture_may_be_in_a_file(tmp_path):
    path = tmp_path / "x.png"
    path.write_bytes(png(3, 3))
    assert drawn(Block("image", path=str(path)), 80, KITTY) is not None
    assert drawn(Block("image", path=str(tmp_path / "gone.png")), 80, KITTY) is None


@pytest.mark.brokers
def test_a_terminal_with_sixels_gets_them(monkeypatch):
    if shutil.which("img2sixel") is None:
        missing("img2sixel is not installed: run `make services`")
    made = drawn(image(png(300, 100)), 20, FOOT)
    assert re.match(r'\x1bP[0-9;]*q"1;1;200;60#', made)
    assert made.endswith("\x1b\\")
    assert (
        drawn(image(b"\x89PNG\r\n\x1a\n" + bytes(4) + b"IHDR" + struct.pack(">II", 9, 9)), 20, FOOT) is None
    )


@pytest.mark.parametrize(
    ("script", "is_drawn"),
    [
        (r"cat >/dev/null; printf '\033Pq#0;2;0;0;0#0~~\033\\'", True),
        (r"cat >/dev/null; printf '\033Pq#0\033]52;c;aGk=\a\033\\'", False),  # would write to the clipboard
        (r"printf '\033Pq\033\\'; printf 'and more'", False),
        ("exit 1", False),
        ("exec sleep 600", False),
    ],
)
def test_only_sixels_come_of_the_program_that_makes_them(tmp_path, monkeypatch, script, is_drawn):
    program = tmp_path / "img2sixel"
    program.write_text(f"#!/bin/sh\n{script}\n")
    program.chmod(0o755)
    monkeypatch.setattr("shutil.which", lambda name: str(program) if name == "img2sixel" else None)
    if "sleep" in script:
        monkeypatch.setattr("spindle.cli.pictures.PATIENCE", 0.1)
    assert (drawn(image(png(30, 20)), 80, FOOT) is not None) == is_drawn


def test_without_a_program_there_are_no_sixels(monkeypatch):
    monkeypatch.setattr("shutil.which", lambda _name: None)
    assert drawn(image(png(30, 20)), 80, FOOT) is None
