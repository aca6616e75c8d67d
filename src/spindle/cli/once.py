"""A source that is used once, for `--from`: opened in a workspace that is only in memory.

Nothing is written: the store and the key are in memory, and large content of results is in a temporary folder
until the command ends. What the words mean is decided by the same code as for `spindle add`.
"""

from __future__ import annotations

import contextlib
import os
import re
import shlex
import sys
import tempfile
from collections.abc import AsyncGenerator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from spindle.cli.options import ONCE

if TYPE_CHECKING:
    from spindle.app import Spindle
    from spindle.cli.context import CliContext

CONNECT_TIMEOUT = 120.0
"""Seconds. `npx` and `uvx` download a package when it is first used."""

# Programs that start another one, which is the word that says what is used.
_STARTERS = {"npx", "bunx", "pnpx", "uvx", "uv", "pipx", "docker", "node", "deno", "env", "python", "python3"}
_SUBCOMMANDS = {"run", "exec", "tool", "dlx", "x"}


def _once(ctx: click.Context, _param: click.Parameter, place: str | None) -> None:
    if place is None:
        return
    ctx.meta[ONCE] = place
    if ctx.obj is not None:
        ctx.obj.once = lambda: opened_once(ctx.obj, place)


once_option = click.option(
    "--from",
    ONCE,
    metavar="COMMAND|URL|FILE",
    expose_value=False,
    callback=_once,
    help="Use this source once, without a workspace. Nothing is written.",
)


@contextlib.asynccontextmanager
async def opened_once(cli: CliContext, place: str) -> AsyncGenerator[Spindle]:
    """Opens the source at a place, a command, a URL or a file, with its tools under their plain names."""
    from spindle import opening
    from spindle.auth.keys import VARIABLE, new_key
    from spindle.settings import Settings

    name, table, root = read_place(place)
    cli.output.status(f"asking {name} for its tools …")
    raw = {"store": ":memory:", "sources": {name: {**table, "prefix": False}}}
    environ = {**os.environ, VARIABLE: new_key()}
    with tempfile.TemporaryDirectory(prefix="spindle-once-") as folder:
        settings = Settings(
            root, raw, {name: "--from"}, is_workspace=False, environ=environ, state=Path(folder)
        )
        opened = opening.open(
            settings=settings, note=cli.output.note, on_question=cli.questions(), environ=environ
        )
        async with opened as app:
            await _sync(app, name, place)
            yield app


async def _sync(app: Spindle, name: str, place: str) -> None:
    from spindle.errors import from_description

    (report,) = await app.sync(name)
    if report.error is None:
        return
    error = from_description(report.error)
    if report.error["category"] in ("consent", "auth") and "://" in place:
        error.hint = (
            f"add it and log in: `spindle add {name} {shlex.quote(place)}`, then `spindle auth login {name}`"
        )
    elif error.hint and f"sources.{name}" in error.hint:
        error.hint = f"add it to a workspace to change its settings: `spindle add {name} …`"
    raise error


def read_place(place: str) -> tuple[str, dict[str, Any], Path]:
    """The name, the settings and the root folder of the source at a place."""
    from spindle.cli.add_words import addition
    from spindle.cli.documents import document_in, document_setting

    here = Path.cwd()
    path = Path(place).expanduser()
    if path.suffix == ".py" and path.is_file():
        return _python_file(path)
    words = _words(place)
    name = name_of(place, words)
    table: dict[str, Any]
    if len(words) == 1 and (found := document_in([name, words[0]], openapi=False)):
        kind, document = found
        table = {"kind": kind, "document": document_setting(document, here, user=False)}
    elif len(words) == 1 and "://" in words[0]:
        table = addition([name, words[0]], None, ()).table()
    else:
        table = addition([name], words, ()).table()
    if "command" in table:
        table["connect_timeout"] = CONNECT_TIMEOUT
    return name, table, here


def _words(place: str) -> list[str]:
    from spindle.cli.errors import UsageMistakeError

    is_one = "://" in place.split(" ")[0] or Path(place).expanduser().is_file()
    try:
        words = [place.strip()] if is_one else shlex.split(place)
    except ValueError as error:
        raise UsageMistakeError(f"--from {place!r} cannot be read: {str(error).lower()}") from None
    if not words:
        raise UsageMistakeError("--from is empty", "give a command, a URL or a file: --from 'npx -y PACKAGE'")
    return words


def _python_file(path: Path) -> tuple[str, dict[str, Any], Path]:
    from spindle.cli.errors import UsageMistakeError

    if not path.stem.isidentifier():
        raise UsageMistakeError(
            f"{path.name} cannot be imported, because of its name", f"to start it: --from 'python {path}'"
        )
    sys.dont_write_bytecode = True
    return _name(path.stem), {"kind": "python", "module": path.stem}, path.resolve().parent


def name_of(place: str, words: list[str]) -> str:
    """A name for messages: the host of a URL, the stem of a file, or the program that a command starts."""
    from urllib.parse import urlsplit

    if "://" in place:
        return _name((urlsplit(place).hostname or "").removeprefix("www.").partition(".")[0])
    for word in words:
        bare = Path(
            word.partition("@")[0] if not word.startswith("@") else word.rsplit("@", 1)[0] or word
        ).name
        if not word.startswith("-") and bare not in _STARTERS | _SUBCOMMANDS:
            return _name(Path(bare).stem)
    return _name(Path(words[0]).name)


def _name(text: str) -> str:
    cleaned = re.sub(r"[^A-Za-z0-9_-]+", "-", text).strip("-_")[:64]
    return cleaned if cleaned[:1].isalpha() else f"source-{cleaned}".rstrip("-")
