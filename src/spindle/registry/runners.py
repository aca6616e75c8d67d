"""The programs that start packages, one for each type, and the command lines that they are given."""

from __future__ import annotations

import re
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final
from urllib.parse import urlsplit

from spindle.errors import ConfigurationError
from spindle.registry import names
from spindle.registry.entry import EntryInput, Package
from spindle.registry.inputs import Filler, is_switch


@dataclass(frozen=True, slots=True)
class PackageRunner:
    """A way to start packages of one type."""

    programs: tuple[str, ...]
    get: str
    """The way to get the program."""
    homes: tuple[str, ...]
    """The hosts where packages of this type are published."""
    harmless: frozenset[str] = frozenset()
    """Its options that an entry may name, and that are given anyway or change nothing."""


RUNNERS: Final[Mapping[str, PackageRunner]] = {
    "npm": PackageRunner(
        ("npx",),
        "install Node.js (https://nodejs.org)",
        ("registry.npmjs.org", "www.npmjs.com"),
        frozenset({"-y", "--yes", "-q", "--quiet"}),
    ),
    "pypi": PackageRunner(
        ("uvx", "pipx"), "install uv (https://docs.astral.sh/uv) or pipx", ("pypi.org",), frozenset({"-q"})
    ),
    "oci": PackageRunner(
        ("docker", "podman"),
        "install Docker or Podman",
        (),
        frozenset({"run", "-i", "--interactive", "--rm", "--init"}),
    ),
    "nuget": PackageRunner(
        ("dnx",),
        "install the .NET SDK 10 or newer (https://dot.net)",
        ("api.nuget.org", "www.nuget.org", "nuget.org"),
        frozenset({"-y", "--yes"}),
    ),
}
# Options that open this machine to a container. The user sees them, and must say yes.
OPENING: Final = frozenset({"-v", "--volume", "--mount", "-p", "--publish", "--network", "--net"})
_VARIABLE: Final = frozenset({"-e", "--env"})


@dataclass(slots=True)
class Started:
    """A command line, the variables that it needs, and the reasons to ask the user first."""

    command: list[str]
    environment: dict[str, str]
    opening: list[str]


def program_for(kind: str) -> str | None:
    """Returns the program on this machine that starts packages of a type."""
    runner = RUNNERS.get(kind)
    return next((name for name in runner.programs if shutil.which(name)), None) if runner else None


def how_to_get(kind: str) -> str:
    """Returns the sentence about a program that is not there."""
    runner = RUNNERS[kind]
    first, *others = runner.programs
    absent = f"neither {first} nor {' nor '.join(others)}" if others else first
    return f"{absent} {'is' if others else 'is not'} on this machine: {runner.get}"


def start(package: Package, filler: Filler) -> Started:
    """Returns the command line that starts a package of a type that has a runner."""
    _check_home(package)
    environment = _environment(package, filler)
    started = Started([], environment, [])
    arguments = _words(package.arguments, filler)
    if package.type == "oci":
        options = _container_options(package, filler, started)
        image = image_of(package)
        variables = [word for name in environment for word in ("-e", name)]
        program = program_for("oci") or "docker"
        started.command = [program, "run", "-i", "--rm", *options, *variables, image, *arguments]
        return started
    version = _pinned(package)
    spec = _refuse_runner_options(package, filler)
    if package.type == "npm":
        started.command = ["npx", "-y", f"{package.identifier}@{version}", *arguments]
    elif package.type == "nuget":
        after = ["--", *arguments] if arguments else []
        started.command = ["dnx", "--yes", f"{package.identifier}@{version}", *after]
    else:
        started.command = _python_command(package.identifier, version, spec, arguments)
    return started


def _python_command(name: str, version: str, spec: str | None, arguments: Sequence[str]) -> list[str]:
    by_pipx = program_for("pypi") == "pipx"
    if spec is None:
        return ["pipx", "run", "--spec", f"{name}=={version}", name, *arguments] if by_pipx else [
            "uvx", f"{name}@{version}", *arguments
        ]  # fmt: skip
    # With extras, the program is named by the first argument.
    if not arguments or arguments[0].startswith("-"):
        raise ConfigurationError(f"the entry does not say which program of {spec} to run")
    return [*(("pipx", "run", "--spec") if by_pipx else ("uvx", "--from")), spec, *arguments]


def image_of(package: Package) -> str:
    """Returns the exact image of a container."""
    image = package.identifier
    host = urlsplit(package.base_url).netloc if package.base_url else ""
    if host and not image.startswith(f"{host}/"):
        image = f"{host}/{image}"
    if "@sha256:" in image:
        return image
    tag = image.rpartition("/")[2].partition(":")[2]
    if not tag:
        image, tag = f"{image}:{_pinned(package)}", package.version or ""
    if tag == "latest" or not names.is_identifier("oci", image):
        raise ConfigurationError(
            f"the image {names.shown(image)} has no exact version", hint="choose another version or package"
        )
    return image


