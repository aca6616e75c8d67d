"""Records: classes of data that are made for every call, and their fields as JSON."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar

__all__ = ["fields_of", "quick_dataclass", "set_fields"]

if TYPE_CHECKING:
    from dataclasses import dataclass as quick_dataclass

    from _typeshed import DataclassInstance
else:
    T = TypeVar("T")

    def quick_dataclass(*, frozen: bool, slots: bool, repr: bool = True) -> Callable[[type[T]], type[T]]:
        """A frozen `dataclass` to the type checker, which refuses every change. At runtime it is not frozen:
        that would set each field through a function, and take five times as long."""
        return dataclasses.dataclass(slots=slots, repr=repr, unsafe_hash=frozen)


def fields_of(record: DataclassInstance) -> dict[str, Any]:
    """Returns all fields of a record."""
    return {name: getattr(record, name) for name in record.__dataclass_fields__}


def set_fields(record: DataclassInstance) -> dict[str, Any]:
    """Returns the fields of a record that are not None."""
    fields = record.__dataclass_fields__
    return {name: value for name in fields if (value := getattr(record, name)) is not None}
