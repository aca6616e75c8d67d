"""`spindle check`: checks flows without running them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import click

from spindle.cli.completion import complete_flow
from spindle.cli.context import CliContext, command

if TYPE_CHECKING:
    from spindle.app import Spindle
    from spindle.flows.problems import Problem


@command("check")
@click.argument("flows", nargs=-1, metavar="[FLOW]…", shell_complete=complete_flow)
def check(cli: CliContext, flows: tuple[str, ...]) -> int:
    """Check flows without running them: names, files, lines of tools, or all saved ones.

    Each problem is shown with its file and line. Exits with 12 if there is an error; warnings do not count.
    """
    return cli.run(_check(cli, flows))


async def _check(cli: CliContext, flows: Sequence[str]) -> int:
    async with cli.open() as app:
        checked = 0
        problems: list[Problem] = []
        for text in flows:
            checked += 1
            problems += await problems_of(app, text)
        if not flows:
            for path in app.flows.library.files():
                checked += 1
                problems += await problems_of(app, str(path))
    errors = sum(problem.severity == "error" for problem in problems)
    if cli.output.as_json:
        cli.output.json({"ok": not errors, "problems": [problem.to_dict() for problem in problems]})
    else:
        print_problems(cli, problems)
        if not checked:
            cli.output.note("there are no saved flows yet")
        elif not problems:
            cli.output.line("no problems found" if checked == 1 else f"no problems found in {checked} flows")
    return 12 if errors else 0


async def problems_of(app: Spindle, text: str) -> list[Problem]:
    """Returns all problems of one flow. Raises NotFoundError for an unknown name."""
    from pathlib import Path

    from spindle.domain.identity import LOCAL
    from spindle.flows.check.check import check as examine
    from spindle.flows.problems import BrokenFlowError
    from spindle.flows.text.files import FORMATS, Loaded

    try:
        is_file = Path(text).suffix.lower() in FORMATS
        found = app.flows.library.load(Path(text)) if is_file else await app.flows.find(text, LOCAL)
    except BrokenFlowError as error:
        return list(error.problems)
    assert isinstance(found, Loaded)
    return await examine(found.definition, app.show, found.positions, found.place)


def print_problems(cli: CliContext, problems: Sequence[Problem]) -> None:
    """Prints problems with their places and hints."""
    for problem in problems:
        colour = "red" if problem.severity == "error" else "yellow"
        where = f"{problem.where}: " if problem.where else ""
        cli.output.painted_line(f"{problem.severity}:", colour, f"{where}{problem.message}")
        if problem.hint:
            cli.output.line(f"    hint: {problem.hint}")
