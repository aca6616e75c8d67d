"""Shows the result of a tool: text as it is, pictures where the terminal can, else where their files are."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from spindle.cli.errors import show_failure
from spindle.cli.output import size

if TYPE_CHECKING:
    from spindle.app import Spindle
    from spindle.cli.context import CliContext
    from spindle.domain.call import Block, Result
    from spindle.domain.json_schema import JsonObject


async def show_result(
    cli: CliContext,
    app: Spindle,
    result: Result,
    *,
    save: Path | None = None,
    name: str = "result",
    extra: JsonObject | None = None,
) -> None:
    """Prints a result whose binary content is in files: in the folder `save`, under `name` where it has no
    name of its own, or in the workspace. `extra` is added to the JSON."""
    if save is not None:
        from spindle.cli.saving import save_content

        result = save_content(result, save, name)
    elif cli.once is not None:
        from spindle.calls.content import inlined

        result = await inlined(result)  # its files are gone when we are
    elif not cli.output.as_json:
        from spindle.calls.content import keep_large_content

        result = await keep_large_content(result, app.files, cli.output.note, over=0)
    advice = "--save DIR keeps it" if cli.once is not None else None
    print_result(cli, result, extra, advice)


def print_result(
    cli: CliContext, result: Result, extra: JsonObject | None = None, advice: str | None = None
) -> None:
    """Prints the result of a tool. `advice` stands in place of the path of content that is in no file."""
    output, failure = cli.output, result.failure
    if output.as_json:
        place = {} if failure is None else {"failure": failure.to_dict()}
        output.json({**result.to_dict(), **place, **(extra or {})})
        if result.is_error:
            output.aside(f"spindle: the tool reported an error: {result.text}")
        return
    if result.is_error:
        output.aside(result.text or "the tool reported an error without a message")
        if failure is not None:
            show_failure(cli, failure)
        return
    for block in result.content:
        if block.text is not None and block.path is None:
            output.line(block.text.removesuffix("\n"))
        else:
            _print_binary(cli, block, advice)
    if result.has_structured and not any(block.text for block in result.content):
        output.json(result.structured)


def _print_binary(cli: CliContext, block: Block, advice: str | None) -> None:
    """Shows the picture, if the terminal can, and says what it is and where."""
    if block.type == "image" and cli.output.is_terminal:
        from spindle.cli.pictures import drawn

        picture = drawn(block, cli.output.width, cli.output.environ)
        if picture is not None:
            cli.output.picture(picture)
    cli.output.line(in_words(block, advice))


def in_words(block: Block, advice: str | None = None) -> str:
    """Describes content that a terminal cannot show, in one line. `advice` is for content in no file."""
    count = block.size if block.size is not None else len(block.data or "") * 3 // 4
    place = block.path or block.uri or (advice if block.data else None)
    parts = [block.type, block.name, block.mime_type, size(count) if count else None, place]
    return f"[{', '.join(part for part in parts if part)}]"
