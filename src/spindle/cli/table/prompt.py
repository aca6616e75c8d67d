"""`spindle table prompt`: a language model works with the tools in a file."""

from __future__ import annotations

import os
import re
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from spindle.cli.context import CliContext, command

if TYPE_CHECKING:
    from spindle.domain.identity import Credential
    from spindle.errors import SpindleError

NOT_DONE = 1


@command("prompt")
@click.argument("file", type=click.Path(path_type=Path))
@click.argument("message", metavar="MESSAGE|-")
@click.option("-m", "--model", metavar="PROVIDER:NAME", help="The language model.")
@click.option("--instructions", metavar="TEXT", help="Instructions for the model, besides the message.")
@click.option("--data", metavar="NAME=FILE", multiple=True, help="A table for tools. Repeatable.")
@click.option("--column", help="The column of tools, if there are several.")
@click.option(
    "--out", metavar="FILE", type=click.Path(path_type=Path), help="Write all messages to this file."
)
@click.option(
    "--data-out",
    metavar="FOLDER",
    type=click.Path(path_type=Path, file_okay=False),
    help="Write tables that tools make into this folder.",
)
@click.option(
    "--bearer-env",
    metavar="NAME=VAR",
    multiple=True,
    help="The variable that holds the token that rows ask for as NAME.",
)
@click.option("--max-steps", type=click.IntRange(min=1), help="Answers of the model before it must stop.")
@click.option(
    "--trust", is_flag=True, help="Trust the file: it may start programs, run flows and read files."
)
@click.option("-y", "--yes", is_flag=True, help="Allow destructive tools.")
def prompt(
    cli: CliContext,
    file: Path,
    message: str,
    model: str | None,
    instructions: str | None,
    data: tuple[str, ...],
    column: str | None,
    out: Path | None,
    data_out: Path | None,
    bearer_env: tuple[str, ...],
    max_steps: int | None,
    trust: bool,
    yes: bool,
) -> int:
    """Give a message to a language model that uses the tools in a FILE.

    Calls and results are shown on stderr, the answer on stdout. Tables given as --data are passed to tools by
    their names; the model sees their columns, never their rows. Flows run in the workspace that -w names, or
    with --trust in their own.
    """
    from spindle.cli.agent_view import View
    from spindle.cli.table.show import rows_in_file
    from spindle.errors import SpindleError
    from spindle.tables import prompt_async, write_table
    from spindle.tables.files import format_for
    from spindle.tables.prompt import ENDED_BY

    if out is not None:
        format_for(out)  # an unknown suffix is a mistake before the model is asked
    config = _config(cli, model)
    rows = rows_in_file(file, column)
    tables, credentials = _tables(data), _credentials(bearer_env)
    given = set(tables)
    view = View(cli.output, says_text=False)
    limits = config.limits.model_dump(exclude_none=True) | ({"steps": max_steps} if max_steps else {})
    try:
        said = cli.run(
            prompt_async(
                rows,
                sys.stdin.read() if message == "-" else message,
                data=tables,
                model=config.model,
                workspace=cli.workspace,
                trusted=trust,
                credentials=credentials,
                instructions=instructions or config.instructions,
                limits=limits,
                destructive=yes,
                on_event=view.hear,
                note=lambda text: cli.output.note(_words_of_the_shell(text)),
            )
        )
    except SpindleError as error:
        raise _in_the_shell(error) from None
    made = {name: table for name, table in tables.items() if name not in given}
    if data_out is not None and made:
        data_out.mkdir(parents=True, exist_ok=True)
        for name, table in made.items():
            write_table(table, data_out / f"{name}.parquet")
            cli.output.note(f"the table {name} is written to {data_out / f'{name}.parquet'}")
    elif made:
        cli.output.note(f"tables were made and not written: {', '.join(made)}; --data-out FOLDER writes them")
    if out is not None:
        write_table(said, out)
    messages: list[dict[str, Any]] = said.to_pylist()
    if cli.output.as_json:
        cli.output.json(messages)
    else:
        last = messages[-1]
        cli.output.line(last["content"] if last["role"] == "assistant" and last["content"] else "")
    return 0 if (said.schema.metadata or {}).get(ENDED_BY) == b"answer" else NOT_DONE


def _config(cli: CliContext, model: str | None) -> Any:
    from spindle.agents.models import check_name, require_library
    from spindle.errors import ConfigurationError

    config = cli.load().agent()
    config = config.model_copy(update={"model": model}) if model else config
    if config.model is None:
        raise ConfigurationError(
            "no model is chosen",
            hint="say `--model provider:name`, or set `model` in [agent] of spindle.toml",
        )
    require_library()
    check_name(config.model)
    return config


def _tables(given: tuple[str, ...]) -> dict[str, Any]:
    from spindle.tables import read_table

    return {name: read_table(file) for name, file in _pairs(given, "--data", "orders=orders.parquet")}


def _credentials(given: tuple[str, ...]) -> dict[str, Credential]:
    from spindle.errors import AuthError
    from spindle.http.credentials import bearer

    found: dict[str, Credential] = {}
    for name, variable in _pairs(given, "--bearer-env", "files=FILES_TOKEN"):
        token = os.environ.get(variable, "").strip()
        if not token:
            raise AuthError(f"the environment variable {variable} is not set, or is empty", hint="export it")
        found[name] = bearer(token)
    return found


def _pairs(given: tuple[str, ...], option: str, example: str) -> list[tuple[str, str]]:
    from spindle.cli.errors import UsageMistakeError

    pairs: list[tuple[str, str]] = []
    for text in given:
        name, equals, value = text.partition("=")
        if not (name and equals and value):
            raise UsageMistakeError(f"{option} {text!r} is not NAME=VALUE", f"such as {option} {example}")
        pairs.append((name, value))
    return pairs


def _words_of_the_shell(note: str) -> str:
    """A note with its hint as it applies in the shell."""
    note = note.replace("pass trusted=True", "pass --trust").replace("workspace=…", "-w PATH")
    return re.sub(r"credentials=\{'(.*)': …\}", r"--bearer-env \1=VARIABLE", note)


def _in_the_shell(error: SpindleError) -> SpindleError:
    """The error with its hint as it applies in the shell."""
    from spindle.errors import AuthError, PermissionDeniedError

    if isinstance(error, PermissionDeniedError) and "trusted" in (error.hint or ""):
        error.hint = "pass --trust if you know who made the file"
        if "runs a flow" in error.message:
            error.hint += ", or name the workspace whose flows it may run: -w PATH"
    elif isinstance(error, AuthError) and (error.hint or "").startswith("credentials="):
        error.hint = "name the variable that holds its token: --bearer-env NAME=VARIABLE"
    return error
