"""Keeps secrets out of spindle.toml: a variable of the environment stands for each that another program has
in its settings."""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from spindle.cli.secrets import looks_secret
from spindle.domain.json_schema import JsonObject, is_array, is_object

_SCHEME = re.compile(r"(?:Bearer|Basic|Token)\s+", re.IGNORECASE)
_OPTION = re.compile(
    r"-{1,2}(?:[\w-]*[-_])?(?:token|api[-_]?key|access[-_]?key|secret|password|passwd)(?:[-_][\w-]*)?",
    re.IGNORECASE,
)
# `--option=value`, `NAME=value` after `docker run -e`, and `Header: value` after `--header`.
_PAIR = re.compile(r"(?P<name>-{0,2}[A-Za-z][\w-]*)(?P<sign>=|:\s*)(?P<value>.+)", re.DOTALL)
_QUERY = re.compile(
    r"(?P<start>[?&](?P<name>[\w-]{0,64}?(?:token|key|secret|passw)[\w-]{0,64})=)(?P<value>[^&#]+)", re.I
)
_PASSWORD = re.compile(r"(?P<start>://[^/@:]*:)(?P<value>[^/@]+)(?=@)")
# The beginnings by which some services mark their own.
_KNOWN = re.compile(r"(?:gh[opsu]_|github_pat_|glpat-|sk-|sk_live_|xox[abprs]-|hf_|npm_|AKIA|AIza)[\w-]{8,}")
_REFERENCE = re.compile(r"\$\{[A-Za-z_]\w*(?::-[^}]{0,1000})?\}")


@dataclass(slots=True)
class SecretVariables:
    """The variables that stand for secrets, over all files of one import. No two secrets share one."""

    values: dict[str, str] = field(default_factory=dict[str, str])

    def name_for(self, server: str, name: str, secret: str) -> str:
        """Returns the variable for a secret: its own name, with that of its server where another has it."""
        wanted, prefix = variable_name(name), variable_name(server)
        longer = wanted if wanted.startswith(prefix) else f"{prefix}_{wanted}"
        numbered = (f"{longer}_{number}" for number in itertools.count(2))
        candidates = itertools.chain([wanted, longer], numbered)
        return next(found for found in candidates if self.values.setdefault(found, secret) == secret)

    def hide(self, server: str, table: JsonObject) -> list[str]:
        """Puts variables in the place of all secrets of a source. Returns what the user has to set."""
        notes: list[str] = []

        def hidden(place: str, name: str, secret: str) -> str:
            variable = self.name_for(server, name, secret)
            shown = "; while it runs, others on this machine may see its arguments" if "[" in place else ""
            notes.append(
                f"{place} is a secret and was not copied: set the environment variable {variable}{shown}"
            )
            return f"${{{variable}}}"

        for key in ("env", "headers"):
            values = table.get(key)
            if is_object(values):
                table[key] = {
                    name: _hidden_value(server, key, name, value, hidden) for name, value in values.items()
                }
        auth = table.get("auth")
        for name in ("token", "value", "password", "client_secret"):
            if is_object(auth) and auth.get(name) and not _REFERENCE.search(str(auth[name])):
                auth[name] = hidden(f"auth.{name}", f"{server}_{name}", str(auth[name]))
        for key in ("url", "document"):
            if isinstance(table.get(key), str):
                table[key] = _in_address(table[key], server, key, hidden)
        if is_array(table.get("command")):
            table["command"] = _in_words(table["command"], server, hidden)
        return notes


def variable_name(text: str) -> str:
    """A text as the name of a variable."""
    return re.sub(r"[^A-Za-z0-9]+", "_", text).strip("_").upper()


Hide = Callable[[str, str, str], str]


def _header_name(server: str, name: str) -> str:
    return f"{server}_token" if name.lower() == "authorization" else f"{server}_{name}"


def _is_known(value: str) -> bool:
    return bool(_KNOWN.search(value)) and not _REFERENCE.search(value)


def _hidden_value(server: str, key: str, name: str, value: str, hide: Hide) -> str:
    if not looks_secret(name, value) and not _is_known(value):
        return value
    start, secret = _scheme_apart(value)
    return start + hide(f"{key}.{name}", name if key == "env" else _header_name(server, name), secret)


def _scheme_apart(value: str) -> tuple[str, str]:
    """The word before a secret, such as `Bearer`, and the secret."""
    scheme = _SCHEME.match(value)
    start = scheme[0] if scheme else ""
    return start, value[len(start) :]


def _in_address(url: str, server: str, key: str, hide: Hide) -> str:
    def query(match: re.Match[str]) -> str:
        if _REFERENCE.search(match["value"]):
            return match[0]
        return match["start"] + hide(key, f"{server}_{match['name']}", match["value"])

    def password(match: re.Match[str]) -> str:
        if _REFERENCE.search(match["value"]):
            return match[0]
        return match["start"] + hide(key, f"{server}_password", match["value"])

    return _PASSWORD.sub(password, _QUERY.sub(query, url))


def _in_words(words: list[Any], server: str, hide: Hide) -> list[Any]:
    made: list[Any] = []
    expected: str | None = None
    for at, word in enumerate(words):
        text = word if isinstance(word, str) else ""
        pair = _PAIR.fullmatch(text)
        if expected is not None and text and not text.startswith("-") and not _REFERENCE.search(text):
            made.append(hide(f"command[{at}]", f"{server}_{expected}", text))
        elif pair and not _REFERENCE.search(text) and _names_secret(pair):
            start, secret = _scheme_apart(pair["value"])
            secret = hide(f"command[{at}]", _pair_name(server, pair), secret)
            made.append(f"{pair['name']}{pair['sign']}{start}{secret}")
        elif _is_known(text):
            made.append(_KNOWN.sub(lambda found: hide(f"command[{at}]", f"{server}_token", found[0]), text))  # noqa: B023 - called at once
        elif "://" in text:
            made.append(_in_address(text, server, f"command[{at}]", hide))
        else:
            made.append(word)
        expected = text.lstrip("-") if _OPTION.fullmatch(text) else None
    return made


def _names_secret(pair: re.Match[str]) -> bool:
    name = pair["name"]
    if name.startswith("-"):
        return bool(_OPTION.fullmatch(name))
    if not looks_secret(name, pair["value"]):
        return False
    return name.isupper() if pair["sign"] == "=" else not pair["value"].startswith("//")


def _pair_name(server: str, pair: re.Match[str]) -> str:
    name = pair["name"].lstrip("-")
    if pair["sign"] == "=" and not pair["name"].startswith("-"):
        return name
    return _header_name(server, name)
