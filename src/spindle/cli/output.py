"""Writes results to stdout, and progress and notes to stderr.

On a terminal a listing is a table; in a pipe it is lines of tab-separated values without a heading,
for `cut` and `awk`; with `--json` it is one JSON value.

Texts of servers must not move the cursor, repaint the terminal or turn the order of words around. Whatever a
person reads (a terminal, cells, JSON, all of stderr) has such signs as escapes; only what is printed into a
pipe or a file is exact.
"""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TextIO

from spindle.domain.visible import quoted, visible, visible_json


class Output:
    """Writes to stdout and stderr in the form that a terminal, a pipe or `--json` needs."""

    def __init__(
        self, stdout: TextIO | None, stderr: TextIO | None, environ: Mapping[str, str] = os.environ
    ) -> None:
        self.environ = environ
        """The environment of the terminal."""
        self._given_stdout = stdout
        self._stdout = _lenient(stdout)
        self._stderr = _lenient(stderr)
        self._is_taken = False
        self._taken_fd: int | None = None
        self._has_status = False
        self.has_prompt = False
        """True while a person is being asked: progress must not write over the question."""
        self.say: Callable[[str, bool], None] | None = None
        """Is given what would be printed on stderr, and whether it is a note, by a server that logs."""
        self.as_json = False
        self.is_terminal = self._stdout.isatty()
        self.shows_progress = self._stderr.isatty()

    # --- results

    def line(self, text: str = "") -> None:
        """Prints a line."""
        self._clear_status()
        self._stdout.write((visible(text) if self.is_terminal else text) + "\n")

    def piece(self, text: str) -> None:
        """Prints a part of a line at once."""
        self._clear_status()
        self._stdout.write(visible(text) if self.is_terminal else text)
        self._stdout.flush()

    def raw(self, data: bytes) -> None:
        """Writes data as it is, for a pipe."""
        self.flush()
        self._stdout.buffer.write(data)
        self._stdout.buffer.flush()

    def picture(self, sequence: str) -> None:
        """Prints a picture as the terminal's own escape sequence, which we made."""
        self._clear_status()
        self._stdout.write(sequence + "\n")

    def json(self, value: Any) -> None:
        """Prints a value as JSON."""
        self._clear_status()
        self._stdout.write(visible_json(_to_json(value)) + "\n")

    def table(
        self,
        headings: Sequence[str],
        rows: Sequence[Sequence[str]],
        *,
        drop: Sequence[str] = (),
        wrap_last: bool = False,
    ) -> None:
        """Prints rows of one-line cells. A narrow terminal gets fewer columns, those named in `drop` first;
        only the last column is shortened, or wrapped."""
        self._clear_status()
        cleaned = [[visible(" ".join(cell.split())) for cell in row] for row in rows]
        if not self.is_terminal:
            self._stdout.writelines("\t".join(row) + "\n" for row in cleaned)
            return
        from spindle.cli.columns import lay_out

        heading, *lines = lay_out(headings, cleaned, self.width, drop=drop, wrap_last=wrap_last)
        self._stdout.write(self._bold(heading.rstrip()) + "\n")
        self._stdout.writelines(line.rstrip() + "\n" for line in lines)

    @property
    def width(self) -> int:
        """The columns of the terminal."""
        wanted = self.environ.get("COLUMNS", "")
        try:
            found = os.get_terminal_size(self._stdout.fileno()).columns
        except (OSError, ValueError):
            found = 0
        return (int(wanted) if wanted.isdecimal() else 0) or found or 80

    def _bold(self, text: str) -> str:
        if self.environ.get("NO_COLOR") or self.environ.get("TERM") == "dumb":
            return text
        import click

        return click.style(text, bold=True)

    def paint(self, text: str, colour: str) -> str:
        """Colours a short word of ours on stdout. Cleaned text takes no colour codes."""
        if not self.is_terminal or self.environ.get("NO_COLOR"):
            return text
        import click

        return click.style(text, fg=colour)

    def paint_aside(self, text: str, colour: str) -> str:
        """Colours a short word of ours on stderr."""
        if not self.shows_progress or self.environ.get("NO_COLOR"):
            return text
        import click

        return click.style(text, fg=colour)

    def painted_line(self, mark: str, colour: str, text: str) -> None:
        """Prints a line after a coloured mark."""
        self._clear_status()
        self._stdout.write(f"{self.paint(mark, colour)} {visible(text)}\n")

    # --- everything else

    def note(self, text: str) -> None:
        """Prints a note on stderr."""
        if self.say is not None:
            self.say(text, True)
            return
        self.aside(f"note: {quoted(text)}")

    def aside(self, text: str, mark: str = "") -> None:
        """Prints a line on stderr, after a `mark` that may be coloured."""
        if self.say is not None:
            self.say(text.strip(), False)
            return
        self._clear_status()
        self._stderr.write(f"{mark}{visible(text)}\n")
        self._stderr.flush()

    def prompt(self, text: str) -> None:
        """Prints a question that a person at the terminal answers on the same line."""
        self._clear_status()
        self._stderr.write(visible(text))
        self._stderr.flush()

    def status(self, text: str) -> None:
        """Shows progress as one line that is overwritten, only on a terminal."""
        if self.shows_progress and not self.has_prompt and self.say is None:
            width = os.get_terminal_size(self._stderr.fileno()).columns if self._stderr.isatty() else 80
            shown = visible(" ".join(text.split()))[: max(width - 1, 10)]
            self._stderr.write(f"\r\x1b[K{shown}")
            self._stderr.flush()
            self._has_status = True

    def _clear_status(self) -> None:
        if self._has_status:
            self._stderr.write("\r\x1b[K")
            self._stderr.flush()
            self._has_status = False

    # --- keeping stdout to ourselves

    def take_stdout(self) -> None:
        """Redirects what others print, or programs they start, to stderr from now on."""
        if self._taken_fd is not None or self._given_stdout is None:
            return
        sys.stdout = sys.stderr
        self._is_taken = True
        with contextlib.suppress(OSError, ValueError, AttributeError):
            if self._given_stdout.fileno() == 1:
                self._given_stdout.flush()
                self._taken_fd = os.dup(1)
                os.dup2(2, 1)
                encoding = self._given_stdout.encoding
                self._stdout = open(self._taken_fd, "w", encoding=encoding, errors="backslashreplace")  # noqa: SIM115

    def hand_over_stdout(self) -> int:
        """A descriptor of the real stdout, for another writer."""
        self.flush()
        return os.dup(self._taken_fd if self._taken_fd is not None else 1)

    def give_back(self) -> None:
        """Ends the redirection of stdout."""
        self._clear_status()
        if self._is_taken:
            sys.stdout = self._given_stdout
            self._is_taken = False
        if self._taken_fd is not None:
            with contextlib.suppress(OSError):
                os.dup2(self._taken_fd, 1)
                self._stdout.close()
            self._stdout = _lenient(self._given_stdout)
            self._taken_fd = None

    def flush(self) -> None:
        """Writes out what is buffered for stdout."""
        self._stdout.flush()

    def abandon(self) -> None:
        """Discards buffered output silently, because the reader has gone."""
        with contextlib.suppress(OSError, ValueError):
            nowhere = os.open(os.devnull, os.O_WRONLY)
            os.dup2(nowhere, self._stdout.fileno())
            os.close(nowhere)


