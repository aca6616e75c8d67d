"""Statements that every database takes, so that the stores share them.

`{schema}` stands for the place of our tables, `{now}` for the clock by which leases end, and `:name` for a
value; each store writes them in its own way.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

from spindle.auth.details import CLEAR
from spindle.ports.store import Seal

Row: TypeAlias = tuple[Any, ...]
Values: TypeAlias = Mapping[str, Any]

NO_VALUES: Values = {}
Change: TypeAlias = tuple[str, Values]
"""A statement and its values."""
NO_LIMIT = 2**62
"""A number of rows that no table has, for a limit that is none."""


class SqlQueries(ABC):
    """A store that runs single statements. The texts among the values may be any: the store makes them such
    that its database takes them."""

    _seal: Seal = CLEAR

    def seal_with(self, seal: Seal) -> None:
        """Encrypts details with this from now on, and opens what was encrypted."""
        self._seal = seal

    @abstractmethod
    async def _rows(self, query: str, values: Values = NO_VALUES) -> list[Row]:
        """Returns all rows of a query."""

    @abstractmethod
    async def _change(self, statement: str, values: Values = NO_VALUES, *, again: bool = True) -> int:
        """Runs a statement in a transaction and returns how many rows it touched. `again=False`: it must not
        be repeated where the connection was lost and it is unknown if it took effect."""

    @abstractmethod
    async def _change_all(self, changes: Sequence[Change], *, only_if_first: bool = False) -> bool:
        """Runs statements in one transaction, once. With `only_if_first`, False and nothing is changed if the
        first of them touches no row."""


def select(table: str, columns: Sequence[str]) -> str:
    """The statement that reads these columns."""
    return f"SELECT {', '.join(columns)} FROM {{schema}}.{table}"  # noqa: S608 - only constants


def insert(table: str, columns: Sequence[str]) -> str:
    """The statement that writes a row, with its values by the names of the columns."""
    values = ", ".join(f":{column}" for column in columns)
    return f"INSERT INTO {{schema}}.{table} ({', '.join(columns)}) VALUES ({values})"  # noqa: S608 - only constants
