"""`$VAR` and `${VAR}` in call templates, replaced when a tool is called and never stored.

UTCP keeps the variables of manuals apart by putting the manual's name before theirs: `API_KEY` of the manual
`my_shop` is `my__shop_API_KEY`. That is also what keeps a manual from reading whatever is in our environment.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from typing import Any, cast
from urllib.parse import parse_qsl

from spindle.calls.record import clean, clean_json
from spindle.domain.call import Result
from spindle.domain.json_schema import JsonObject
from spindle.errors import ConfigurationError, SpindleError

_REFERENCE = re.compile(r"\$\{([A-Za-z0-9_]+)\}|\$([A-Za-z_][A-Za-z0-9_]*)")
# A pointer of JSON Schema, in a template that carries a document.
_POINTER = re.compile(r"\$ref(?![A-Za-z0-9_])")
_SCHEME = re.compile(r"(?i)\s*(?:bearer|basic|token|apikey)?\s*")
_SECRET_NAME = re.compile(
    r"(?i)(?:^|[_-]|api|access|private)key$|(?:^|[_-])(?:pass|pwd)$|token|secret|passw|auth|credential|cookie"
    r"|session|appid$"
)
_PLACE = re.compile(r"\{[^{}]+\}")
_SECRETS_OF_AUTH = ("api_key", "password", "client_secret")


def full_name(manual: str, variable: str) -> str:
    """Returns the name that a variable of a manual has in the settings."""
    return re.sub(r"\W", "_", manual).replace("_", "__") + "_" + variable


class Variables:
    """The variables of one source. `found` collects their values, which must not be shown to anybody."""

    def __init__(
        self, source: str, given: Mapping[str, str], environ: Mapping[str, str] | None = None
    ) -> None:
        self._source = source
        self._given = given
        self._environ = os.environ if environ is None else environ

    def find(self, variable: str, manuals: tuple[str, ...]) -> str | None:
        """Returns the value of a variable. `manuals` are the names that it may go by, the source's own
        first."""
        for manual in manuals:
            name = full_name(manual, variable)
            if name in self._given:
                return self._given[name]
        # The table is this source's own, so that nothing is to be kept apart there.
        if variable in self._given:
            return self._given[variable]
        for manual in manuals:
            found = self._environ.get(full_name(manual, variable))
            if found:
                return found
        return None

    def missing(self, variable: str, manuals: tuple[str, ...], place: str) -> ConfigurationError:
        names = [full_name(manual, variable) for manual in manuals]
        name = next((name for name in names if name in self._environ), names[0])
        problem = "empty" if name in self._environ else "not set"
        return ConfigurationError(
            f"the variable {name} is {problem}, but {place} uses it",
            hint=f"set it (export {name}=…), or {variable} in sources.{self._source}.variables",
            sent=False,
        )

    def fill(self, text: str, manuals: tuple[str, ...], place: str, *, strict: bool = True) -> str:
        """The text with its variables replaced. `$name` may also be plain text (`?$filter=`) where the
        place is not strict; it then stays if there is no such variable."""
        if "$" not in text or _POINTER.search(text):
            return text

        def value(match: re.Match[str]) -> str:
            variable = match[1] or match[2]
            found = self.find(variable, manuals)
            if found is not None:
                return found
            if match[2] is not None and not strict:
                return match[0]
            raise self.missing(variable, manuals, place)

        return _REFERENCE.sub(value, text)


LOOSE = frozenset({"url", "message", "content"})
"""The parts of a template in which a dollar sign is often just that."""
# The words of a command are read with their quotes first; what a document says of itself is not ours to fill.
_LEFT = frozenset({"commands", "call_template_type", "name", "header_fields", "body_field"})


def filled(template: Mapping[str, Any], fill: Callable[[str, str, bool], str]) -> dict[str, Any]:
    """Returns a call template with every variable replaced by `fill(text, place, strict)`."""

    def walk(value: Any, place: str, strict: bool) -> Any:
        if isinstance(value, str):
            return fill(value, place, strict)
        if isinstance(value, dict):
            items = cast("dict[str, Any]", value).items()
            return {key: walk(item, f"{place}.{key}", strict) for key, item in items}
        if isinstance(value, list):
            return [
                walk(item, f"{place}[{index}]", strict) for index, item in enumerate(cast("list[Any]", value))
            ]
        return value

    return {
        key: value if key in _LEFT else walk(value, key, key not in LOOSE) for key, value in template.items()
    }


# --- secrets that a manual holds itself


def secret_places(template: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """(part, key) of each secret that is written out in a template instead of being a variable; of a URL
    that holds one, the whole is secret, and its key is empty."""
    url: Any = template.get("url")
    if isinstance(url, str) and any(
        _SECRET_NAME.search(name) and not _PLACE.fullmatch(value) and _is_written_out(value)
        for name, value in parse_qsl(url.partition("?")[2])
    ):
        yield "url", ""
    for part in ("auth", "auth_tools", "headers", "env_vars"):
        fields: Any = template.get(part)
        if not isinstance(fields, dict):
            continue
        for key, value in cast("dict[str, Any]", fields).items():
            named = key in _SECRETS_OF_AUTH if part.startswith("auth") else bool(_SECRET_NAME.search(key))
            if named and isinstance(value, str) and _is_written_out(value):
                yield part, key


def _is_written_out(value: str) -> bool:
    return not _SCHEME.fullmatch(_REFERENCE.sub("", value))


def withheld(template: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, str]]:
    """Returns the template without its secrets, fit to be stored; and the secrets by `part.key`."""
    secrets: dict[str, str] = {}
    kept = dict(template)
    for part, key in list(secret_places(template)):
        if part == "url":
            secrets[part], kept[part] = kept[part], ""
            continue
        kept[part] = dict(kept[part])
        secrets[f"{part}.{key}"] = kept[part][key]
        kept[part][key] = ""
    return kept, secrets


def restored(template: Mapping[str, Any], secrets: Mapping[str, str]) -> dict[str, Any]:
    """Returns the template with its secrets again."""
    whole = dict(template)
    for place, value in secrets.items():
        part, _, key = place.partition(".")
        whole[part] = {**whole[part], key: value} if key else value
    return whole


def secrets_of(template: JsonObject) -> set[str]:
    """Secrets that a template holds itself."""
    return {str(template[part][key]) for part, key in secret_places(template) if key}


class UsedValues:
    """The values that a call used and that must not be shown."""

    def __init__(self) -> None:
        self.secrets: set[str] = set()
        self.variables = False
        """True if values that the user gave are among them, or elsewhere in the template."""

    def add(self, value: str) -> None:
        self.secrets |= {value, *value.split()[1:]}

    def hidden_in(self, error: SpindleError) -> SpindleError:
        error.message = clean(error.message, self.secrets)
        if error.remedy is None:
            error.hint = error.hint and clean(error.hint, self.secrets)
        error.details = clean_json(error.details, self.secrets)
        error.args = (error.message,)
        return error

    def hidden_in_failure(self, result: Result) -> Result:
        blocks = tuple(
            replace(block, text=clean(block.text, self.secrets)) if block.text is not None else block
            for block in result.content
        )
        return replace(result, content=blocks, structured=clean_json(result.structured, self.secrets))
