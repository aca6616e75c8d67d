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
async def check(cli: CliContext, flows: tuple[str, ...]) -> int:
    """Check flows without running them: names, files, lines of tools, or all saved ones.

    Each problem is shown with its file and line. Exits with 12 if there is an error; warnings do not count.
    """
    problems: list[Problem] = []
    async with cli.open() as app:
        texts = flows or [str(path) for path in app.flows.library.files()]
        for text in texts:
            problems += await problems_of(app, text)
    errors = sum(problem.severity == "error" for problem in problems)
    if cli.output.as_json:
        cli.output.json({"ok": not errors, "problems": [problem.to_dict() for problem in problems]})
    else:
        print_problems(cli, problems)
        if not texts:
            cli.output.note("there are no saved flows yet")
        elif not problems:
            many = f" in {len(texts)} flows" if len(texts) > 1 else ""
            cli.output.line(f"no problems found{many}")
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
