"""`spindle pauses`: lists what waits for a person, or for something to happen."""

from __future__ import annotations

from spindle.cli.context import CliContext, command
from spindle.cli.output import when


@command("pauses")
async def pauses(cli: CliContext) -> None:
    """List what runs wait for, the oldest first: consent, approval, an answer, or a time, event or webhook.

    `spindle resume TOKEN` answers one and resumes its run.
    """
    async with cli.open() as app:
        found = await app.pauses()
    if cli.output.as_json:
        cli.output.json([pause.to_dict() for pause in found])
    elif not found:
        cli.output.note("nothing waits for a person")
    else:
        rows = [
            (
                pause.token,
                when(pause.created_at),
                pause.kind,
                pause.tool or pause.source or "",
                pause.principal.id,
                str(pause.details.get("url") or pause.message),
            )
            for pause in found
        ]
        headings = ("TOKEN", "SINCE", "KIND", "TOOL", "WHO", "WHAT IS WANTED")
        cli.output.table(headings, rows, drop=("WHO", "SINCE", "TOOL"))
