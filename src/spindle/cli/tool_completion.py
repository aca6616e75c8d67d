"""Completion of a tool's own flags and values, after `spindle call TOOL` and `spindle run FLOW`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click
from click.shell_completion import CompletionItem

from spindle.cli.completion import from_store
from spindle.cli.later_options import comes_first, options_of

if TYPE_CHECKING:
    from spindle.domain.json_schema import JsonObject, Parameter
    from spindle.ports.store import Store


class ToolCommand(click.Command):
    """A command whose first argument is a tool, or a flow, and is followed by flags of that."""

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem[Any]]:
        own = super().shell_complete(ctx, incomplete)
        if _subject(ctx) is None:
            return own
        options = options_of(self)
        own = [item for item in own if item.value not in options or not comes_first(options[item.value])]
        return [*complete_words(ctx, None, incomplete), *own]


def complete_words(
    ctx: click.Context, _param: click.Parameter | None, incomplete: str
) -> list[CompletionItem[Any]]:
    """The values of the parameter that the last word names, or the tool's flags."""
    from spindle.calls.flags import Flags

    subject = _subject(ctx)
    schema = _schema(ctx, subject) if subject else None
    if schema is None:
        return []
    flags = Flags("", schema)
    words: list[str] = list(ctx.params.get("words") or ())
    last = words[-1] if words else ""
    named = flags.find(last.removeprefix("--")) if last else None
    if named is not None and not incomplete.startswith("--") and not _is_switch(named, last):
        return [CompletionItem(value) for value in _values(named) if value.startswith(incomplete)]
    given = {item.name for word in words if (item := flags.find(_bare(flags, word))) is not None}
    found = [
        CompletionItem(flag, help=item.description.split("\n")[0] or item.label)
        for item in sorted(flags.known.values(), key=lambda item: not item.required)
        if item.name not in given or "array" in item.types
        for flag in _spellings(item)
        if flag.startswith(incomplete)
    ]
    return found if not incomplete or incomplete.startswith("-") else []


def _subject(ctx: click.Context) -> str | None:
    return ctx.params.get("tool") or ctx.params.get("flow")


def _schema(ctx: click.Context, name: str) -> JsonObject | None:
    async def ask(store: Store) -> list[Any]:
        tool = await store.tool(name)
        if tool is None:
            ending = await store.names_ending_in(name)
            tool = await store.tool(ending[0]) if len(ending) == 1 else None
        return [tool.input_schema] if tool is not None else []

    return next(iter(from_store(ctx, ask)), None)


def _bare(flags: Any, word: str) -> str:
    return flags.split(word.removeprefix("--"))[0].removesuffix(":")


def _is_switch(item: Parameter, word: str) -> bool:
    """True for `--flag` of a boolean, which needs no value."""
    return word.startswith("--") and "boolean" in item.types and not item.choices


def _values(item: Parameter) -> list[str]:
    from spindle.domain.json_schema import as_word

    if item.choices:
        return list(map(as_word, item.choices))
    return ["true", "false"] if "boolean" in item.types else []


def _spellings(item: Parameter) -> list[str]:
    is_on = "boolean" in item.types and item.schema.get("default") is True
    return [f"--no-{item.name}" if is_on else f"--{item.name}"]
