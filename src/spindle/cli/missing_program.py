"""A program that is to be a source but is not on this machine: the ways to get it, and the user's choice."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from spindle.errors import NotFoundError

if TYPE_CHECKING:
    from spindle.cli.context import CliContext

SECONDS = 3.0
"""The time that the package registries get to answer."""

_COMES_WITH = {
    "npx": "it comes with Node.js (https://nodejs.org)",
    "npm": "it comes with Node.js (https://nodejs.org)",
    "node": "it comes with Node.js (https://nodejs.org)",
    "uvx": "it comes with uv (https://docs.astral.sh/uv)",
    "uv": "install uv (https://docs.astral.sh/uv)",
    "pipx": "install it with `pip install pipx`",
    "docker": "install Docker (https://docs.docker.com/get-docker)",
}
_PACKAGE = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9._-]{0,100}[A-Za-z0-9])?")


def runnable(
    cli: CliContext, command: Sequence[str], env: Mapping[str, str], folder: Path, advice: str | None = None
) -> list[str]:
    """The command that is to be written: as typed if its program is there or the user wants it anyway, or
    another that the user chooses. Raises NotFoundError if nothing is to be written.

    `folder` is where the program starts, `advice` says how a preset's program is installed.
    """
    program = command[0]
    if is_there(program, env, folder):
        return list(command)
    advice = advice or _known_advice(program)
    if not cli.can_ask:
        raise NotFoundError(
            _problem(program),
            hint=f"{advice or _general_advice(command)}; --yes adds it as it is",
        )
    return cli.run(_ask(cli, command, _problem(program), advice, _beside_us(program)))


def require_program(command: Sequence[str], env: Mapping[str, str], folder: Path) -> None:
    """Raises NotFoundError with the ways to get the program, if it is not there."""
    program = command[0]
    if not is_there(program, env, folder):
        raise NotFoundError(_problem(program), hint=_known_advice(program) or _general_advice(command))


def _problem(program: str) -> str:
    return f"{program!r} is not on this machine" if "/" in program else f"{program!r} is not on PATH"


def _known_advice(program: str) -> str | None:
    beside = _beside_us(program)
    return f"it is installed as {beside}: give that path" if beside else _COMES_WITH.get(program)


def is_there(program: str, env: Mapping[str, str], folder: Path) -> bool:
    """True if the program can be started from this folder, or only the environment knows its name."""
    if "${" in program:
        return True
    path = os.path.expandvars(env.get("PATH", os.environ.get("PATH", os.defpath)))
    return shutil.which(str(folder / program) if "/" in program else program, path=path) is not None


async def _ask(
    cli: CliContext, command: Sequence[str], problem: str, advice: str | None, beside: str | None
) -> list[str]:
    choices: list[list[str]] = [[beside, *command[1:]]] if beside else []
    cli.output.aside(f"spindle: {problem}")
    if advice is None and _PACKAGE.fullmatch(command[0]):
        cli.output.status("asking PyPI and npm for a package of that name …")
        found = await registries_with(command[0], os.environ)
        launchers = {"PyPI": ["uvx"], "npm": ["npx", "-y"]}
        for registry in found:
            launched = [*launchers[registry], *command]
            cli.output.aside(f"  {registry} has a package of that name: {shlex.join(launched)}")
            if shutil.which(launched[0]):
                choices.append(launched)
            else:
                cli.output.aside(f"  {launched[0]} is not on PATH either: {_COMES_WITH[launched[0]]}")
        if found:
            cli.output.aside("  make sure that it is the one you mean: anybody can publish a package")
        else:
            advice = _general_advice(command)
    if advice is not None:
        cli.output.aside(f"  {advice}")
    choices.append(list(command))
    if len(choices) == 1:
        said = await cli.ask("add it anyway? [y/N] ")
        chosen = 0 if (said or "").lower() in ("y", "yes") else None
    else:
        for number, choice in enumerate(choices, 1):
            cli.output.aside(f"  {number}  {shlex.join(choice)}")
        said = await cli.ask("which of these is to be added? (a number; Enter for none) ")
        chosen = int(said) - 1 if said and said.isdecimal() and 0 < int(said) <= len(choices) else None
    if chosen is None:
        raise NotFoundError(f"{problem}; nothing was added")
    return choices[chosen]


def _beside_us(program: str) -> str | None:
    """The program's path if it is installed with Spindle, in an environment that is not activated."""
    return shutil.which(program, path=str(Path(sys.executable).parent)) if "/" not in program else None


def _general_advice(command: Sequence[str]) -> str:
    program = command[0]
    if not _PACKAGE.fullmatch(program):
        return "install it, or correct its path"
    words = shlex.join(command)
    return (
        f"if it is a package, let a launcher fetch it: `uvx {words}` (PyPI) or `npx -y {words}` (npm), "
        f"or install it: `pipx install {program}`"
    )


async def registries_with(name: str, environ: Mapping[str, str]) -> list[str]:
    """Asks PyPI and npm, or the registries that uv and npm are set up to use, for a package of this name.
    A registry that cannot be reached in time has none."""
    import asyncio

    from spindle.http.client import HttpClient

    pypi = _first(environ, "UV_DEFAULT_INDEX", "UV_INDEX_URL", "PIP_INDEX_URL") or "https://pypi.org/simple"
    npm = _first(environ, "npm_config_registry", "NPM_CONFIG_REGISTRY") or "https://registry.npmjs.org"
    normal = re.sub(r"[-_.]+", "-", name).lower()
    places = {"PyPI": f"{pypi.rstrip('/')}/{normal}/", "npm": f"{npm.rstrip('/')}/{name.lower()}"}
    client = HttpClient(SECONDS)
    try:
        there = await asyncio.gather(*(_is_published(client, url) for url in places.values()))
    finally:
        await client.aclose()
    return [registry for registry, found in zip(places, there, strict=True) if found]


async def _is_published(client: Any, url: str) -> bool:
    import asyncio

    from spindle.http.exchange import exchange
    from spindle.http.failures import HttpFailure
    from spindle.http.request import Prepared

    try:
        # The page of a package may be large, and only its status is of interest.
        async with (
            asyncio.timeout(SECONDS),
            exchange(client, Prepared("GET", url, {"accept": "application/json, text/html"})) as answer,
        ):
            return answer.status == 200
    except (HttpFailure, TimeoutError):
        return False


def _first(environ: Mapping[str, str], *names: str) -> str | None:
    return next((environ[name] for name in names if environ.get(name)), None)
