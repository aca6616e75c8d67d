"""`spindle add`: adds a program, a URL, a document or a preset to spindle.toml as a source, and syncs it."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import click

from spindle.cli.completion import complete_preset
from spindle.cli.context import CliContext, command
from spindle.cli.documents import document_in, document_setting
from spindle.cli.options import SECONDS
from spindle.cli.registry import PACKAGES, REGISTRY, is_server
from spindle.cli.secrets import clear_secret_note

if TYPE_CHECKING:
    from spindle.cli.add_words import Addition

AFTER_DASHES = "spindle.after_dashes"
WORDS = "spindle.words"


class _AddCommand(click.Command):
    """Keeps the words after `--` separate, which click would mix with those before it."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        from spindle.cli.errors import UsageMistakeError

        if "--" in args:
            at = args.index("--")
            args, ctx.meta[AFTER_DASHES] = args[:at], args[at + 1 :]
        ctx.meta[WORDS] = [word for word in args if not word.startswith("-")]
        try:
            return super().parse_args(ctx, args)
        except click.NoSuchOption as error:
            raise UsageMistakeError(
                f"there is no option {error.option_name!r}",
                "put `--` before a server's command: spindle add NAME -- COMMAND…",
            ) from None

    def format_help_text(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Writes the help of the preset that the line names, or that of the command."""
        from spindle.presets import presets

        preset = next((presets()[word] for word in ctx.meta.get(WORDS, ()) if word in presets()), None)
        if preset is None:
            super().format_help_text(ctx, formatter)
            return
        formatter.write("\n" + "".join(f"  {line}\n" if line else "\n" for line in preset.help()))


@command("add", cls=_AddCommand)
@click.argument(
    "words",
    nargs=-1,
    metavar="NAME -- COMMAND… | NAME URL|FILE | PRESET [NAME]",
    shell_complete=complete_preset,
)
@click.option("--presets", "list_presets", is_flag=True, help="List the presets.")
@click.option(
    "--arg", "arguments", multiple=True, metavar="VALUE", help="An argument for a preset. Repeatable."
)
@click.option(
    "--env", multiple=True, metavar="KEY=VALUE", help="An environment variable of the program. Repeatable."
)
@click.option("--header", multiple=True, metavar="KEY=VALUE", help="A header of every request. Repeatable.")
@click.option("--bearer-env", metavar="VAR", help="The environment variable that holds the token of a URL.")
@click.option("--openapi", is_flag=True, help="The URL or file is an OpenAPI document.")
@click.option("--utcp", is_flag=True, help="The URL or file is a UTCP manual.")
@click.option("--http", "as_api", is_flag=True, help="The URL is where an HTTP API begins.")
@click.option("--cli", "as_program", is_flag=True, help="Draft tools from the --help of a program.")
@click.option("--all", "take_all", is_flag=True, help="With --cli: draft every subcommand.")
@click.option(
    "--transport", type=click.Choice(["auto", "stdio", "http", "sse"]), help="Detected if left out."
)
@click.option("--timeout", type=SECONDS, metavar="SECONDS", help="The time that one call may take.")
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
@click.option(
    "--pin/--no-pin",
    default=None,
    help="Hold changed definitions back until you accept them, or not. Asked on a terminal if left out.",
)
@click.option("--replace", is_flag=True, help="Replace the source that has this name.")
@click.option("--user", is_flag=True, help="Add it for all your workspaces, in your own spindle.toml.")
@click.option("--yes", is_flag=True, help="Ask nothing, and add it even if its program is not here.")
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
    take_all: bool,
    arguments: tuple[str, ...],
    env: tuple[str, ...],
    header: tuple[str, ...],
    bearer_env: str | None,
    inputs: tuple[str, ...],
    package: str | None,
    named: str | None,
    pin: bool | None,
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
    spindle add shop https://example.com/v1 --http
    spindle add weather https://example.com/utcp
    spindle add prices wss://example.com/feed
    spindle add filesystem --arg ~/documents
    spindle add git --cli git log status
    spindle add io.github.owner/name@1.2.3

    \b
    What follows `--` is always the command of an MCP server, as you type it.
    A URL is an MCP server, an OpenAPI document, a UTCP manual or, with ws:// or
    wss://, a WebSocket service. With --http it is where an HTTP API begins.
    A preset is a server that Spindle knows by name: `spindle add --presets` lists
    them, `spindle add PRESET --help` says what one needs.
    With --cli the tools are drafted from the program's own help.
    A name with a slash is a server of the MCP registry: see `spindle registry`.
    """
    from spindle.cli.add_words import Addition, addition, not_for_a_preset, pairs
    from spindle.cli.drafts import drafted, in_its_own_file
    from spindle.cli.errors import UsageMistakeError
    from spindle.cli.files import check_source, file_to_edit
    from spindle.cli.first_sync import finish
    from spindle.cli.pinning import argument_notes, is_pinned, pin_note
    from spindle.settings.edit import add_source

    if list_presets:
        _print_presets(cli)
        return 0
    after = ctx.meta.get(AFTER_DASHES)
    _check_flags({"--openapi": openapi, "--utcp": utcp, "--http": as_api, "--cli": as_program}, words)
    looked = None if as_program or as_api else document_in(words, openapi=openapi, utcp=utcp)
    kind, document = looked or ("", None)
    if after and (document or as_api):
        raise UsageMistakeError(
            "give a name and a URL or a file, and nothing else", "see `spindle add --help`"
        )
    registered = None
    if not after and 1 <= len(words) <= 2 and is_server(words[0]) and not Path(words[0]).exists():
        from spindle.cli.registry_add import Wish, choose_server

        wish = Wish(
            words[0], words[1] if len(words) > 1 else None, package, named, inputs, yes, replace, user
        )
        registered = choose_server(cli, wish, file_to_edit(cli, user=user))
        chosen, document = Addition(registered.name, given=registered.table), None
    elif inputs or package or named:
        flag = "--input" if inputs else "--as" if package else "--registry"
        raise UsageMistakeError(
            f"{flag} goes with a server of the MCP registry", "spindle add io.github.owner/name"
        )
    elif document:
        chosen = Addition(words[0], document=document, kind=kind)
    elif as_api:
        chosen = Addition(words[0], url=words[1], kind="http")
    elif as_program:
        chosen = drafted(cli, words, after, take_all=take_all)
    else:
        chosen = addition(words, after, arguments)
    if arguments and chosen.preset is None:
        raise not_for_a_preset(chosen)
    variables, headers = pairs("--env", env), pairs("--header", header)
    table = _table(chosen, variables, headers, bearer_env, settings)
    _check_name(chosen.name)
    file = file_to_edit(cli, user=user)
    if document is not None:
        table["document"] = document_setting(document, file.parent, user=user)
    check_source(chosen.name, table, file)
    if "command" in table and not yes and registered is None:
        from spindle.cli.missing_program import runnable

        advice = chosen.preset.advice() if chosen.preset else None
        table["command"] = runnable(cli, table["command"], table.get("env", {}), file.parent, advice)
    if pin is None and yes:
        pin = False  # asks nothing, and says nothing
    if is_pinned(cli, pin, table):
        table = {"pinned": True, **table}
    is_new = not file.exists()

    own_text = None
    if as_program:
        table, own_text = in_its_own_file(chosen.name, chosen.table(), table)
    add_source(file, chosen.name, table, replace=replace, own_text=own_text)
    if registered is not None:
        registered.seal(cli)
    if is_new and not user:
        cli.output.note(f"created {file}: this folder is a workspace now")
    for key, value in (*variables.items(), *headers.items()):
        note = clear_secret_note(key, value, file)
        if note:
            cli.output.note(note)
    for note in (chosen.note, *argument_notes(chosen.name, table, file), pin_note(chosen.name, pin, table)):
        if note:
            cli.output.note(note)
    return finish(cli, chosen.name, file, sync=not no_sync, url=None if chosen.kind else chosen.url)


def _check_flags(flags: dict[str, bool], words: Sequence[str]) -> None:
    from spindle.cli.errors import UsageMistakeError

    given = [flag for flag, is_given in flags.items() if is_given]
    if len(given) > 1:
        raise UsageMistakeError(f"{' and '.join(given)} do not go together")
    if given == ["--http"] and (len(words) != 2 or "://" not in words[1]):
        raise UsageMistakeError(
            "give a name and the URL where the API begins", "spindle add NAME https://example.com/v1 --http"
        )


def _table(
    chosen: Addition,
    variables: dict[str, str],
    headers: dict[str, str],
    bearer_env: str | None,
    settings: dict[str, Any],
) -> dict[str, Any]:
    from spindle.cli.errors import UsageMistakeError

    table = chosen.table()
    if (headers or bearer_env) and not table.keys() & {"url", "document"}:
        raise UsageMistakeError(
            f"{'--header' if headers else '--bearer-env'} goes with a URL, not with a program"
        )
    if variables:
        table["env"] = {**table.get("env", {}), **variables}
    if headers:
        table["headers"] = {**table.get("headers", {}), **headers}
    if bearer_env:
        table["auth"] = {"type": "bearer", "token": f"${{{bearer_env}}}"}
    for key, value in settings.items():
        if value:
            table[key] = list(cast("tuple[str, ...]", value)) if isinstance(value, tuple) else value
    # Plain values first: a key after a table such as `env` would belong to that table.
    return dict(sorted(table.items(), key=lambda item: isinstance(item[1], dict)))


def _check_name(name: str) -> None:
    from spindle.errors import ConfigurationError
    from spindle.settings import FOLDERS

    if name in FOLDERS:
        raise ConfigurationError(f"{name!r} is the name of the workspace's own {name}", hint="choose another")


def _print_presets(cli: CliContext) -> None:
    from spindle.presets import presets

    found = presets().values()
    if cli.output.as_json:
        keys = ("name", "description", "registry", "package", "version", "url")
        cli.output.json(
            [{key: getattr(item, key) for key in keys} | {"needs": item.needs()} for item in found]
        )
        return
    rows = [(item.name, item.needs() or "-", item.description) for item in found]
    cli.output.table(("PRESET", "NEEDS", "WHAT IT DOES"), rows, drop=("NEEDS",))
