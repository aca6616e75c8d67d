"""A group of commands that loads a command's module only when that command runs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem

# Heading -> command -> (module in this package, attribute, help in one line).
Sections = Mapping[str, Mapping[str, tuple[str, str, str]]]


class LazyGroup(click.Group):
    """A group that knows its commands by name and loads one when it is asked for."""

    def __init__(self, *args: Any, sections: Sections, **rest: Any) -> None:
        super().__init__(*args, **rest)
        self._sections = sections
        self._table = {name: entry for section in sections.values() for name, entry in section.items()}

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(self._table)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        entry = self._table.get(cmd_name)
        if entry is None:
            return None
        from importlib import import_module

        return getattr(import_module(f"spindle.cli.{entry[0]}"), entry[1])

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        if not args and not self.invoke_without_command:
            args = ["--help"]
        return super().parse_args(ctx, args)

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        name = args[0]
        if name not in self._table and not ctx.resilient_parsing:
            from spindle.cli.errors import UsageMistakeError
            from spindle.errors import suggest

            meant = suggest(name, self._table)
            hint = f"did you mean `{ctx.command_path} {meant}`?" if meant else None
            raise UsageMistakeError(
                f"there is no command {name!r}", hint or f"see `{ctx.command_path} --help`"
            )
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        for title, commands in self._sections.items():
            with formatter.section(title):
                formatter.write_dl([(name, entry[2]) for name, entry in commands.items()])

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem]:
        from click.shell_completion import CompletionItem

        found = [
            CompletionItem(name, help=entry[2])
            for name, entry in self._table.items()
            if name.startswith(incomplete)
        ]
        return found + click.Command.shell_complete(self, ctx, incomplete)
