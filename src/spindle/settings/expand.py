"""Replaces `${VAR}`, `${VAR:-default}` and `${secret:NAME}` in settings when a source is about to be used.

A variable that is set to nothing is as if it were not set: an empty token or address is nearly always a
mistake made elsewhere. Where it is meant, an empty default says so: `${VAR:-}`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar, cast
from urllib.parse import quote

from spindle.errors import ConfigurationError

if TYPE_CHECKING:
    from spindle.domain.source import SourceConfig

    ConfigT = TypeVar("ConfigT", bound=SourceConfig)

_SECRET_KEY = re.compile(
    r"^(?:env|headers)\..*(?:key|token|secret|passw|auth|credential|cookie)", re.IGNORECASE
)
_REFERENCE = re.compile(r"\$\{([A-Za-z_][A-Za-z0-9_]*|secret:[A-Za-z][A-Za-z0-9_.-]*)(?::-([^}]{0,2000}))?\}")
_SECRET = "secret:"  # noqa: S105 - the beginning of a reference


def expand(source: str, config: ConfigT, environ: Mapping[str, str]) -> ConfigT:
    """Returns the settings with every reference replaced. A missing variable raises an error that names
    the variable, the source and the key."""
    data = config.model_dump(by_alias=True)
    expanded = _expand(data, environ, f"sources.{source}", source)
    return type(config).model_validate(expanded)


def expand_table(table: dict[str, Any], environ: Mapping[str, str], key: str) -> dict[str, Any]:
    """Does the same for a table that belongs to no source."""
    return _expand(table, environ, key, None)


class MissingVariable(NamedTuple):
    """A reference that leads to nothing, and the setting that it is in."""

    variable: str
    key: str
    is_empty: bool = False
    """True if it is set, to nothing."""

    @property
    def message(self) -> str:
        """The sentence about it."""
        variable, problem = self.variable, "empty" if self.is_empty else "not set"
        if not variable.startswith(_SECRET):
            return f"the environment variable {variable} is {problem}, but {self.key} uses it"
        problem = "empty" if self.is_empty else "not in the store of this workspace"
        return f"the secret {variable.removeprefix(_SECRET)} is {problem}, but {self.key} uses it"

    @property
    def hint(self) -> str:
        """The way out."""
        if self.variable.startswith(_SECRET):
            return "add the source again with --replace, or name an environment variable there: ${VAR}"
        if self.is_empty:
            return f"set it (export {self.variable}=…), or allow it to be empty: ${{{self.variable}:-}}"
        return f"set it (export {self.variable}=…) or give a default: ${{{self.variable}:-value}}"


def missing_variables(table: Any, environ: Mapping[str, str]) -> Iterator[MissingVariable]:
    """Yields each reference that has neither a value nor a default."""
    for key, text in _texts(table, ""):
        for match in _REFERENCE.finditer(text):
            if not environ.get(match[1]) and match[2] is None:
                yield MissingVariable(match[1], key, match[1] in environ)


def secret_values(table: Any, environ: Mapping[str, str]) -> set[str]:
    """The values to mask wherever they would be shown: those from the environment, and those written under
    a name such as API_KEY."""
    found: set[str] = set()
    for key, text in _texts(table, ""):
        references = {match[1] for match in _REFERENCE.finditer(text)}
        found |= {environ.get(name, "") for name in references}
        if not references and _SECRET_KEY.search(key):
            found.add(text)
    return {value for value in found if len(value) >= 4}


def named_secrets(table: Any, environ: Mapping[str, str]) -> set[str]:
    """The values under a name such as API_KEY, as they are used; also without their scheme, such as
    `Bearer`. Unlike `secret_values` not all that comes from the environment: that may be a public address."""
    texts = [text for key, text in _texts(table, "") if _SECRET_KEY.search(key)]
    values = {_REFERENCE.sub(lambda match: environ.get(match[1], ""), text) for text in texts}
    return values | {value.split(" ", 1)[1] for value in values if " " in value}


def uses_secrets(table: Any) -> bool:
    """True if settings refer to sealed values."""
    return any(f"${{{_SECRET}" in text for _, text in _texts(table, ""))


def has_reference(text: str) -> bool:
    """True if the text holds a `${VAR}`."""
    return _REFERENCE.search(text) is not None


def expand_text(text: str, environ: Mapping[str, str], key: str, source: str | None) -> str:
    """Replaces the references in one text."""
    return _REFERENCE.sub(lambda match: _value(match, environ, key, source), text)


def expand_address(text: str, environ: Mapping[str, str], key: str) -> str:
    """Replaces the references in an address. A variable in the user or password part is quoted, so it may
    hold any character."""
    begin, end = text.find("://"), text.rfind("@")

    def value(match: re.Match[str]) -> str:
        found = _value(match, environ, key, None)
        return quote(found, safe="") if 0 <= begin < match.start() < end else found

    return _REFERENCE.sub(value, text)


def _expand(value: Any, environ: Mapping[str, str], key: str, source: str | None) -> Any:
    if isinstance(value, str):
        return expand_text(value, environ, key, source)
    if isinstance(value, dict):
        items = cast("dict[str, Any]", value).items()
        return {name: _expand(item, environ, f"{key}.{name}", source) for name, item in items}
    if isinstance(value, (list, tuple)):
        listed = enumerate(cast("list[Any]", value))
        return [_expand(item, environ, f"{key}[{index}]", source) for index, item in listed]
    return value


def _value(match: re.Match[str], environ: Mapping[str, str], key: str, source: str | None) -> str:
    variable, default = match[1], match[2]
    if variable.startswith(_SECRET) and not variable.startswith(f"{_SECRET}{source}."):
        # Settings come from many hands: an entry of a registry, the file of another program.
        raise ConfigurationError(
            f"{key} refers to the secret {variable.removeprefix(_SECRET)}, which is not this source's own",
            hint="a sealed secret can be used by the source that it was sealed for, and by no other",
            source=source,
        )
    found = environ.get(variable)
    if found:
        return found
    if default is not None:
        return default
    missing = MissingVariable(variable, key, found is not None)
    raise ConfigurationError(missing.message, hint=missing.hint, source=source)


def _texts(value: Any, key: str) -> Iterator[tuple[str, str]]:
    if isinstance(value, str):
        yield key, value
    elif isinstance(value, dict):
        for name, item in cast("dict[str, Any]", value).items():
            yield from _texts(item, f"{key}.{name}" if key else str(name))
    elif isinstance(value, (list, tuple)):
        for index, item in enumerate(cast("list[Any]", value)):
            yield from _texts(item, f"{key}[{index}]")
