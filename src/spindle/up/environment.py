"""The environments of two shells, and what they differ in.

Settings, programs, libraries and a workspace's own Python code read variables, and a process has one set of
them. So a command whose environment differs from the server's is not the server's to do. Left out is what
every terminal has of its own and no tool should go by.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from fnmatch import fnmatchcase

OF_A_TERMINAL = (
    "_", "PWD", "OLDPWD", "SHLVL", "COLUMNS", "LINES", "TERM", "TERM_*", "TERMINFO*", "COLORTERM",
    "NO_COLOR", "FORCE_COLOR", "CLICOLOR*", "LC_TERMINAL*", "WINDOWID", "WINDOW", "STY", "TTY", "TMUX*",
    "GPG_TTY", "SSH_TTY", "SSH_CLIENT", "SSH_CONNECTION", "XDG_SESSION_ID", "XDG_VTNR", "VTE_VERSION",
    "KITTY_*", "WEZTERM_*", "ITERM_*", "KONSOLE_*", "ALACRITTY_*", "GHOSTTY_*", "GNOME_TERMINAL_*",
    "TILIX_ID", "VSCODE_*", "PS[0-9]", "PROMPT_*", "HIST*", "INVOCATION_ID", "JOURNAL_STREAM",
)  # fmt: skip
OF_A_COMMAND = ("SPINDLE_DEBUG", "SPINDLE_WORKSPACE")
"""Read for each command from its own environment."""


def differing(own: Mapping[str, str], theirs: Mapping[str, str], ignored: Sequence[str] = ()) -> list[str]:
    """The names of the variables whose values differ, or that only one of both has."""
    patterns = (*OF_A_TERMINAL, *OF_A_COMMAND, *ignored)
    names = {name for name in own.keys() | theirs.keys() if own.get(name) != theirs.get(name)}
    return sorted(name for name in names if not any(fnmatchcase(name, pattern) for pattern in patterns))
