"""`spindle add`: adds a source from a program, a URL or a preset to spindle.toml, and syncs it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import click

from spindle.cli.context import CliContext, command
from spindle.cli.documents import document_in, document_setting
from spindle.cli.options import SECONDS
from spindle.cli.registry import PACKAGES, REGISTRY, is_server
from spindle.cli.secrets import clear_secret_note
from spindle.errors import SpindleError

if TYPE_CHECKING:
    from spindle.app import Spindle
    from spindle.catalog.diff import SyncReport
    from spindle.cli.presets import Preset

AFTER_DASHES = "spindle.after_dashes"


class _AddCommand(click.Command):
    """Keeps the words after `--` separate, which click would mix with those before it."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        from spindle.cli.errors import UsageMistakeError

        if "--" in args:
            at = args.index("--")
            args, ctx.meta[AFTER_DASHES] = args[:at], args[at + 1 :]
        try:
            return super().parse_args(ctx, args)
        except click.NoSuchOption as error:
            raise UsageMistakeError(
                f"there is no option {error.option_name!r}",
                "put `--` before a server's command: spindle add NAME -- COMMAND…",
            ) from None


@command("add", cls=_AddCommand)
@click.argument("words", nargs=-1, metavar="NAME [URL|FILE] | PRESET [NAME] | NAME -- COMMAND…")
@click.option("--openapi", is_flag=True, help="The URL or file is an OpenAPI document.")
@click.option("--http", "as_api", is_flag=True, help="The URL is the base of an HTTP API.")
@click.option("--utcp", is_flag=True, help="The URL or file is a UTCP manual.")
@click.option("--presets", "list_presets", is_flag=True, help="List the presets.")
@click.option("--cli", "as_program", is_flag=True, help="Draft tools from a program's --help.")
@click.option("--arg", "arguments", multiple=True, help="An argument for a preset. Repeatable.")
@click.option(
    "--env", multiple=True, metavar="KEY=VALUE", help="An environment variable of the program. Repeatable."
)
@click.option("--header", multiple=True, metavar="KEY=VALUE", help="A header of every request. Repeatable.")
@click.option("--bearer-env", metavar="VAR", help="The environment variable that holds the token.")
@click.option(
    "--transport", type=click.Choice(["auto", "stdio", "http", "sse"]), help="Detected if left out."
)
@click.option("--timeout", type=SECONDS, metavar="SECONDS", help="Time limit of one attempt.")
@click.option("--description", help="What the source is for.")
@click.option("--include", multiple=True, metavar="REGEX", help="Only tools whose names match. Repeatable.")
@click.option("--exclude", multiple=True, metavar="REGEX", help="No tools whose names match. Repeatable.")
@click.option(
    "--input",
    "inputs",
    multiple=True,
    metavar="KEY=VALUE",
    help="A value that a server of the MCP registry asks for. Repeatable.",
)
@click.option(
    "--as", "package", type=click.Choice(PACKAGES), help="Which package of a server of the MCP registry."
)
@REGISTRY
@click.option("--pin", is_flag=True, help="Hold changed definitions back until they are accepted.")
@click.option("--replace", is_flag=True, help="Replace a source of that name.")
@click.option("--user", is_flag=True, help="For all your workspaces, in your own spindle.toml.")
@click.option("--yes", is_flag=True, help="Ask nothing.")
@click.option("--no-sync", is_flag=True, help="Do not ask the source for its tools yet.")
@click.pass_context
def add(
    ctx: click.Context,
    cli: CliContext,
    words: tuple[str, ...],
    openapi: bool,
    as_api: bool,
    utcp: bool,
    list_presets: bool,
    as_program: bool,
    arguments: tuple[str, ...],
    env: tuple[str, ...],
    header: tuple[str, ...],
    bearer_env: str | None,
    inputs: tuple[str, ...],
    package: str | None,
    named: str | None,
    replace: bool,
    user: bool,
    yes: bool,
    no_sync: bool,
    **settings: Any,
) -> int:
    """Add a source and ask it for its tools.

    \b
    spindle add files -- npx -y @modelcontextprotocol/server-filesystem .
    spindle add work https://example.com/mcp --bearer-env WORK_TOKEN
    spindle add shop https://example.com/openapi.json
    spindle add shop https://example.com/v1 --http   (finds its document, or makes one tool)
    spindle add weather https://example.com/utcp
    spindle add filesystem -- /data         (a preset and its argument)
    spindle add git --cli git log status    (a draft from the program's --help)
    spindle add --presets                   (lists the presets)
    spindle add io.github.owner/name@1.2.3  (a server of the MCP registry)
    """
    from spindle.cli.files import check_source, file_to_edit
    from spindle.settings.edit import add_source

    if list_presets:
        _print_presets(cli)
        return 0
    after = ctx.meta.get(AFTER_DASHES)
    _check_flags({"--openapi": openapi, "--utcp": utcp, "--http": as_api, "--cli": as_program}, words)
    looked = None if as_program or as_api else document_in(words, openapi=openapi, utcp=utcp)
    kind, document = looked or ("", None)
    registered = None
    if not after and 1 <= len(words) <= 2 and is_server(words[0]):
        from spindle.cli.registry_add import Wish, choose_server

        wish = Wish(
            words[0], words[1] if len(words) > 1 else None, package, named, inputs, yes, replace, user
        )
        registered = choose_server(cli, wish, file_to_edit(cli, user=user))
        chosen, document = _Chosen(registered.name, drafted=registered.table), None
    elif document:
        chosen = _Chosen(words[0], document=document, kind=kind)
    elif as_api:
        chosen = _Chosen(words[0], url=words[1], kind="http")
    elif as_program:
        chosen = _draft(cli, words, after)
    else:
        chosen = _choose(words, after, arguments)
    variables, headers = _pairs("--env", env), _pairs("--header", header)
    table = _table(chosen, variables, headers, bearer_env, settings)
    _check_name(chosen.name)
    file = file_to_edit(cli, user=user)
    if document is not None:
        table["document"] = document_setting(document, file.parent, user=user)
    check_source(chosen.name, table, file)
    is_new = not file.exists()

    add_source(file, chosen.name, table, replace=replace)
    if registered is not None:
        registered.seal(cli)
    if is_new and not user:
        cli.output.note(f"created {file}: this folder is a workspace now")
    for key, value in (*variables.items(), *headers.items()):
        note = clear_secret_note(key, value, file)
        if note:
            cli.output.note(note)
    if chosen.preset is not None and (advice := chosen.preset.advice()):
        cli.output.note(advice)
    return _finish(cli, chosen, file, sync=not no_sync)


