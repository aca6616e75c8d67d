"""`spindle add NAME --cli PROGRAM`: the subcommands are chosen, and the draft gets a file of its own."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from spindle.cli.add_words import Addition
    from spindle.cli.context import CliContext
    from spindle.cli.program_help.usage import Subcommand

SHOWN = 60
"""The subcommands that a message lists."""


def drafted(
    cli: CliContext, words: Sequence[str], after: Sequence[str] | None, *, take_all: bool
) -> Addition:
    """The source that is drafted from a program's help."""
    from spindle.cli.add_words import Addition
    from spindle.cli.errors import UsageMistakeError
    from spindle.cli.missing_program import is_there
    from spindle.cli.program_help.draft import draft
    from spindle.errors import NotFoundError

    if len(words) < 2 and not (words and after):
        raise UsageMistakeError("name the program", "spindle add NAME --cli PROGRAM [SUBCOMMAND…]")
    name, *rest = words
    # A program of several words must be quoted, or follow `--`.
    program, wanted = (after, rest) if after else (_words(rest[0]), rest[1:])

    if not is_there(program[0], {}, Path.cwd()):
        raise NotFoundError(f"{program[0]!r} was not found", hint="install it, or give its whole path")

    async def choose(known: Mapping[str, Subcommand]) -> Sequence[str]:
        return list(known) if take_all else await _chosen(cli, name, program, known)

    cli.output.status(f"reading the help of {' '.join(program)} …")
    table, notes = cli.run(draft(name, program, wanted, Path.cwd(), choose))
    for note in notes:
        cli.output.note(note)
    note = (
        f"this is a draft from a help text: read {own_file(name)} before you rely on it, "
        "and say there which commands are `read_only`"
    )
    return Addition(name, given=table, note=note)


def _words(program: str) -> list[str]:
    import shlex

    from spindle.cli.errors import UsageMistakeError

    try:
        words = shlex.split(program)
    except ValueError as error:
        raise UsageMistakeError(f"{program!r} cannot be split into words: {error}") from None
    if not words:
        raise UsageMistakeError("name the program", "spindle add NAME --cli PROGRAM [SUBCOMMAND…]")
    return words


def own_file(name: str) -> str:
    """The file of a drafted source, beside spindle.toml."""
    from spindle.settings.edit import OWN_FOLDER

    return f"{OWN_FOLDER}/{name}.toml"


def in_its_own_file(
    name: str, draft: Mapping[str, Any], table: Mapping[str, Any]
) -> tuple[dict[str, Any], str]:
    """The table of a drafted source in spindle.toml, and the text of the file that has the rest."""
    from spindle.cli.program_help.file import rendered

    beside = {key: value for key, value in table.items() if draft.get(key) != value}
    return {"file": own_file(name), **beside}, rendered(draft)


async def _chosen(
    cli: CliContext, name: str, program: Sequence[str], known: Mapping[str, Subcommand]
) -> Sequence[str]:
    from spindle.cli.errors import UsageMistakeError
    from spindle.errors import suggest

    shown = list(known)[:SHOWN]
    more = f" and {len(known) - SHOWN} more" if len(known) > SHOWN else ""
    words = " ".join(program)
    if not cli.can_ask:
        example = f"spindle add {name} --cli {words} {shown[0]}"
        raise UsageMistakeError(
            f"{words} has subcommands: {', '.join(shown)}{more}",
            f"name those that you want, such as `{example}`, or give --all",
        )
    width = max(len(word) for word in shown)
    for word in shown:
        cli.output.aside(f"  {word:{width}}  {known[word].about[:80]}".rstrip())
    if more:
        cli.output.aside(f"  {more.strip()}")
    while said := await cli.ask("which subcommands? (names, or * for all; Enter for none) "):
        if said == "*":
            return list(known)
        given = said.replace(",", " ").split()
        # A program may have more than its help lists.
        slips = [(word, meant) for word in given if word not in known and (meant := suggest(word, known))]
        if not slips:
            return given
        word, meant = slips[0]
        cli.output.aside(f"{word!r} is not among them; did you mean {meant!r}?")
    raise UsageMistakeError("no subcommand was chosen; nothing was added")
