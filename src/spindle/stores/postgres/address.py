"""The address of a PostgreSQL store, `postgresql://user:password@host:5432/database?schema=name`."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import parse_qsl, urlencode, urlsplit

import psycopg
from psycopg.conninfo import conninfo_to_dict, make_conninfo

from spindle.errors import ConfigurationError, suggest

DEFAULT_SCHEMA = "spindle"
DEFAULT_POOL_SIZE = 4
MAX_POOL_SIZE = 100
CONNECT_TIMEOUT = 10

_OURS = ("schema", "pool_size")
_SCHEMA = re.compile(r"[a-z_][a-z0-9_]{0,62}")
_MASK = "•••"
_EXAMPLE = "postgresql://user@host:5432/database?schema=name"
_ENCODE = "write `@ : / ? # %` in a user or password as %40 %3A %2F %3F %23 %25, or take them from a ${VAR}"


@dataclass(frozen=True, slots=True)
class Address:
    """The parsed address of a PostgreSQL store."""

    conninfo: str = field(repr=False)
    """The connection string for libpq, including the password."""
    schema: str
    pool_size: int
    shown: str
    """The address without secrets."""
    secrets: tuple[str, ...] = field(repr=False)

    def clean(self, text: str) -> str:
        """The text with all secrets masked."""
        for secret in self.secrets:
            text = text.replace(secret, _MASK)
        return text


def parse(text: str) -> Address:
    """Parses the address. No error message shows it: any part may be the password."""
    rest = text.partition("://")[2]
    before_query = rest.partition("?")[0]
    authority, _, database = before_query.partition("/")
    if authority.count("@") > 1 or "@" in database or "#" in rest:
        raise ConfigurationError(
            "the address of the store cannot be read: a reserved character stands in its user or password",
            hint=_ENCODE,
        )
    given = dict(parse_qsl(rest.partition("?")[2], keep_blank_values=True))
    known = _libpq_names()
    for name in given:
        if name not in known and name not in _OURS:
            meant = suggest(name, [*_OURS, *known])
            raise ConfigurationError(
                f"the address of the store has the parameter `{name}`, which PostgreSQL does not know",
                hint=f"did you mean `{meant}`?" if meant else f"an example: {_EXAMPLE}",
            )
    ours = {name: given.pop(name) for name in _OURS if name in given}
    parameters = _read_by_libpq(f"postgresql://{before_query}?{urlencode(given)}")
    parameters.setdefault("connect_timeout", str(CONNECT_TIMEOUT))
    parameters.setdefault("application_name", "spindle")
    parameters["client_encoding"] = "UTF8"
    schema = _schema(ours)
    secrets = {parameters.get("password"), given.get("password"), given.get("sslpassword")}
    return Address(
        make_conninfo("", **parameters),
        schema,
        _pool_size(ours),
        _shown(parameters, schema),
        tuple(sorted(filter(None, secrets), key=len, reverse=True)),
    )


def _libpq_names() -> set[str]:
    return {option.keyword.decode() for option in psycopg.pq.Conninfo.get_defaults()} | {"ssl"}


def _read_by_libpq(url: str) -> dict[str, Any]:
    try:
        # libpq would quote in its message what urlsplit refuses too, such as a port that is not a number.
        _ = urlsplit(url).port if "," not in url else None
        return {name: value for name, value in conninfo_to_dict(url).items() if value is not None}
    except (psycopg.Error, ValueError):
        raise ConfigurationError(
            "the address of the store is not one of a PostgreSQL database", hint=f"{_ENCODE}; {_EXAMPLE}"
        ) from None


def _schema(ours: dict[str, str]) -> str:
    schema = ours.get("schema", DEFAULT_SCHEMA)
    if not _SCHEMA.fullmatch(schema) or schema.startswith("pg_"):
        raise ConfigurationError(
            f"the store's schema cannot be called {schema!r}",
            hint="a name begins with a small letter and has small letters, digits and `_`, at most 63;"
            " `pg_…` belongs to PostgreSQL",
        )
    return schema


def _pool_size(ours: dict[str, str]) -> int:
    text = ours.get("pool_size", str(DEFAULT_POOL_SIZE))
    if not text.isdecimal() or not 1 <= int(text) <= MAX_POOL_SIZE:
        raise ConfigurationError(
            f"the store's pool_size is {text!r}", hint=f"give a number from 1 to {MAX_POOL_SIZE}"
        )
    return int(text)


def _shown(parameters: dict[str, Any], schema: str) -> str:
    user = f"{parameters['user']}@" if "user" in parameters else ""
    host = str(parameters.get("host") or parameters.get("hostaddr") or "")
    port = f":{parameters['port']}" if "port" in parameters else ""
    return f"postgresql://{user}{host}{port}/{parameters.get('dbname', '')}?schema={schema}"
