"""Reads positional words from a program's `--help`: its usage line and its subcommands."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple

from spindle.domain.json_schema import JsonObject

_USAGE = re.compile(r"(?i)^\s*usage:\s*(.*)$")
# `  name  what it does`, `  name WORDS  what it does` (systemd), `  name - what it does` (apt)
_ROW = re.compile(
    r"^\s{2,6}(?P<name>[a-z][a-z0-9_-]*)(?:, [a-z][\w-]*)*\*?(?P<words>(?: [\[<A-Z]\S*)*)"
    r"(?:\s{2,}|\t| - )(?P<about>\S.*)$"
)
_COMMANDS = re.compile(r"(?i)\b(sub)?commands?\b")
_HEADING = re.compile(r"(?im)^[\w ,&-]*\b(sub)?commands?\b[^:.\n]*:\s*$")
# Suffixes that are part of a word's value: NAME[:TAG], <DEP>[@<VERSION>]
_GLUED = re.compile(r"(?<=[>\w])\[[^\w\s\[\]-][^\[\]]*\]")
# The name of a word to fill in, and its suffixes.
_WORD = re.compile(r"<?([A-Za-z][\w-]*(?:(?: |/|:)[A-Za-z][\w-]*)*)>?(\]?\.\.\.|…)?")
# The word that ends options: `--`, `[--]`.
_DASHES = re.compile(r"\[--\]|(?<![^\s\[(])--(?![^\s\])])")
_COMMAND_WORDS = frozenset({"command", "subcommand", "commands", "cmd"})
_OPTION_WORDS = frozenset({"option", "options", "flag", "flags"})
_ARGUMENT_WORDS = frozenset({"arg", "args", "argument", "arguments"})


class Subcommand(NamedTuple):
    """A subcommand listed in a help text."""

    about: str
    words: str = ""
    """The positional words that the list names, if any."""


def is_usage(line: str) -> bool:
    """True for a usage line, also without the word: `systemctl [OPTIONS...] COMMAND ...`."""
    return bool(_USAGE.match(line) or re.match(r"\S+ \[OPTIONS?\b", line))


def usage(text: str) -> str:
    """The first form of the usage, in one line."""
    return next(iter(usages(text)), "")


def usages(text: str) -> list[str]:
    """The forms of the usage, each in one line."""
    lines = text.split("\n")
    for number, line in enumerate(lines):
        match = _USAGE.match(line)
        if match is None:
            continue
        forms = [match[1].strip()] if match[1].strip() else []
        indent = len(line) - len(line.lstrip())
        for further in lines[number + 1 :]:
            here = len(further) - len(further.lstrip())
            if not further.strip():
                if forms:
                    break
                continue
            other = re.match(r"\s*or:\s*(.*)", further)
            if other is not None:
                forms.append(other[1].strip())
            elif not forms or further.split()[0] == forms[0].split()[0]:
                forms.append(further.strip())  # the program's name again: another form
            elif here > indent + 3 and match[1].strip():
                forms[-1] += f" {further.strip()}"
            else:
                break
        return forms
    first = next((line for line in lines if line.strip()), "")
    return [first] if is_usage(first) else []


class _Form(NamedTuple):
    """The positional parameters of one form of a usage."""

    parameters: JsonObject
    after_dashes: set[str]
    """Those that follow a `--`."""
    has_flag: bool
    """True if an option must be given for this form."""
    values: set[str]
    """Names that may be the value of an option before them."""

    def requires(self, name: str) -> bool:
        return name in self.values or bool(self.parameters.get(name, {}).get("required"))


def standing(text: str, program: list[str]) -> JsonObject:
    """The positional parameters of the usage, in order. One is required if every form requires it."""
    forms = _forms(text, program)
    found: JsonObject = {}
    for form in _own(forms):
        for name, made in form.parameters.items():
            if name not in found:
                found[name] = {**made, "position": len(found) + 1}
            elif made.get("type") == "array":
                found[name]["type"] = "array"
    for name, made in found.items():
        if not all(form.requires(name) for form in forms):
            made.pop("required", None)
    return found


def after_dashes(text: str, program: list[str]) -> set[str]:
    """The positional parameters that the usage writes after a `--`."""
    return {name for form in _own(_forms(text, program)) for name in form.after_dashes}


def _forms(text: str, program: list[str]) -> list[_Form]:
    """The forms of the usage that describe this command, without those whose names the first does not have:
    they mean the same words."""
    has_commands = bool(subcommands(text))
    read = [_form(_after_name(line), program, has_commands=has_commands) for line in _about(text, program)]
    names = next((form.parameters.keys() for form in _own(read) if form.parameters), ())
    return [form for form in read if form.has_flag or not form.parameters or form.parameters.keys() & names]


def _own(forms: list[_Form]) -> list[_Form]:
    """The forms whose names are parameters: not those that an option turns on."""
    return [form for number, form in enumerate(forms) if not number or not form.has_flag]


def _about(text: str, program: list[str]) -> list[str]:
    """The forms of the usage that name this command; some programs add those of a neighbour."""
    lines = usages(text)
    return [line for line in lines if _names_command(line, program[1:])] or lines[:1]


def _names_command(form: str, subcommand: list[str]) -> bool:
    words = form.split()
    return all(word in words for word in subcommand if not word.startswith("-"))


def literals(text: str, program: list[str]) -> list[str]:
    """The literal words that the usage begins with: `npm access list packages [<user>]`. Known only if it
    marks the words to fill in."""
    line = _after_name(next(iter(_about(text, program)), ""))
    found: list[str] = []
    for token in _own_tokens(line, program) if "<" in line else ():
        if not re.fullmatch(r"[a-z][a-z0-9-]*", token):
            break
        found.append(token)
    return found


def words_of(line: str, program: list[str], *, has_commands: bool = False) -> JsonObject:
    """The positional parameters in a line of usage, by name."""
    return _form(line, program, has_commands=has_commands).parameters


def _form(line: str, program: list[str], *, has_commands: bool) -> _Form:
    # If words to fill in are marked, other words are literal.
    marks = "<" in line
    left_out = _OPTION_WORDS | (_COMMAND_WORDS | _ARGUMENT_WORDS if has_commands else set[str]())
    found: JsonObject = {}
    behind: set[str] = set()
    values: set[str] = set()
    of_option = has_dashes = has_flag = False
    for token in _own_tokens(line, program):
        was_option, of_option = of_option, False
        if _DASHES.search(token):
            has_dashes = True
            token = _DASHES.sub("", token)  # the rest of [[--] <path>...]
        inside = token.lstrip("[( ")
        if inside.startswith("-"):
            of_option = not token.startswith("[") and "=" not in token
            has_flag = has_flag or not token.startswith("[")
            continue
        if was_option and not token.startswith("["):
            values |= {name for place, _ in _places(token) for name, _ in _named(place)}
            continue  # the value of the option before it
        for place, optional in _places(token):
            for name, many in _named(place):
                literal = marks and not optional and "<" not in place and place.islower()
                if not literal and name.replace("_", " ").split()[-1].rstrip(".") not in left_out:
                    _add(found, name, many=many, required=not optional)
                    behind |= {name} if has_dashes else set()
    return _Form(found, behind, has_flag, values)


def _after_name(line: str) -> str:
    """The line without the program's name."""
    return line.partition(" ")[2]


