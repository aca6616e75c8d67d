"""What a program's `--help` says of its options, words and subcommands.

There is no standard, so this reads the forms that argparse, click, cobra, clap and GNU programs write, and
leaves out what it does not understand. What comes of it is a draft.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from spindle.domain.json_schema import JsonObject

DESCRIPTION_LENGTH = 200

_OPTION = re.compile(r"^(?P<indent>\s{0,10})(?P<text>--?[\[A-Za-z0-9].*)$")
_HEAD = re.compile(r"(?P<head>.*?)(?:(?P<gap>\s{2,}|\t)(?P<rest>\S.*))?$")
_NAME = re.compile(r"(?:(?<=^)|(?<=[\s,|/(]))(--?(?:\[no-\])?[A-Za-z0-9][\w.-]*)")
_SUBCOMMAND = re.compile(r"^\s{2,6}([a-z][a-z0-9_-]*)(?:, [a-z][\w-]*)*\*?(?:\s{2,}|\t)(\S.*)$")
_COMMANDS = re.compile(r"(?i)\b(sub)?commands?\b")
_USAGE = re.compile(r"(?i)^\s*usage:\s*(.*)$")
_INTEGERS = frozenset(
    {"n", "int", "integer", "num", "number", "count", "uint", "lines", "depth", "port", "cols"}
)
_MANY = re.compile(r"(?i)multiple times|repeatable|repeated|more than once|several times")
_NO_OPTIONS = frozenset({"help", "version", "h"})
_OPTION_WORDS = frozenset({"option", "options", "flags", "args", "arguments"})
_COMMAND_WORDS = frozenset({"command", "subcommand", "commands", "cmd"})


def clean(text: str) -> str:
    """Without colours, overstrikes and tabs, and without what the settings would take for a variable."""
    return re.sub(r"\x1b\[[0-9;]*m|.\x08", "", text).expandtabs().replace("${", "{")


def described(text: str) -> str:
    """The first sentence or two that are neither usage nor options."""
    for paragraph in re.split(r"\n\s*\n", text):
        first = paragraph.strip().split("\n", 1)[0]
        if first and not _USAGE.match(first) and not first.startswith("-") and not first.endswith(":"):
            return " ".join(paragraph.split())[:DESCRIPTION_LENGTH]
        # GNU programs write what they do right below their usage.
        lines = paragraph.strip().split("\n")
        if _USAGE.match(first) and len(lines) > 1 and re.match(r"[A-Z]\w+ ", lines[1]):
            return " ".join(" ".join(lines[1:]).split())[:DESCRIPTION_LENGTH]
    return ""


# --- options


def options(text: str) -> JsonObject:
    """The parameters that the listed options make, by name."""
    found: JsonObject = {}
    for head, description in _listed(text):
        made = _parameter(head, description, text)
        if made is not None and made[0] not in found:
            found[made[0]] = made[1]
    return found


def _listed(text: str) -> Iterator[tuple[str, str]]:
    """Each option's own words, and its description put together from its lines."""
    head, lines, indent, column = "", [""], 0, None
    for line in text.split("\n"):
        here = len(line) - len(line.lstrip())
        is_deeper = here > indent and (column is None or here >= column)
        if head and line.strip() and is_deeper and (column is not None or line[here] != "-"):
            column = here if column is None else column
            lines.append(line.strip())
            continue
        match = _OPTION.match(line)
        if match is None:
            if line.strip() and here <= indent and head:
                yield head, " ".join(lines)
                head = ""
            continue
        if head:
            yield head, " ".join(lines)
        parts = _HEAD.match(match["text"])
        assert parts is not None
        head, lines, indent = parts["head"], [parts["rest"] or ""], here
        column = here + parts.start("rest") if parts["rest"] else None
    if head:
        yield head, " ".join(lines)


def _parameter(head: str, description: str, text: str) -> tuple[str, JsonObject] | None:
    names: list[str] = _NAME.findall(head)
    if not names:
        return None
    longs = [name for name in names if name.startswith("--")]
    flag = (longs or names)[0]
    value = _NAME.sub("", head).strip(" ,|/")
    if not value:
        # npm says only in its usage that an option takes a value.
        elsewhere = re.search(rf"{re.escape(flag)}[ =](<[^<>]+>)", text)
        value = elsewhere[1] if elsewhere else ""
    parameter: JsonObject = {}
    if flag.startswith("--[no-]"):
        flag = flag.replace("[no-]", "")
        parameter["off"] = f"--no-{flag[2:]}"
    elif len(longs) > 1 and longs[1] == f"--no-{flag[2:]}":
        parameter["off"] = longs[1]  # click: --shout / --no-shout
    name = re.sub(r"[^A-Za-z0-9_]+", "_", flag.lstrip("-"))
    if name in _NO_OPTIONS or not name or not (name[0].isalpha() or name[0] == "_"):
        return None
    if value:
        parameter.pop("off", None)
        parameter |= _value(value, description)
    else:
        parameter["type"] = "boolean"
    short = " ".join(description.split())[:DESCRIPTION_LENGTH]
    return name, {**parameter, "flag": flag, **({"description": short} if short else {})}


