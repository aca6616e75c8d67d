"""Opens the store that an address names: the path of a SQLite file, `:memory:`, or `postgresql://…`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import parse_qsl

from spindle.errors import ConfigurationError, suggest
from spindle.owner_only import tighten_folder
from spindle.stores.sqlite import SqliteStore

if TYPE_CHECKING:
    from spindle.ports.source import Note
    from spindle.ports.store import Store

_SCHEMES = ("postgresql", "postgres")


async def open_store(address: str) -> Store:
    """Opens the store. No error message shows the address: it may hold a password."""
    scheme, is_address, _ = address.partition("://")
    if not is_address:
        return await SqliteStore(address).open()
    if scheme not in _SCHEMES:
        meant = suggest(scheme, _SCHEMES) or suggest(scheme.partition("+")[0], _SCHEMES)
        raise ConfigurationError(
            f"`store` begins with {scheme}://, and there is no such store",
            hint=f"did you mean {meant}://?" if meant else 'give a path, ":memory:", or "postgresql://…"',
        )
    try:
        from spindle.stores.postgres import PostgresStore
    except ImportError as error:
        raise ConfigurationError(
            f"a store in PostgreSQL needs a package that is not installed here ({error})",
            hint="pip install 'spindle-tools[postgres]'",
        ) from None
    return await PostgresStore(address).open()


def database_of(address: str) -> tuple[str, str] | None:
    """Returns the connection string for libpq and the schema, if the store at an address is in PostgreSQL."""
    if "://" not in address:
        return None
    from spindle.stores.postgres.address import parse

    found = parse(address)
    return found.conninfo, found.schema


def close_to_others(folder: Path, note: Note) -> None:
    """Takes others' rights to the state away, where an older Spindle or somebody's umask left them some."""
    opened = tighten_folder(folder)
    if opened:
        more = f" and {len(opened) - 1} more in it" if len(opened) > 1 else ""
        note(f"others could use {opened[0]}{more}: they are yours alone now")


def shown(address: str) -> str:
    """The address without user, password and parameters, except the schema."""
    scheme, is_address, rest = address.partition("://")
    if not is_address:
        return address
    place, _, parameters = rest.rpartition("@")[2].partition("?")
    schema = "".join(f"?schema={value}" for name, value in parse_qsl(parameters) if name == "schema")
    return f"{scheme}://{place}{schema}"