def _own_tokens(line: str, program: list[str]) -> list[str]:
    """The tokens after the program and its subcommand."""
    tokens = list(_tokens(_GLUED.sub("", line)))
    own = {word.rsplit("/", 1)[-1] for word in program} | {"python", "python3", "-m"}
    while tokens and tokens[0] in own:
        tokens.pop(0)
    return tokens


def _places(token: str) -> Iterator[tuple[str, bool]]:
    """The parts of a token, each with True if it is optional: `[A [B]]` are two."""
    depth, part = 0, ""
    for letter in re.sub(r"\](\.\.\.|…)", r"\1]", token):
        if letter in "[]":
            if part.strip("(). "):
                yield part, depth > 0
            depth += 1 if letter == "[" else -1
            part = ""
        else:
            part += letter
    if part.strip("(). "):
        yield part, depth > 0


def _named(place: str) -> Iterator[tuple[str, bool]]:
    """The names of the words to fill in; the first of `A

    B`.
    """
    shown = re.split(r"\s*\|\s*(?![^<]*>)", place.strip("() "))[0]
    pieces = re.findall(r"<[^<>]+>(?:\.\.\.|…)?", shown) or [shown]
    for piece in pieces:
        match = _WORD.match(piece)
        if match is not None:
            yield re.sub(r"\W+", "_", match[1]).lower(), "..." in piece or "…" in piece


def _add(found: JsonObject, name: str, *, many: bool, required: bool) -> None:
    known = found.get(name)
    if known is not None and known.get("type") == "array":
        return  # <commit> [<commit>...] <commit>
    if known is not None and many:
        known["type"] = "array"  # FILE [FILE...]
        return
    if known is not None and not required:
        return
    number = 2
    while known is not None and f"{name}_{number}" in found:
        number += 1
    made: JsonObject = {"type": "array"} if many else {}
    if required:
        made["required"] = True
    found[name if known is None else f"{name}_{number}"] = {**made, "position": len(found) + 1}


def subcommands(text: str) -> dict[str, Subcommand]:
    """The subcommands by name."""
    line = usage(text)
    braces = re.search(r"\{([\w,-]+)\} \.\.\.", line)
    names = set(braces[1].split(",")) if braces else None
    says_so = braces or any(word.strip("<>[].").lower() in _COMMAND_WORDS for word in line.split())
    if not says_so and not _HEADING.search(text):
        return {}
    found: dict[str, Subcommand] = {}
    inside = False
    for row in text.split("\n"):
        if row.strip() and not row.startswith("  "):
            heading = bool(_COMMANDS.search(row)) and not is_usage(row)
            inside = heading or (inside and not re.search(r"(?i)options|flags", row))
        match = _ROW.match(row)
        if match and (names is None or match["name"] in names) and (inside or names):
            found.setdefault(match["name"], Subcommand(match["about"].strip(), match["words"].strip()))
        elif inside and re.fullmatch(r"\s+[a-z][\w-]*(, [a-z][\w-]*)+,?", row):
            found |= {name: Subcommand("") for name in re.findall(r"[a-z][\w-]*", row) if name not in found}
    found.pop("help", None)
    return found


def _tokens(line: str) -> Iterator[str]:
    """The words, each with its brackets, dots and alternatives."""
    depth, word = 0, ""
    joined = re.sub(r"(?<=[\]>\w]) (?=\.\.\.)", "", line)
    for letter in re.sub(r"\s*\|\s*", "|", joined) + " ":
        depth += (letter in "[<({") - (letter in "])>}")
        if letter == " " and depth <= 0:
            if word.strip("|"):
                yield word
            word, depth = "", 0
        else:
            word += letter