def _pinned(package: Package) -> str:
    if package.version is None:
        raise ConfigurationError(
            f"the entry does not say which version of {package.identifier} to use",
            hint="choose another version or package",
        )
    return package.version


def _check_home(package: Package) -> None:
    homes = RUNNERS[package.type].homes
    host = (urlsplit(package.base_url).hostname or "") if package.base_url else ""
    if host and homes and host not in homes:
        raise ConfigurationError(
            f"{package.identifier} is not published at {homes[0]} but at {names.shown(host)}",
            hint=f"if you trust that, set up {RUNNERS[package.type].programs[0]} for it and add the server by"
            " its command: spindle add NAME -- COMMAND…",
        )


def _environment(package: Package, filler: Filler) -> dict[str, str]:
    found: dict[str, str] = {}
    for about in package.environment:
        _refuse_steering(about.name, package)
        for text in filler.texts(about)[:1]:
            found[about.name] = text
    return found


def _refuse_steering(variable: str, package: Package) -> None:
    if names.steers(variable, package.type):
        raise ConfigurationError(
            f"the entry sets {variable}, which decides what {RUNNERS[package.type].programs[0]} runs",
            hint="an entry may not do that; tell those who publish it",
        )


def _words(arguments: Sequence[EntryInput], filler: Filler) -> list[str]:
    words: list[str] = []
    for about in arguments:
        words += _argument_words(about, filler.texts(about, in_argv=True))
    return words


def _argument_words(about: EntryInput, texts: Sequence[str]) -> list[str]:
    if about.part == "positional":
        return list(texts)
    if is_switch(about):
        return [about.name]
    if about.format == "boolean" and set(texts) <= {"true", "false", ""}:
        return [about.name] if "true" in texts else []
    return [word for text in texts for word in ((about.name, text) if text else (about.name,))]


def _refuse_runner_options(package: Package, filler: Filler) -> str | None:
    """Options of the program that starts packages could make it start another one. Returns the one harmless
    specification, `--from NAME[extras]==VERSION` of this very package."""
    runner, spec = RUNNERS[package.type], None
    for about in package.runner_arguments:
        if package.type == "pypi" and about.name == "--from":
            (spec,) = filler.texts(about, in_argv=True) or [""]
            exact = re.escape(f"=={package.version}")
            if re.fullmatch(rf"{re.escape(package.identifier)}(?:\[[A-Za-z0-9,._-]+\])?{exact}", spec):
                continue
        words = [about.name] if about.part == "named" else filler.texts(about, in_argv=True)
        for word in words:
            own = {package.identifier, f"{package.identifier}@{package.version}"}
            if word not in runner.harmless and word not in own:
                raise ConfigurationError(
                    f"the entry gives {runner.programs[0]} the argument {names.shown(word)!r}, which could"
                    " make it run something else",
                    hint="if you trust that, add the server by its command: spindle add NAME -- COMMAND…",
                )
    return spec


def _container_options(package: Package, filler: Filler, started: Started) -> list[str]:
    options: list[str] = []
    for about in package.runner_arguments:
        if about.part == "positional":
            _check_container_word(package, filler.texts(about, in_argv=True))
            continue
        if about.name in RUNNERS["oci"].harmless:
            continue
        if about.name in _VARIABLE:
            _take_variable(package, about, filler, started)
        elif about.name in OPENING:
            words = _argument_words(about, filler.texts(about, in_argv=True))
            options += words
            if words:
                started.opening.append(" ".join(words))
        else:
            raise ConfigurationError(
                f"the entry gives {RUNNERS['oci'].programs[0]} the option {about.name}, which is not accepted"
                " from a registry",
                hint="if you trust that, add the server by its command: spindle add NAME -- docker run …",
            )
    return options


def _check_container_word(package: Package, words: Sequence[str]) -> None:
    image = package.identifier.partition("@")[0]
    for word in words:
        is_image = names.is_identifier("oci", word) and image.startswith(word.partition(":")[0])
        if word not in RUNNERS["oci"].harmless and not is_image:
            raise ConfigurationError(
                f"the entry gives {RUNNERS['oci'].programs[0]} the word {names.shown(word)!r}, which is not"
                " accepted from a registry",
                hint="if you trust that, add the server by its command: spindle add NAME -- docker run …",
            )


def _take_variable(package: Package, about: EntryInput, filler: Filler, started: Started) -> None:
    """`-e NAME=value` becomes a variable of the program's own environment: arguments can be read by all."""
    for text in filler.texts(about):
        name, _, value = text.partition("=")
        if not names.is_variable(name):
            raise ConfigurationError(f"{names.shown(name)!r} is not the name of an environment variable")
        _refuse_steering(name, package)
        if value:
            started.environment[name] = value
