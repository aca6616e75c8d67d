"""The shells that complete words of `spindle`, as click knows them, with two things put right.

A shell hands over `--flag=val` as one word or as three, and each wants it back its own way. And a value may
come from a server: one that a shell would read as more than text is quoted, and one with control characters
is left out.
"""

from __future__ import annotations

import shlex
from typing import Any

from click.shell_completion import (
    BashComplete,
    CompletionItem,
    FishComplete,
    ShellComplete,
    ZshComplete,
    add_completion_class,
)


class _WholeFlags(ShellComplete):
    """Completes the value in `--flag=val` and `name=val`."""

    def get_completions(self, args: list[str], incomplete: str) -> list[CompletionItem[Any]]:
        prefix = ""
        name, equals, value = incomplete.partition("=")
        if incomplete == "=":
            incomplete = ""
        elif args[-1:] == ["="]:
            args = args[:-1]
        elif equals and (name.startswith("--") or (name and "call" in args)):
            args, prefix, incomplete = [*args, name], f"{name}=", value
        found = super().get_completions(args, incomplete)
        return [self._with(prefix, item) for item in found if str(item.value).isprintable()]

    def _with(self, prefix: str, item: CompletionItem[Any]) -> CompletionItem[Any]:
        if item.type != "plain":
            return item
        help_ = " ".join(item.help.split()) if item.help else None
        return CompletionItem(prefix + self.quoted(str(item.value)), item.type, help_)

    def quoted(self, value: str) -> str:
        """The value as it is put on the command line; most shells quote it themselves."""
        return value


class _Bash(_WholeFlags, BashComplete):
    def quoted(self, value: str) -> str:
        return shlex.quote(value)


class _Zsh(_WholeFlags, ZshComplete):
    pass


class _Fish(_WholeFlags, FishComplete):
    pass


def know_shells() -> None:
    """Has click use these."""
    for shell in (_Bash, _Zsh, _Fish):
        add_completion_class(shell)
