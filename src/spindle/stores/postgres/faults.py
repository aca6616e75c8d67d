"""What PostgreSQL's errors mean for a user of Spindle."""

from __future__ import annotations

from typing import TYPE_CHECKING

import psycopg

from spindle.errors import StoreError

if TYPE_CHECKING:
    from spindle.stores.postgres.address import Address

_FULL = "close other connections, raise the server's max_connections, or lower `?pool_size=` in `store`"
# What libpq and the server say, in English; libpq gives no code for it. The first that fits is taken.
_CONNECTING = {
    "Connection refused": "start the server, or correct host and port in `store`",
    "No such file or directory": "start the server, or correct `host`, the folder of its socket, in `store`",
    "failed to resolve host": "correct the host in `store`",
    "password authentication failed": "correct user and password in `store`",
    "no password supplied": "give the password in `store`, as postgresql://user:${PASSWORD}@host/database",
    "no pg_hba.conf entry": "let this machine and user in, in the server's pg_hba.conf",
    "too many": _FULL,
    "remaining connection slots": _FULL,
    "the database system is": "try again in a moment",
    "timeout": "see whether the server is up and can be reached from here",
    "SSL": "correct `?sslmode=` in `store`",
    'database "': "create it with `createdb`, or correct its name in `store`",
    'role "': "create the user, or correct it in `store`",
}
_OTHERS = "the schema holds something else than Spindle's state; name another one with `?schema=` in `store`"
_BY_STATE = {
    "25P03": "this process was silent for too long; try again",
    "25006": "the database takes no changes; use the primary server, not a replica",
    "42501": "give the user the right to use the schema and what is in it",
    "53100": "free some space on the disk of the database server",
    "53200": "the database server is out of memory",
    "53300": "close other connections, or raise the server's max_connections",
    "55P03": "another process holds what is needed; try again",
    "40P01": "try again",
    "57P01": "the server is shutting down, or an administrator ended the connection; try again",
    "57P03": "the server is not ready yet; try again in a moment",
    "57014": "the statement was cancelled; look at the load of the database server, and try again",
    "42P01": _OTHERS,
    "42P07": _OTHERS,
    "42703": _OTHERS,
    "42710": _OTHERS,
}


def is_starting(error: psycopg.Error) -> bool:
    """Starting up, not yet accepting connections, in recovery mode, or shutting down for that."""
    return "the database system is " in str(error)


def is_recovering(error: psycopg.Error) -> bool:
    """Whether a server that was there is about to end all sessions, because one of its processes died.
    Said by one that was never there, it would mean that it is no database server."""
    said = str(error)
    return "crash of another server process" in said or "server closed the connection" in said


def connection_failed(error: psycopg.Error, address: Address) -> StoreError:
    """The server could not be reached, or did not let us in."""
    said = _one_line(address.clean(str(error))).removeprefix("connection failed: ")
    hint = next((hint for words, hint in _CONNECTING.items() if words in said), None)
    return StoreError(f"cannot connect to {address.shown}: {said}", hint=hint, details=error.sqlstate)


def store_error(error: psycopg.Error, address: Address) -> StoreError:
    said = _one_line(address.clean(error.diag.message_primary or str(error)))
    hint = _BY_STATE.get(error.sqlstate or "")
    if hint is None and isinstance(error, psycopg.OperationalError):
        hint = "see whether the database server is up and can be reached, and try again"
    return StoreError(
        f"the workspace's state could not be used: {said} ({address.shown})",
        hint=hint,
        details=error.sqlstate,
    )


def no_answer(seconds: float, address: Address) -> StoreError:
    return StoreError(
        f"the database did not answer within {seconds:g} s ({address.shown})",
        hint="look at the load of the database server and at what holds its locks, and try again",
    )


def _one_line(text: str) -> str:
    # Where several addresses of a host were tried, libpq says so in as many lines.
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return "; ".join(dict.fromkeys(lines[:4])) or "no reason was given"