@dataclass(frozen=True, slots=True)
class _Chosen:
    """The meaning of the words on the command line: a preset, a command, a URL or a document."""

    name: str
    preset: Preset | None = None
    arguments: Sequence[str] = ()
    program: Sequence[str] = ()
    url: str | None = None
    kind: str | None = None
    """The kind of the document, or of the URL if that is not an MCP server."""
    drafted: dict[str, Any] | None = None
    document: str | None = None


def _check_flags(flags: dict[str, bool], words: Sequence[str]) -> None:
    from spindle.cli.errors import UsageMistakeError

    given = [flag for flag, is_given in flags.items() if is_given]
    if len(given) > 1:
        raise UsageMistakeError(f"{' and '.join(given)} do not go together")
    if given == ["--http"] and (len(words) != 2 or "://" not in words[1]):
        raise UsageMistakeError(
            "give a name and the URL where the API begins", "spindle add NAME https://example.com/v1 --http"
        )


def _choose(words: Sequence[str], after: Sequence[str] | None, arguments: Sequence[str]) -> _Chosen:
    from shutil import which

    from spindle.cli.errors import UsageMistakeError
    from spindle.cli.presets import presets

    if not words:
        raise UsageMistakeError("say what to add", "see `spindle add --help`, or `spindle add --presets`")
    first, *rest = words
    url = next((word for word in rest if "://" in word), None)
    preset = presets().get(first)
    if url is not None:
        if len(rest) > 1 or after:
            raise UsageMistakeError("give a name and a URL, and nothing else", f"spindle add {first} {url}")
        return _Chosen(first, url=url)
    # A preset's arguments and a command both follow `--`: if it can be run, it is a command.
    if after and (preset is None or (not rest and not arguments and which(after[0]))):
        if rest:
            raise UsageMistakeError(
                f"{rest[0]!r} is one word too many before `--`", "spindle add NAME -- COMMAND…"
            )
        return _Chosen(first, program=after)
    if preset is None:
        raise _not_a_preset(first, rest)
    if len(rest) > 1:
        raise UsageMistakeError(
            f"{rest[1]!r} is one word too many", f"a preset's arguments follow `--`: spindle add {first} -- …"
        )
    return _Chosen(rest[0] if rest else first, preset=preset, arguments=[*arguments, *(after or ())])


def _draft(cli: CliContext, words: Sequence[str], after: Sequence[str] | None) -> _Chosen:
    import shlex

    from spindle.cli.errors import UsageMistakeError
    from spindle.cli.program_help.draft import draft

    if len(words) < 2 and not (words and after):
        raise UsageMistakeError("name the program", "spindle add NAME --cli PROGRAM [SUBCOMMAND…]")
    name, *rest = words
    # A program of several words must be quoted, or follow `--`.
    program, wanted = (after, rest) if after else (shlex.split(rest[0]), rest[1:])
    cli.output.status(f"reading the help of {' '.join(program)} …")
    table, notes = cli.run(draft(name, program, wanted, Path.cwd()))
    for note in notes:
        cli.output.note(note)
    cli.output.note(
        "this is a draft made from a help text: review its commands, and say which are `read_only`"
    )
    return _Chosen(name, drafted=table)


def _not_a_preset(first: str, rest: Sequence[str]) -> SpindleError:
    from spindle.cli.errors import UsageMistakeError
    from spindle.cli.presets import presets
    from spindle.errors import NotFoundError, suggest

    if "://" in first:
        return UsageMistakeError("a source needs a name", f"spindle add NAME {first}")
    meant = suggest(first, presets())
    if rest and not meant:
        command = " ".join(rest)
        return UsageMistakeError(
            f"{rest[0]!r} is not a URL, and {first!r} is not a preset",
            f"to start a program, put `--` before it: spindle add {first} -- {command}",
        )
    hint = f"did you mean {meant!r}?" if meant else "`spindle add --presets` lists them"
    return NotFoundError(f"there is no preset {first!r}", hint=hint)