def _value(value: str, description: str) -> JsonObject:
    bare = value.strip("[]=<>{}. ")
    made: JsonObject = {}
    choices = re.fullmatch(r"[\w.-]+(?:[|,][\w.-]+)+", bare)
    if choices and not value.endswith("..."):
        made["enum"] = re.split(r"[|,]", bare)
    elif bare.lower() in _INTEGERS:
        made["type"] = "integer"
    elif bare.lower() == "float":
        made["type"] = "number"
    possible = re.search(r"\[possible values: ([\w., -]+)\]", description)
    if possible and not made:
        made["enum"] = [choice.strip() for choice in possible[1].split(",")]
    if (
        value.rstrip("]").endswith(">...")
        or value.endswith(" ...")
        or bare in ("strings", "stringArray")
        or _MANY.search(description)
    ):
        made["repeat"] = True
    return made


# --- words that stand by themselves, and subcommands


def usage(text: str) -> str:
    """The first form of the usage, in one line."""
    lines = text.split("\n")
    for number, line in enumerate(lines):
        match = _USAGE.match(line)
        if match is None:
            continue
        found = [match[1]] if match[1].strip() else []
        indent = len(line) - len(line.lstrip())
        for further in lines[number + 1 :]:
            here = len(further) - len(further.lstrip())
            if not further.strip() and found:
                break
            if not found or (match[1].strip() and here > indent + 3 and not re.match(r"\s*or:", further)):
                found += [further.strip()] if further.strip() else []
            elif found:
                break
        return " ".join(found)
    return ""


def standing(text: str, program: list[str]) -> JsonObject:
    """The parameters without a flag that the usage line names, in order."""
    tokens = list(_tokens(usage(text)))
    own = {word.rsplit("/", 1)[-1] for word in program} | {"python", "-m"}
    while tokens and tokens[0] in own:
        tokens.pop(0)
    found: JsonObject = {}
    skip = False
    for token in tokens:
        inside = re.sub(r"^\[+|\[--\]\s*|\]$", "", token).strip()
        was_option, skip = skip, False
        if inside.startswith(("-", "(-")):
            skip = not token.startswith("[") and "=" not in token
            continue
        match = re.match(r"[<\[]*([A-Za-z][\w-]*(?:[ /][\w-]+)*)", inside)
        if match is None or (was_option and not token.startswith("[")):
            continue
        name = re.sub(r"\W+", "_", match[1]).lower()
        if name.rstrip("s") + "s" in _OPTION_WORDS or name in _COMMAND_WORDS or name.endswith("_options"):
            continue
        parameter: JsonObject = {"type": "array"} if "..." in token or "…" in token else {}
        if not token.startswith("["):
            parameter["required"] = True
        found.setdefault(name, {**parameter, "position": len(found) + 1})
    return found


def subcommands(text: str) -> dict[str, str]:
    """Names and descriptions, where the program has any."""
    line = usage(text)
    braces = re.search(r"\{([\w,-]+)\} \.\.\.", line)
    names = set(braces[1].split(",")) if braces else None
    says_so = braces or any(word.strip("<>[].").lower() in _COMMAND_WORDS for word in line.split())
    if not says_so and not re.search(r"(?im)^\s*(available |all |core )?(sub)?commands:\s*$", text):
        return {}
    found: dict[str, str] = {}
    inside = False
    for row in text.split("\n"):
        if row.strip() and not row.startswith("  "):
            inside = bool(_COMMANDS.search(row)) or (inside and not re.search(r"(?i)options|flags", row))
        match = _SUBCOMMAND.match(row)
        if match and (names is None or match[1] in names) and (inside or names):
            found.setdefault(match[1], match[2].strip())
        elif inside and re.fullmatch(r"\s+[a-z][\w-]*(, [a-z][\w-]*)+,?", row):
            found |= {name: "" for name in re.findall(r"[a-z][\w-]*", row) if name not in found}
    found.pop("help", None)
    return found


def _tokens(line: str) -> Iterator[str]:
    """Words, with what is in brackets as one, and the dots behind it."""
    depth, word = 0, ""
    for letter in re.sub(r"(?<=[\]>\w]) (?=\.\.\.)", "", line) + " ":
        depth += (letter in "[<({") - (letter in "])>}")
        if letter == " " and depth <= 0:
            if word.strip("|"):
                yield word
            word, depth = "", 0
        else:
            word += letter


def parameters(text: str, program: list[str]) -> dict[str, Any]:
    """All parameters of a command, those that stand by themselves first."""
    flagged = options(text)
    alone: JsonObject = {}
    for name, made in standing(text, program).items():
        alone[f"{name}_words" if name in flagged else name] = made
    return alone | flagged
