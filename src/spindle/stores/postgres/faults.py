"""Turns PostgreSQL's errors into errors that a user of Spindle understands."""

from __future__ import annotations

from typing import TYPE_CHECKING

import psycopg

from spindle.errors import StoreAwayError, StoreError

if TYPE_CHECKING:
    from spindle.stores.postgres.address import Address

_FULL = "close other connections, raise the server's max_connections, or lower `?pool_size=` in `store`"
# Messages of libpq and the server, in English, since libpq gives no codes. The first match is taken.
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
    "timeout": "check that the server is running and reachable from here",
    "SSL": "correct `?sslmode=` in `store`",
    'database "': "create it with `createdb`, or correct its name in `store`",
    'role "': "create the user, or correct it in `store`",
}
_OTHERS = "the schema holds other data than Spindle's state; name another one with `?schema=` in `store`"
_BY_STATE = {
    "25P03": "this process was silent for too long; try again",
    "25006": "the database takes no changes; use the primary server, not a replica",
    "42501": "give the user the right to use the schema and what is in it",
    "53100": "free some space on the disk of the database server",
    "53200": "the database server is out of memory",
    "53300": "close other connections, or raise the server's max_connections",
    "55P03": "another process holds a lock; try again",
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
    """True if the server is starting, recovering or shutting down, and does not accept connections yet."""
    return "the database system is " in str(error)


def is_recovering(error: psycopg.Error) -> bool:
    """True if a server that worked before is ending all sessions because one of its processes died. From a
    server that never worked, the same words mean that it is no database server."""
    said = str(error)
    return "crash of another server process" in said or "server closed the connection" in said


def connection_failed(error: psycopg.Error, address: Address) -> StoreError:
    """The error for a server that cannot be reached or refuses us."""
    said = _one_line(address.clean(str(error))).removeprefix("connection failed: ")
    hint = next((hint for words, hint in _CONNECTING.items() if words in said), None)
    return StoreAwayError(f"cannot connect to {address.shown}: {said}", hint=hint, details=error.sqlstate)


def store_error(error: psycopg.Error, address: Address) -> StoreError:
    """The error for a statement that failed."""
    said = _one_line(address.clean(error.diag.message_primary or str(error)))
    hint = _BY_STATE.get(error.sqlstate or "")
    if hint is None and isinstance(error, psycopg.OperationalError):
        hint = "check that the database server is running and reachable, and try again"
    kind = StoreAwayError if isinstance(error, psycopg.OperationalError) else StoreError
    return kind(
        f"the workspace's state could not be used: {said} ({address.shown})",
        hint=hint,
        details=error.sqlstate,
    )


def no_answer(seconds: float, address: Address) -> StoreError:
    """The error for a database that did not answer in time."""
    return StoreAwayError(
        f"the database did not answer within {seconds:g} s ({address.shown})",
        hint="check the load of the database server and who holds its locks, and try again",
    )


def _one_line(text: str) -> str:
    # libpq writes one line for each address of a host that it tried.
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return "; ".join(dict.fromkeys(lines[:4])) or "no reason was given"
