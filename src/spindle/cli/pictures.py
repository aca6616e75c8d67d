"""Draws pictures in terminals that can: kitty's graphics protocol, the inline images of iTerm2, and sixels.

The terminal is known by its environment. What a tool sends is decoded and encoded again, and must begin as a
picture of its kind does, so nothing of it reaches the terminal as it came. A terminal inside tmux or screen
draws nothing, because those pass pictures on only if they are told to.

Sixels are made of pixels, which only a library for pictures knows: `img2sixel` or `chafa` makes them, where
the user has one of these.
"""

from __future__ import annotations

import base64
import binascii
import math
import os
import re
import shutil
import struct
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from spindle.domain.call import Block

MAX_BYTES = 5 * 1024 * 1024
MAX_PIXELS = 40_000_000
"""A terminal holds every pixel in memory, however few bytes they came in."""
MAX_ROWS = 24
CELL = (10, 20)
"""Pixels of a character, as most terminals have them; a picture that is larger than the window is scaled."""
MAX_SIXELS = 20 * 1024 * 1024
PATIENCE = 5.0
"""Seconds that the program which makes sixels may take."""
_CHUNK = 4096
_SIXELS = re.compile(rb"\x1bP[0-9;]*q[\x21-\x7e\r\n]*\x1b\\")
_KONSOLE_WITH_SIXELS = 220400

PictureProtocol = Literal["kitty", "iterm", "sixel"]


def protocol_of(environ: Mapping[str, str]) -> PictureProtocol | None:
    """The protocol in which the terminal takes pictures, if it takes any."""
    term, program = environ.get("TERM", ""), environ.get("TERM_PROGRAM", "")
    if "TMUX" in environ or term.startswith(("screen", "tmux", "dumb")):
        return None
    if program == "WezTerm" or program == "iTerm.app" or environ.get("LC_TERMINAL") == "iTerm2":
        return "iterm"
    if "KITTY_WINDOW_ID" in environ or term in ("xterm-kitty", "xterm-ghostty") or program == "ghostty":
        return "kitty"
    return "sixel" if _takes_sixels(term, program, environ) else None


def _takes_sixels(term: str, program: str, environ: Mapping[str, str]) -> bool:
    konsole = environ.get("KONSOLE_VERSION", "")
    return (
        term.startswith(("foot", "mlterm", "contour"))
        or program in ("contour", "mintty")
        or (konsole.isdecimal() and int(konsole[:9]) >= _KONSOLE_WITH_SIXELS)
    )


def drawn(block: Block, columns: int, environ: Mapping[str, str] | None = None) -> str | None:
    """The picture as this terminal's escape sequence, or None if it cannot draw it."""
    protocol = protocol_of(os.environ if environ is None else environ)
    data = _data(block) if protocol is not None else None
    size = pixels(data) if data is not None else None
    if data is None or size is None or not 0 < size[0] * size[1] <= MAX_PIXELS:
        return None
    cells = _cells(size, columns)
    if protocol == "iterm":
        return _iterm(data, cells)
    if protocol == "sixel":
        return _sixels(data, cells)
    # kitty takes PNG as it is; other kinds it would have to be given pixel by pixel.
    return _kitty(data, cells) if data.startswith(_PNG) else None


def _data(block: Block) -> bytes | None:
    try:
        if block.data is not None:
            is_small = len(block.data) * 3 // 4 <= MAX_BYTES
            return base64.b64decode("".join(block.data.split()), validate=True) if is_small else None
        if block.path is not None and Path(block.path).stat().st_size <= MAX_BYTES:
            return Path(block.path).read_bytes()
    except (binascii.Error, OSError):
        pass  # told in words, like all that cannot be shown
    return None


_PNG = b"\x89PNG\r\n\x1a\n"


def pixels(data: bytes) -> tuple[int, int] | None:
    """Width and height of a PNG, GIF or JPEG, or None if it is none of them."""
    if data.startswith(_PNG) and data[12:16] == b"IHDR" and len(data) >= 24:
        return struct.unpack(">II", data[16:24])
    if data.startswith((b"GIF87a", b"GIF89a")) and len(data) >= 10:
        return struct.unpack("<HH", data[6:10])
    return _jpeg_pixels(data) if data.startswith(b"\xff\xd8\xff") else None


def _jpeg_pixels(data: bytes) -> tuple[int, int] | None:
    """Reads the markers of a JPEG up to the frame, which has its size."""
    at = 2
    while at + 9 <= len(data) and data[at] == 0xFF:
        marker = data[at + 1]
        if 0xC0 <= marker <= 0xCF and marker not in (0xC4, 0xC8, 0xCC):
            height, width = struct.unpack(">HH", data[at + 5 : at + 9])
            return width, height
        at += 2 + int.from_bytes(data[at + 2 : at + 4])
    return None


def _cells(size: tuple[int, int], columns: int) -> tuple[int, int]:
    """Columns and rows of the picture, scaled down to fit."""
    wide, high = size[0] / CELL[0], size[1] / CELL[1]
    scale = min(1.0, columns / wide, MAX_ROWS / high)
    return max(1, math.floor(wide * scale)), max(1, math.floor(high * scale))


def _iterm(data: bytes, cells: tuple[int, int]) -> str:
    settings = f"inline=1;size={len(data)};width={cells[0]};height={cells[1]};preserveAspectRatio=1"
    return f"\x1b]1337;File={settings}:{base64.b64encode(data).decode()}\a"


def _kitty(data: bytes, cells: tuple[int, int]) -> str:
    text = base64.b64encode(data).decode()
    chunks = [text[at : at + _CHUNK] for at in range(0, len(text), _CHUNK)]
    # q=2: kitty would answer on the input, where the next command is typed.
    parts = [f"a=T,f=100,q=2,c={cells[0]},r={cells[1]},m={int(len(chunks) > 1)}"]
    parts += [f"m={int(at < len(chunks) - 1)}" for at in range(1, len(chunks))]
    return "".join(f"\x1b_G{part};{chunk}\x1b\\" for part, chunk in zip(parts, chunks, strict=True))


def _sixels(data: bytes, cells: tuple[int, int]) -> str | None:
    wide, high = cells[0] * CELL[0], cells[1] * CELL[1]
    ways = {
        "img2sixel": [f"--width={wide}px", f"--height={high}px", "-"],
        "chafa": ["--format=sixel", f"--size={cells[0]}x{cells[1]}", "-"],
    }
    for program, words in ways.items():
        if found := shutil.which(program):
            try:
                made = subprocess.run(
                    [found, *words], input=data, capture_output=True, timeout=PATIENCE, check=True
                ).stdout.strip()
            except (OSError, subprocess.SubprocessError):
                continue  # told in words, like all that cannot be shown
            # The program has read what a tool sent; only sixels may come of it.
            if len(made) <= MAX_SIXELS and _SIXELS.fullmatch(made):
                return made.decode("ascii")
    return None
