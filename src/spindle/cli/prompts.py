"""`spindle prompts` and `spindle prompt`: the prompts of MCP servers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import click

from spindle.cli.completion import complete_source
from spindle.cli.context import CliContext, command
from spindle.cli.resources import whose
from spindle.cli.tape_options import tape_options

if TYPE_CHECKING:
    from spindle.domain.resource import SourcePrompt


@command("prompts")
@tape_options
@click.argument("source", required=False, shell_complete=complete_source)
async def prompts(cli: CliContext, source: str | None) -> None:
    """List the prompts of MCP servers: texts for a language model that they keep ready.

    Arguments in [brackets] may be left out. All servers are started or reached for this, or only SOURCE.
    """
    async with cli.open() as app:
        cli.output.status(f"asking {source or 'the servers'} …")
        found = await app.prompts(source)
    if cli.output.as_json:
        cli.output.json([item.to_dict() for item in found])
    elif not found:
        cli.output.note(f"{source or 'no source'} has {'no' if source else 'any'} prompts")
    else:
        rows = [(item.name, _arguments(item), item.description or item.title or "") for item in found]
        cli.output.table(("PROMPT", "ARGUMENTS", "WHAT IT IS FOR"), rows, drop=("ARGUMENTS",))


def _arguments(prompt: SourcePrompt) -> str:
    return " ".join(item.name if item.required else f"[{item.name}]" for item in prompt.arguments)


@command("prompt")
@tape_options
@click.argument("name")
@click.option("--arg", "given", multiple=True, metavar="NAME=VALUE", help="An argument; repeat it for more.")
@whose("the prompt")
async def prompt(cli: CliContext, name: str, given: Sequence[str], source: str | None) -> None:
    """Fill in a prompt of an MCP server and print it, to be piped into a language model.

    One message is printed as its text alone; of several, each begins with who says it. `--json` has all
    of it, also pictures.
    """
    from spindle.cli.results import in_words

    arguments = _parsed(given)
    async with cli.open() as app:
        cli.output.status(f"asking for {name} …")
        filled = await app.prompt(name, arguments, source=source)
    if cli.output.as_json:
        cli.output.json(filled.to_dict())
        return
    for message in filled.messages:
        if len(filled.messages) > 1:
            cli.output.line(f"{message.role}:")
        block = message.content
        cli.output.line(block.text.removesuffix("\n") if block.text is not None else in_words(block))


def _parsed(given: Sequence[str]) -> dict[str, str]:
    from spindle.cli.errors import UsageMistakeError

    found: dict[str, str] = {}
    for item in given:
        name, equals, value = item.partition("=")
        if not equals or not name:
            raise UsageMistakeError(f"--arg {item!r} is not NAME=VALUE", "such as `--arg language=Python`")
        if name in found:
            raise UsageMistakeError(f"--arg {name} is given twice")
        found[name] = value
    return found