def _lenient(stream: TextIO | None) -> TextIO:
    """A stream that can show any text in its encoding, even if the original is closed."""
    if stream is None:
        return open(os.devnull, "w", encoding="utf-8")
    reconfigure = getattr(stream, "reconfigure", None)
    if reconfigure is not None:
        reconfigure(errors="backslashreplace")
    return stream


def _to_json(value: Any) -> str:
    import orjson

    try:
        return orjson.dumps(value, option=orjson.OPT_INDENT_2).decode()
    except TypeError:
        # Integers over 64 bits and lone surrogates, which orjson refuses.
        import json

        return json.dumps(value, indent=2)


def when(timestamp: float | None) -> str:
    """A moment in short words."""
    if timestamp is None:
        return "never"
    import time

    ago = time.time() - timestamp
    if ago < 60:
        return "just now"
    if ago < 3600:
        return f"{int(ago // 60)} min ago"
    if ago < 86400:
        return f"{int(ago // 3600)} h ago"
    return time.strftime("%Y-%m-%d %H:%M", time.localtime(timestamp))


def size(count: int) -> str:
    """A number of bytes in short words."""
    if count < 1000:
        return f"{count} bytes"
    return f"{count / 1000:.0f} kB" if count < 1_000_000 else f"{count / 1_000_000:.1f} MB"


def plural(count: int, word: str) -> str:
    """A number with its noun, such as `2 tools`."""
    return f"{count} {word}" if count == 1 else f"{count} {word}s"
