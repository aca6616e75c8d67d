"""Records as JSON: their fields by name."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from _typeshed import DataclassInstance


def fields_of(record: DataclassInstance) -> dict[str, Any]:
    """Returns all fields of a record."""
    return {name: getattr(record, name) for name in record.__dataclass_fields__}


def set_fields(record: DataclassInstance) -> dict[str, Any]:
    """Returns the fields of a record that are not None."""
    return {name: value for name, value in fields_of(record).items() if value is not None}
