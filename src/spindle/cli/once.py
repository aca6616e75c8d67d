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
from collections.abc import AsyncGenerator, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from spindle.cli.options import ONCE

if TYPE_CHECKING:
    from spindle.app import Spindle
    from spindle.calls.permissions import Visible
    from spindle.cli.context import CliContext
    from spindle.domain.question import OnQuestion
    from spindle.errors import SpindleError

CONNECT_TIMEOUT = 120.0
"""Seconds. `npx` and `uvx` download a package when it is first used."""

# Programs that start another one, which is the word that says what is used.
_STARTERS = {"npx", "bunx", "pnpx", "uvx", "uv", "pipx", "docker", "node", "deno", "env", "python", "python3"}
_SUBCOMMANDS = {"run", "exec", "tool", "dlx", "x"}


_ENV, _HEADER = "spindle.once.env", "spindle.once.header"


def _once(ctx: click.Context, _param: click.Parameter, place: str | None) -> None:
    if place is None:
        _refuse_alone(ctx)
        return
    ctx.meta[ONCE] = place
    if ctx.obj is not None:
        env, headers = ctx.meta.get(_ENV, ()), ctx.meta.get(_HEADER, ())
        ctx.obj.once = partial(opened_once, ctx.obj, place, env, headers)


def _refuse_alone(ctx: click.Context) -> None:
    from spindle.cli.errors import UsageMistakeError

    for key, option in ((_ENV, "--env"), (_HEADER, "--header")):
        if key in ctx.meta and not ctx.resilient_parsing:
            raise UsageMistakeError(f"{option} goes with --from", "other sources have theirs in spindle.toml")


def _keep(key: str) -> Any:
    def callback(ctx: click.Context, _param: click.Parameter, words: tuple[str, ...]) -> None:
        if words:
            ctx.meta[key] = words

    return callback


def once_option(function: Any) -> Any:
    """Adds `--from`, and what the source that it names may need, to a command."""
    for option in (
        click.option(
            "--header",
            "once_header",
            metavar="KEY=VALUE",
            multiple=True,
            expose_value=False,
            is_eager=True,
            callback=_keep(_HEADER),
            help="With --from: a header of every request: 'Authorization=Bearer ${TOKEN}'. Repeatable.",
        ),
        click.option(
            "--env",
            "once_env",
            metavar="KEY=VALUE",
            multiple=True,
            expose_value=False,
            is_eager=True,
            callback=_keep(_ENV),
            help="With --from: an environment variable of the program. Repeatable.",
        ),
        click.option(
            "--from",
            ONCE,
            metavar="COMMAND|URL|FILE",
            expose_value=False,
            callback=_once,
            help="Use this source once, without a workspace. Nothing is written.",
        ),
    ):
        function = option(function)
    return function


@contextlib.asynccontextmanager
async def opened_once(
    cli: CliContext,
    place: str,
    env: Sequence[str],
    headers: Sequence[str],
    *,
    visible: Visible,
    on_question: OnQuestion | None,
) -> AsyncGenerator[Spindle]:
    """Opens the source at a place, a command, a URL or a file, with its tools under their plain names."""
    import tempfile

    from spindle import opening
    from spindle.auth.keys import VARIABLE, new_key
    from spindle.cli.missing_program import require_program
    from spindle.errors import SpindleError
    from spindle.settings import Settings

    name, table, root = read_place(place)
    _add_pairs(table, env, headers)
    if "command" in table:
        require_program(table["command"], table.get("env", {}), root)
    cli.output.status(f"asking {name} for its tools …")
    raw = {"store": ":memory:", "sources": {name: {**table, "prefix": False}}}
    environ = {**os.environ, VARIABLE: new_key()}
    with tempfile.TemporaryDirectory(prefix="spindle-once-") as folder:
        settings = Settings(
            root, raw, {name: "--from"}, is_workspace=False, environ=environ, state=Path(folder)
        )
        opened = opening.open(
            settings=settings, note=cli.output.note, visible=visible, on_question=on_question, environ=environ
        )
        async with opened as app:
            try:
                await _sync(app, name, place)
                yield app
            except SpindleError as error:
                error.hint = _hint(error, name, place)
                raise


async def _sync(app: Spindle, name: str, place: str) -> None:
    from spindle.errors import NotFoundError, from_description

    (report,) = await app.sync(name)
    if report.error is not None:
        raise from_description(report.error)
    if place.endswith(".py") and not await app.tools():
        hint = f"give its functions @tool; to start it as a server: --from 'python {place}'"
        raise NotFoundError(f"{place} has no tools", hint=hint)


def _hint(error: SpindleError, name: str, place: str) -> str | None:
    """The advice for somebody without a workspace, where the usual one is about a workspace."""
    hint, source = error.hint_for("shell") or "", shlex.quote(place)
    if error.category == "auth" and "://" in place:
        return (
            f"give --header, or add it and log in: `spindle add {name} {source}`, `spindle auth login {name}`"
        )
    if "spindle search" in hint:
        return f"`spindle tools --from {source}` lists its tools"
    if "spindle call" in hint:
        return hint.replace("spindle call", f"spindle call --from {source}")
    if f"sources.{name}.timeout" in hint:
        return "give it more time with --timeout"
    if f"sources.{name}" in hint:
        return f"add it to a workspace to change its settings: `spindle add {name} …`"
    return hint or None


def _add_pairs(table: dict[str, Any], env: Sequence[str], headers: Sequence[str]) -> None:
    from spindle.cli.add_words import pairs
    from spindle.cli.errors import UsageMistakeError

    if env and "command" not in table:
        raise UsageMistakeError("--env goes with a command", "a URL takes --header")
    if headers and not table.keys() & {"url", "document"}:
        raise UsageMistakeError("--header goes with a URL", "a command takes --env")
    if env:
        table["env"] = pairs("--env", env)
    if headers:
        table["headers"] = pairs("--header", headers)


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


def settled(place: str) -> str:
    """The place in words that mean the same in any folder and with any PATH."""
    import shutil

    words = _words(place)
    if len(words) == 1 and "://" in words[0]:
        return place
    settled = [str(Path(word).expanduser().absolute()) if _is_path(word) else word for word in words]
    if found := shutil.which(words[0]):
        settled[0] = str(Path(found).absolute())
    return shlex.join(settled)


def _is_path(word: str) -> bool:
    # The name of a package may also be that of a folder here, and means the package.
    path = Path(word).expanduser()
    return path.is_file() or (word.startswith((".", "~", os.sep)) and path.exists())


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
