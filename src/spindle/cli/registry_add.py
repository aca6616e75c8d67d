"""`spindle add io.github.owner/name`: a server of a registry becomes a source."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from spindle.cli.registry import configured, split_version
from spindle.errors import CancelledCallError, ConfigurationError

if TYPE_CHECKING:
    from spindle.cli.context import CliContext
    from spindle.domain.registry import RegistryConfig
    from spindle.registry.bundle import Bundle
    from spindle.registry.client import Registries, RegistryClient
    from spindle.registry.entry import Package, ServerEntry
    from spindle.registry.inputs import Answers, InputQuestion
    from spindle.registry.plan import Offer, SourcePlan

MAX_OPTIONAL = 6
"""Optional values that a user is asked for; where there are more, none of them."""


@dataclass(frozen=True, slots=True)
class Wish:
    """The words and options of `spindle add` that are about a server of a registry."""

    server: str
    name: str | None = None
    """The name of the source, where the user says one."""
    kind: str | None = None
    """The type of package that is wanted, or `remote`."""
    registry: str | None = None
    inputs: Sequence[str] = ()
    yes: bool = False
    replaces: bool = False
    user: bool = False


@dataclass(frozen=True, slots=True)
class Chosen:
    """The source that a user agreed to, and the secrets to seal for it."""

    name: str
    table: dict[str, Any]
    sealed: dict[str, str] = field(default_factory=dict[str, str], repr=False)

    def seal(self, cli: CliContext) -> None:
        """Puts the secrets into the store of the workspace, in which the source is written by now."""
        if self.sealed:
            cli.run(_seal(cli, self))


def choose_server(cli: CliContext, wish: Wish, file: Path) -> Chosen:
    """Asks the registries for a server, and the user for its inputs; shows what will run, and asks."""
    name, version = split_version(wish.server)
    return cli.run(_choose(cli, wish, configured(cli, wish.registry), name, version, file))


async def _choose(
    cli: CliContext,
    wish: Wish,
    configs: dict[str, RegistryConfig],
    name: str,
    version: str | None,
    file: Path,
) -> Chosen:
    from spindle.registry.client import Registries
    from spindle.registry.inputs import variable_name
    from spindle.registry.plan import choose, source_name

    # What was unpacked goes again, unless the user agrees in the end.
    with ExitStack() as undo:
        async with Registries(configs) as registries:
            cli.output.status(f"asking for {name} …")
            client, entry = await registries.find(name, version)
            _check_status(cli, entry)
            source = wish.name or source_name(entry)
            _check_free(source, file, wish)
            offer = choose(entry, wish.kind)
            plan = await _plan(cli, wish, registries, client, entry, offer, source, file, undo)
        if wish.user and plan.sealed:
            key = next(iter(plan.sealed))
            raise ConfigurationError(
                "a source for all workspaces cannot have sealed secrets: each workspace has its own store",
                hint=f"name an environment variable: --input {key}='${{{variable_name(key)}}}'",
            )
        cli.output.aside(f"{source}: {entry.name} {entry.version} ({offer.type}), from {client.name}")
        for line in plan.lines():
            cli.output.aside(f"  {line}")
        await _confirm(cli, wish, plan)
        undo.pop_all()
    return Chosen(source, plan.table, plan.sealed)


def _check_status(cli: CliContext, entry: ServerEntry) -> None:
    why = f": {entry.status_message}" if entry.status_message else ""
    if entry.status == "deleted":
        raise ConfigurationError(f"{entry.name}@{entry.version} was deleted from the registry{why}")
    if entry.status != "active":
        cli.output.note(f"{entry.name}@{entry.version} is {entry.status}{why}")


def _check_free(source: str, file: Path, wish: Wish) -> None:
    from spindle.domain.toml_text import read_toml

    if wish.replaces or not file.is_file():
        return
    try:
        known = read_toml(file.read_text("utf-8")).get("sources", {})
    except (OSError, ValueError):
        return  # said when it is written
    if source in known:
        raise ConfigurationError(
            f"{file} already has a source {source!r}",
            hint=f"choose a name: spindle add {wish.server} NAME, or give --replace",
        )


async def _plan(
    cli: CliContext,
    wish: Wish,
    registries: Registries,
    client: RegistryClient,
    entry: ServerEntry,
    offer: Offer,
    source: str,
    file: Path,
    undo: ExitStack,
) -> SourcePlan:
    from spindle.registry.entry import Remote
    from spindle.registry.hashes import check_hash
    from spindle.registry.inputs import questions
    from spindle.registry.plan import plan_bundle, plan_package, plan_remote

    inside = client.is_inside
    if isinstance(offer, Remote):
        answers = await _answers(cli, wish, questions(offer))
        return await plan_remote(offer, source, answers, entry, may_be_inside=inside)
    folder = _folder(file, user=wish.user)
    if offer.type == "mcpb":
        cli.output.status(f"getting {offer.identifier} …")
        bundle = await _bundle(registries, offer, entry, folder, undo, inside=inside)
        _check_program(bundle)
        shown = _relative(bundle.folder, file, user=wish.user)
        answers = await _answers(cli, wish, [*questions(offer), *bundle.questions()])
        return plan_bundle(replace(bundle, folder=shown), offer, source, answers, entry)
    answers = await _answers(cli, wish, questions(offer))
    plan = plan_package(offer, source, answers, entry)
    if offer.sha256 is not None:
        cli.output.status(f"checking the hash of {offer.identifier} …")
        await check_hash(registries.http, offer, folder, may_be_inside=inside)
    return plan


async def _bundle(
    registries: Registries,
    package: Package,
    entry: ServerEntry,
    folder: Path,
    undo: ExitStack,
    *,
    inside: bool,
) -> Bundle:
    import asyncio
    import shutil

    from spindle.registry.bundle import download, read_bundle, unpack
    from spindle.registry.plan import check_url

    assert package.sha256 is not None
    await check_url(package.identifier, may_be_inside=inside)
    place = folder / f"{entry.name.rpartition('/')[2]}-{entry.version}-{package.sha256[:12]}"
    if place.is_dir():
        return read_bundle(place, place)  # checked when it was unpacked, which is done whole or not at all
    file = await download(registries.http, package.identifier, package.sha256, folder, may_be_inside=inside)
    undo.callback(shutil.rmtree, place, ignore_errors=True)
    try:
        return await asyncio.to_thread(unpack, file, place)
    finally:
        file.unlink(missing_ok=True)


def _check_program(bundle: Bundle) -> None:
    import shutil

    program = bundle.program
    if "/" in program or "$" in program or shutil.which(program):
        return
    ways = {"node": "install Node.js (https://nodejs.org)", "uv": "install uv (https://docs.astral.sh/uv)"}
    raise ConfigurationError(
        f"the bundle is started by {program!r}, which is not on this machine",
        hint=ways.get(program, "install it"),
    )


def _folder(file: Path, *, user: bool) -> Path:
    from spindle import settings

    state = settings.user_folder() / "state" if user else file.parent / settings.STATE_FOLDER
    return state / "bundles"


def _relative(folder: Path, file: Path, *, user: bool) -> Path:
    """A workspace can be moved; programs are started in its folder."""
    return folder if user else folder.relative_to(file.parent)


# --- asking the user


async def _answers(cli: CliContext, wish: Wish, asked: Sequence[InputQuestion]) -> Answers:
    from spindle.registry.inputs import Answers, check_answers, refuse_missing

    given = _given(cli, wish, asked)
    answers = Answers(given)
    check_answers(asked, answers)
    if cli.can_ask:
        for question in _to_ask(cli, asked, answers):
            answer = await _ask(cli, question)
            if answer:
                given[question.key] = [answer]
    refuse_missing(asked, answers)
    return answers


def _to_ask(cli: CliContext, asked: Sequence[InputQuestion], answers: Answers) -> list[InputQuestion]:
    """The values that are missing, and the optional ones too unless they are many."""
    open_ = [question for question in asked if not answers.of(question.key, question.about)]
    optional = [question for question in open_ if not question.required]
    if len(optional) > MAX_OPTIONAL:
        listed = ", ".join(question.key for question in optional)
        cli.output.note(f"not asked for, as they are optional: {listed}; give them with --input KEY=VALUE")
        return [question for question in open_ if question.required]
    return open_


def _given(cli: CliContext, wish: Wish, asked: Sequence[InputQuestion]) -> dict[str, list[str]]:
    from spindle.cli.errors import UsageMistakeError
    from spindle.registry.inputs import is_reference, variable_name

    secrets = {question.key for question in asked if question.secret}
    given: dict[str, list[str]] = {}
    for word in wish.inputs:
        key, equals, value = word.partition("=")
        if not equals or not key:
            raise UsageMistakeError(f"--input {key!r} is not of the form KEY=VALUE")
        if key in secrets and not is_reference(value):
            raise UsageMistakeError(
                f"{key} is a secret, and others can read what stands on a command line",
                f"type it when asked, or name a variable: --input {key}='${{{variable_name(key)}}}'",
            )
        given.setdefault(key, []).append(value)
    return given


async def _ask(cli: CliContext, question: InputQuestion) -> str:
    from spindle.registry.inputs import value_problem

    about = question.about
    said = f"  {about.description}" if about.description else ""
    if about.choices:
        said += f"  one of {', '.join(about.choices)}"
    elif about.placeholder:
        said += f"  such as {about.placeholder}"
    if said:
        cli.output.aside(f"{question.key}:{said}")
    while True:
        words = [word for word, is_so in (("not shown", question.secret),
                 ("Enter leaves it out", not question.required)) if is_so]  # fmt: skip
        prompt = f"{question.key}{' (' + ', '.join(words) + ')' if words else ''}: "
        answer = await (cli.ask_hidden(prompt) if question.secret else cli.ask(prompt))
        if answer is None:
            raise CancelledCallError("nothing was added")
        if not answer and not question.required:
            return ""
        problem = value_problem(question, answer) if answer else "is required"
        if problem is None:
            return answer
        cli.output.aside(f"  it {problem}")


async def _confirm(cli: CliContext, wish: Wish, plan: SourcePlan) -> None:
    if wish.yes:
        return
    if not cli.can_ask:
        if plan.opening:
            raise ConfigurationError(
                f"this server opens your machine to a container: {', '.join(plan.opening)}",
                hint="give --yes if that is meant",
            )
        return
    usual = "y/N" if plan.opening else "Y/n"
    answer = await cli.ask(f"add it? [{usual}] ")
    agreed = (answer or "").lower() in ("y", "yes") or (answer == "" and not plan.opening)
    if not agreed:
        raise CancelledCallError("nothing was added")


async def _seal(cli: CliContext, chosen: Chosen) -> None:
    async with cli.open() as app:
        await app.auth.secrets.forget(chosen.name)
        await app.auth.secrets.save(chosen.name, chosen.sealed)
