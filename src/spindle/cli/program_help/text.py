"""Reads a program's description and options from its `--help`.

There is no standard, so this reads the forms that argparse, click, cobra, clap and GNU programs write, and
leaves out what it does not understand. The result is a draft.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from typing import Any

from spindle.cli.program_help.usage import after_dashes, is_usage, standing
from spindle.domain.json_schema import JsonObject

DESCRIPTION_LENGTH = 200

_OPTION = re.compile(r"^(?P<indent>\s{0,10})(?P<text>--?[\[A-Za-z0-9].*)$")
_HEAD = re.compile(r"(?P<head>.*?)(?:(?P<gap>\s{2,}|\t)(?P<rest>\S.*))?$")
_NAME = re.compile(r"(?:(?<=^)|(?<=[\s,|/(]))(--?(?:\[no-\])?[A-Za-z0-9][\w.-]*)")
_INTEGERS = frozenset(
    {"n", "int", "integer", "num", "number", "count", "uint", "lines", "depth", "port", "cols"}
)
_MANY = re.compile(r"(?i)multiple times|repeatable|repeated|more than once|several times")
MAX_WORDS = 3
# A word to fill in: `name`, `NAME`, `<name>`.
_PLACEHOLDER = re.compile(r"<[^<>]+>|[A-Za-z][A-Za-z0-9_-]*")
# Words of argparse, click, clap and cobra, whose programs know `--flag=value` and `--`. Those of cobra name
# types of Go, and kubectl writes `--flag=default:`.
_LIBRARIES = re.compile(
    r"show this help message and exit|Show this message and exit|Print help\b"
    r"|--help +help for |for more information (?:about|on) a command"
    r"|--[\w-]+ (?:string|strings|stringArray|int|uint|duration|bytes|list|filter) {2,}"
    r"|^ +(?:-\w, )?--[\w-]+=.*:$",
    re.MULTILINE,
)
_GNU = re.compile(
    r"--version +output version information and exit|long options (?:are|apply)|\bGNU\b", re.IGNORECASE
)
MAX_TEXT = 512 * 1024
MAX_LINE = 1000
_NO_OPTIONS = frozenset({"help", "version", "h"})


def clean(text: str) -> str:
    """The text without colours, overstrikes and tabs, and without `${`, which settings would take for a
    variable."""
    plain = re.sub(r"\x1b\[[0-9;]*m|.\x08", "", text[:MAX_TEXT])
    # What is looked for in a line is looked for at each of its places.
    lines = (line[:MAX_LINE].expandtabs() for line in plain.split("\n"))
    return "\n".join(lines).replace("${", "{")


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
    usual = _usual_column(text)
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
        head, rest, column = _split(line, usual)
        lines, indent = [rest], here
    if head:
        yield head, " ".join(lines)


def _split(line: str, usual: int | None) -> tuple[str, str, int | None]:
    """The option's own words, its description, and the column where that begins."""
    start = len(line) - len(line.lstrip())
    # git: `-a  --text    treat all files as text`
    both = re.match(r"\s*-\w {2,}(?=--\w)", line)
    parts = _HEAD.match(line, both.end() if both else start)
    assert parts is not None
    if parts["rest"]:
        head = line[start : both.end()].rstrip() + ", " + parts["head"] if both else parts["head"]
        return head, parts["rest"], parts.start("rest")
    # A long option with one space only before its description, where those of the others begin.
    if usual and len(line) > usual and line[usual - 1] == " " and line[usual] != " ":
        return line[start:usual].rstrip(), line[usual:], usual
    return line[start:], "", None


def _usual_column(text: str) -> int | None:
    """The column in which most descriptions of options begin."""
    columns = Counter[int]()
    for line in text.split("\n"):
        match = _OPTION.match(line)
        parts = _HEAD.match(match["text"]) if match else None
        if match and parts and parts["rest"]:
            columns[match.start("text") + parts.start("rest")] += 1
    return columns.most_common(1)[0][0] if columns else None


def _parameter(head: str, description: str, text: str) -> tuple[str, JsonObject] | None:
    names: list[str] = [name.rstrip(".") for name in _NAME.findall(head)]
    if not names:
        return None
    longs = [name for name in names if name.startswith("--")]
    flag = (longs or names)[0]
    # Of `-f FILE, --file FILE`, and of find's `-print0 -printf FORMAT`, the last one's value.
    value = head[[match.end() for match in _NAME.finditer(head)][-1] :].strip(" ,|/")
    if value == "..." or re.fullmatch(r"=(true|false):?", value):
        value = ""  # clap: may be repeated, without a value; kubectl: the default
    if not value:
        # npm says only in its usage that an option takes a value.
        elsewhere = re.search(rf"\[[^\[\]]*{re.escape(flag)}[ =](<[^<>]+>)", text)
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
        words = re.findall(r"<[^<>]+>|[^\s<>]+", value)
        if 1 < len(words) <= MAX_WORDS and all(_PLACEHOLDER.fullmatch(word) for word in words):
            parameter = {**parameter, "words": len(words), "repeat": True}
        elif flag.startswith("--") and value[0] not in "=[" and not knows_equals(text):
            parameter["separate"] = True
    else:
        parameter["type"] = "boolean"
    short = " ".join(description.split())[:DESCRIPTION_LENGTH]
    return name, {"flag": flag, **parameter, **({"description": short} if short else {})}


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


def knows_equals(text: str) -> bool:
    """True if the program surely understands `--flag=value`: its help writes so, or the library that wrote
    the help does."""
    return bool(re.search(r"--[\w-]+\[?=|--\[no-\]", text) or _LIBRARIES.search(text))


def knows_dashes(text: str) -> bool:
    """True if the program surely understands that `--` ends its options. Its own word for it is not enough:
    some allow it only after other words."""
    return bool(_LIBRARIES.search(text) or _GNU.search(text))


def parameters(text: str, program: list[str]) -> dict[str, Any]:
    """All parameters of a command, positional ones first."""
    flagged = options(text)
    alone: JsonObject = {_apart(name, flagged): made for name, made in standing(text, program).items()}
    return alone | flagged


def behind_dashes(text: str, program: list[str]) -> set[str]:
    """The positional parameters that must follow a `--` of their own, after others that do not."""
    flagged = options(text)
    return {_apart(name, flagged) for name in after_dashes(text, program)}


def _apart(name: str, flagged: JsonObject) -> str:
    """The name of a positional parameter, another than that of an option."""
    return f"{name}_words" if name in flagged else name