def _table(
    chosen: _Chosen,
    variables: dict[str, str],
    headers: dict[str, str],
    bearer_env: str | None,
    settings: dict[str, Any],
) -> dict[str, Any]:
    from spindle.cli.errors import UsageMistakeError

    if chosen.url is None and chosen.document is None and (headers or bearer_env):
        raise UsageMistakeError(
            f"{'--header' if headers else '--bearer-env'} goes with a URL, not with a program"
        )
    table: dict[str, Any]
    if chosen.drafted is not None:
        table = chosen.drafted
    elif chosen.preset is not None:
        table = chosen.preset.table(chosen.arguments)
    elif chosen.document is not None:
        table = {"kind": chosen.kind, "document": chosen.document}
    elif chosen.url is not None:
        table = {"kind": chosen.kind, "url": chosen.url} if chosen.kind else {"url": chosen.url}
    else:
        table = {"command": list(chosen.program)}
    if variables:
        table["env"] = {**table.get("env", {}), **variables}
    if headers:
        table["headers"] = headers
    if bearer_env:
        table["auth"] = {"type": "bearer", "token": f"${{{bearer_env}}}"}
    if settings.pop("pin"):
        table["pinned"] = True
    for key, value in settings.items():
        if value:
            table[key] = list(cast("tuple[str, ...]", value)) if isinstance(value, tuple) else value
    # Plain values first: a key after a table such as `env` would belong to that table.
    return dict(sorted(table.items(), key=lambda item: isinstance(item[1], dict)))


def _pairs(option: str, words: Sequence[str]) -> dict[str, str]:
    from spindle.cli.errors import UsageMistakeError

    pairs: dict[str, str] = {}
    for word in words:
        key, equals, value = word.partition("=")
        if not equals and option == "--header":
            key, equals, value = word.partition(":")
        if not equals or not key.strip():
            raise UsageMistakeError(f"{option} {word!r} is not of the form KEY=VALUE")
        pairs[key.strip()] = value.strip() if option == "--header" else value
    return pairs


def _check_name(name: str) -> None:
    from spindle.errors import ConfigurationError
    from spindle.settings import FOLDERS

    if name in FOLDERS:
        raise ConfigurationError(f"{name!r} is the name of the workspace's own {name}", hint="choose another")


def _finish(cli: CliContext, chosen: _Chosen, file: Path, *, sync: bool) -> int:
    name = chosen.name
    if not sync:
        if cli.output.as_json:
            cli.output.json({"source": name, "file": str(file), "sync": None})
        else:
            cli.output.line(f"added {name} to {file}")
        return 0
    if not cli.output.as_json:
        cli.output.line(f"added {name} to {file}")
    return cli.run(_first_sync(cli, chosen, file))


async def _first_sync(cli: CliContext, chosen: _Chosen, file: Path) -> int:
    from spindle.cli.errors import exit_code
    from spindle.cli.sync import print_report

    name = chosen.name
    cli.output.status(f"asking {name} for its tools …")
    try:
        async with cli.open() as app:
            report = (await app.sync(name))[0]
            wants_oauth = await _wants_oauth(app, name, report)
    except SpindleError:
        cli.output.note(f"{name} was added to {file} anyway")
        raise
    if cli.output.as_json:
        cli.output.json({"source": name, "file": str(file), "sync": report.to_dict()})
    else:
        print_report(cli, report)
    if report.error is None:
        return 0
    if wants_oauth:
        from spindle.cli.auth.login import write_oauth

        write_oauth(cli, name, file)
        cli.output.note(f"now run `spindle auth login {name}`, which also fetches its tools")
        return exit_code("consent")
    cli.output.note(f"{name} stays in {file}; after fixing it run `spindle sync {name}`")
    if chosen.url and not chosen.kind and report.error["category"] in ("server", "client", "not_found"):
        again = f"spindle add {name} {chosen.url} --http --replace"
        cli.output.note(f"it was taken for an MCP server; if it is another HTTP API: {again}")
    return exit_code(report.error["category"])


async def _wants_oauth(app: Spindle, name: str, report: SyncReport) -> bool:
    if report.error is None or report.error.get("status") != 401:
        return False
    if app.catalog.sources.config(name).auth is not None:
        return False
    try:
        return await app.auth.wants_oauth(name)
    except SpindleError:
        return False  # the sync's own message is enough


def _print_presets(cli: CliContext) -> None:
    from spindle.cli.presets import presets

    found = presets().values()
    if cli.output.as_json:
        keys = ("name", "description", "registry", "package")
        cli.output.json(
            [{key: getattr(item, key) for key in keys} | {"needs": item.needs()} for item in found]
        )
        return
    rows = [(item.name, item.needs() or "-", item.description) for item in found]
    cli.output.table(("PRESET", "NEEDS", "WHAT IT DOES"), rows)
