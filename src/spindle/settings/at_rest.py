"""The `[at_rest]` table: the form in which the store keeps what calls were given and what they returned."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Any, cast, get_args

from spindle.errors import ConfigurationError, suggest
from spindle.ports.store import DetailForm, SealedStore


@dataclass(frozen=True)
class AtRestSettings:
    """The `[at_rest]` table after validation."""

    history: DetailForm = "sealed"
    """Arguments, errors and results in the records of calls; `off` keeps none of them."""
    cache: DetailForm = "sealed"
    """Cached results; `off` caches nothing, whatever a source asks for."""

    def apply(self, store: SealedStore) -> None:
        """Lets the store keep details as these settings say."""
        store.keep_details(history=self.history, cache=self.cache)


KNOWN = tuple(field.name for field in fields(AtRestSettings))


def read_at_rest(table: Any, where: str) -> AtRestSettings:
    """Validates the `[at_rest]` table. `where` names the file in error messages."""
    if not isinstance(table, dict):
        raise ConfigurationError(f"{where}: `at_rest` must be a table: [at_rest]")
    given = cast("dict[str, Any]", table)
    for key, value in given.items():
        if key not in KNOWN:
            meant = suggest(key, KNOWN)
            hint = f"did you mean `{meant}`?" if meant else f"known are: {', '.join(KNOWN)}"
            raise ConfigurationError(f"{where}: at_rest.{key} is not a setting", hint=hint)
        if value not in get_args(DetailForm):
            raise ConfigurationError(f'{where}: at_rest.{key} must be "sealed", "clear" or "off"')
    return AtRestSettings(**given)
