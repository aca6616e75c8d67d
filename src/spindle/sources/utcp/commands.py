"""Command lines of cli templates, read into words without a shell.

UTCP hands them to bash. We read what bash would take for words (quotes, escapes, placeholders, variables) and
refuse what only a shell can do. A placeholder or a variable is always part of one word, whatever is in it.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field

_ARGUMENT = re.compile(r"UTCP_ARG_([A-Za-z0-9_]{1,200}?)_UTCP_END")
_VARIABLE = re.compile(r"\$\{([A-Za-z_][A-Za-z0-9_]*)\}|\$([A-Za-z_][A-Za-z0-9_]*)")
_OUTPUT = re.compile(r"CMD_([0-9]{1,4})_OUTPUT")
_OPERATORS = {
    "|": "a pipe", "&": "&", ";": "several commands in one", "<": "input from a file",
    ">": "output to a file", "`": "backticks", "(": "a subshell", ")": "a subshell", "\n": "several lines",
}  # fmt: skip
_BUILT_IN = frozenset(
    {"export", "source", ".", "eval", "exec", "set", "unset", "alias", "read", "trap", "ulimit", "umask",
     "wait", "if", "for", "while", "until", "case", "function", "{", "!", "[[", "local", "declare", "shift",
     "exit", "return", "pushd", "popd"}
)  # fmt: skip
MAX_COMMAND = 10_000
_ASSIGNMENT = re.compile(r"[A-Za-z_][A-Za-z0-9_]*=")
_BRACES = re.compile(r"\{[^{}]*(?:,|\.\.)[^{}]*\}")
# An option whose name ends before what is filled in: that can only be its value.
_OPTION = re.compile(r"-[^-]|--[^=]+=")


class NeedsShellError(ValueError):
    """The command cannot be run without a shell; says why."""


@dataclass(frozen=True, slots=True)
class ArgumentPiece:
    """A part of a word that an argument fills."""

    name: str


@dataclass(frozen=True, slots=True)
class Variable:
    """A part of a word that a variable of the shell fills."""

    name: str

    @property
    def output_of(self) -> int | None:
        """Returns the number of the command whose output it stands for."""
        match = _OUTPUT.fullmatch(self.name)
        return int(match[1]) if match else None


Piece = str | ArgumentPiece | Variable


@dataclass(slots=True)
class CommandWord:
    """One word of a command, in parts."""

    pieces: list[Piece] = field(default_factory=list[Piece])

    @property
    def literal(self) -> str | None:
        """Returns the word, where nothing is filled in."""
        return "".join(str(piece) for piece in self.pieces) if self.is_literal else None

    @property
    def is_literal(self) -> bool:
        return all(isinstance(piece, str) for piece in self.pieces)

    @property
    def start(self) -> str:
        """Returns the text before the first thing that is filled in."""
        fixed: list[str] = []
        for piece in self.pieces:
            if not isinstance(piece, str):
                break
            fixed.append(piece)
        return "".join(fixed)


def words_of(command: str) -> list[CommandWord]:
    """Returns the words of a command; raises NeedsShellError."""
    if len(command) > MAX_COMMAND:
        raise NeedsShellError(f"the command has more than {MAX_COMMAND} characters")
    found = _Reader(command).words()
    if not found:
        raise NeedsShellError("the command is empty")
    first = found[0].literal
    if first is None:
        raise NeedsShellError("an argument or a variable would choose the program")
    if first in _BUILT_IN:
        raise NeedsShellError(f"{first!r} is a part of a shell, not a program")
    if _ASSIGNMENT.match(first):
        raise NeedsShellError(f"{first!r} sets a variable; `env_vars` does that")
    if first == "cd" and len(found) != 2:
        raise NeedsShellError("`cd` needs one folder")
    for word in found[1:]:
        if not word.is_literal and word.start.startswith("-") and not _OPTION.match(word.start):
            raise NeedsShellError(f"what is filled in after {word.start!r} would choose an option")
    return found


def check_steps(commands: Sequence[str]) -> None:
    """Raises NeedsShellError for the first command that cannot be run."""
    for number, command in enumerate(commands):
        for word in words_of(command):
            for piece in word.pieces:
                output_of = piece.output_of if isinstance(piece, Variable) else None
                if output_of is not None and output_of >= number:
                    raise NeedsShellError(f"the output of command {output_of} is used before it has run")


class _Reader:
    def __init__(self, command: str) -> None:
        self._text = command
        self._at = 0
        self._words: list[CommandWord] = []
        self._word: CommandWord | None = None
        self._plain = ""
        """The characters outside quotes and escapes: only those can be special."""

    def words(self) -> list[CommandWord]:
        text = self._text
        while self._at < len(text):
            char = text[self._at]
            if char == "'":
                self._single()
            elif char == '"':
                self._double()
            elif char == "\\":
                self._escape()
            elif char in " \t" or (char == "\n" and not text[self._at :].strip()):
                self._end()
                self._at += 1
            elif not self._place():
                self._ordinary(char)
        self._end()
        return self._words

    def _add(self, piece: Piece) -> None:
        if self._word is None:
            self._word = CommandWord()
            self._words.append(self._word)
        if piece != "":
            self._word.pieces.append(piece)

    def _end(self) -> None:
        plain = self._plain
        if self._word is not None and plain:
            if plain.startswith("~"):
                raise NeedsShellError("`~` is replaced by a shell")
            # In a bare URL a question mark is no pattern.
            if "*" in plain or ("?" in plain and "://" not in plain) or re.search(r"\[.*\]", plain):
                raise NeedsShellError(f"{plain!r} is a pattern for names of files")
            if _BRACES.search(plain):
                raise NeedsShellError(f"{plain!r} is expanded by a shell")
        self._word, self._plain = None, ""

    def _ordinary(self, char: str) -> None:
        if char in _OPERATORS:
            raise NeedsShellError(f"it uses {_OPERATORS[char]} ({char.strip() or 'a line break'})")
        if char == "#" and self._word is None:
            raise NeedsShellError("it holds a comment")
        self._add(char)
        self._plain += char
        self._at += 1

    def _escape(self) -> None:
        if self._at + 1 >= len(self._text):
            raise NeedsShellError("it ends in a backslash")
        following = self._text[self._at + 1]
        if following != "\n":
            self._add(following)
        self._at += 2

    def _single(self) -> None:
        end = self._text.find("'", self._at + 1)
        if end < 0:
            raise NeedsShellError("a quote is not closed")
        inside, start = self._text[self._at + 1 : end], 0
        self._add("")
        for match in _ARGUMENT.finditer(inside):
            self._add(inside[start : match.start()])
            self._add(ArgumentPiece(match[1]))
            start = match.end()
        self._add(inside[start:])
        self._at = end + 1

    def _double(self) -> None:
        self._add("")
        self._at += 1
        text = self._text
        while self._at < len(text):
            char = text[self._at]
            if char == '"':
                self._at += 1
                return
            if char == "\\" and text[self._at + 1 : self._at + 2] in ('"', "\\", "$", "`", "\n"):
                self._escape()
            elif char == "`":
                raise NeedsShellError("it uses backticks (`)")
            elif not self._place():
                self._add(char)
                self._at += 1
        raise NeedsShellError("a quote is not closed")

    def _place(self) -> bool:
        """Take a placeholder or a variable, if there is one here."""
        argument = _ARGUMENT.match(self._text, self._at)
        if argument is not None:
            self._add(ArgumentPiece(argument[1]))
            self._at = argument.end()
            return True
        if self._text[self._at] != "$":
            return False
        variable = _VARIABLE.match(self._text, self._at)
        if variable is not None:
            self._add(Variable(variable[1] or variable[2]))
            self._at = variable.end()
            return True
        following = self._text[self._at + 1 : self._at + 2]
        if following and following in "({[$?!#@*-'\"0123456789":
            raise NeedsShellError(f"`${following}` is expanded by a shell")
        return False
