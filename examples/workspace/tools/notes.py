"""A tool that changes something, reports progress, and knows who calls it."""

from pathlib import Path

from spindle import Context, tool

NOTES = Path(__file__).parent.parent / ".spindle" / "notes.txt"


@tool(tags=["notes"])
async def take_notes(lines: list[str], context: Context) -> dict[str, object]:
    """Write lines to the notebook of this workspace.

    Args:
        lines: What to write, a note each.
    """
    NOTES.parent.mkdir(exist_ok=True)
    with NOTES.open("a", encoding="utf-8") as notebook:
        for number, line in enumerate(lines, start=1):
            notebook.write(f"{context.principal.id}: {line}\n")
            context.progress(number, len(lines), line)
    return {"written": len(lines), "notebook": NOTES.name}
