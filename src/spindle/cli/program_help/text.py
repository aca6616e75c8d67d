"""Reads a program's description and options from its `--help`.

There is no standard, so this reads the forms that argparse, click, cobra, clap and GNU programs write, and
leaves out what it does not understand. The result is a draft.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from spindle.cli.program_help.usage import is_usage, standing
from spindle.domain.json_schema import JsonObject

DESCRIPTION_LENGTH = 200

_OPTION = re.compile(r"^(?P<indent>\s{0,10})(?P<text>--?[\[A-Za-z0-9].*)$")
_HEAD = re.compile(r"(?P<head>.*?)(?:(?P<gap>\s{2,}|\t)(?P<rest>\S.*))?$")
_NAME = re.compile(r"(?:(?<=^)|(?<=[\s,|/(]))(--?(?:\[no-\])?[A-Za-z0-9][\w.-]*)")
_INTEGERS = frozenset(
    {"n", "int", "integer", "num", "number", "count", "uint", "lines", "depth", "port", "cols"}
)
_MANY = re.compile(r"(?i)multiple times|repeatable|repeated|more than once|several times")
_NO_OPTIONS = frozenset({"help", "version", "h"})


def clean(text: str) -> str:
    """The text without colours, overstrikes and tabs, and without `${`, which settings would take for a
    variable."""
    return re.sub(r"\x1b\[[0-9;]*m|.\x08", "", text).expandtabs().replace("${", "{")


def described(text: str) -> str:
    """The first one or two sentences that are neither usage nor options. Text below a list of options or
    commands is about those."""
    for paragraph in re.split(r"\n\s*\n", text):
        lines = [line for line in paragraph.split("\n") if line.strip()]
        if any(is_usage(line) for line in lines):
            # GNU programs describe themselves right below the usage, whose further forms are indented.
            lines = lines[max(at for at, line in enumerate(lines) if is_usage(line)) + 1 :]
            while lines and not is_listed(lines[0]) and not lines[0][0].isupper():
                lines.pop(0)
        listed = next((at for at, line in enumerate(lines) if is_listed(line)), None)
        said = " ".join(" ".join(lines[:listed]).split())
        if said and not said.startswith("Try '"):
            return said[:DESCRIPTION_LENGTH]
        if listed is not None:
            return ""
    return ""


def is_listed(line: str) -> bool:
    """True if the line belongs to a list: its heading, or an option."""
    return line.rstrip().endswith(":") or line.lstrip().startswith("-")


# --- options


def options(text: str) -> JsonObject:
    """The parameters of the listed options, by name."""
    found: JsonObject = {}
    for head, description in _listed(text):
        made = _parameter(head, description, text)
        if made is not None and made[0] not in found:
            found[made[0]] = made[1]
    return found


def _listed(text: str) -> Iterator[tuple[str, str]]:
    """Each option's own words, and its description joined from its lines."""
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
    names: list[str] = [name.rstrip(".") for name in _NAME.findall(head)]
    if not names:
        return None
    longs = [name for name in names if name.startswith("--")]
    flag = (longs or names)[0]
    value = _NAME.sub("", head).strip(" ,|/")
    if value == "..." or re.fullmatch(r"=(true|false):?", value):
        value = ""  # clap: may be repeated, without a value; kubectl: the default
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


def parameters(text: str, program: list[str]) -> dict[str, Any]:
    """All parameters of a command, positional ones first."""
    flagged = options(text)
    alone: JsonObject = {}
    for name, made in standing(text, program).items():
        alone[f"{name}_words" if name in flagged else name] = made
    return alone | flagged
