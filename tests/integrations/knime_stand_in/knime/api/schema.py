"""Types, columns and schemas."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class KnimeType:
    name: str
    inner: tuple[KnimeType, ...] = ()


@dataclass(frozen=True)
class LogicalType:
    logical_type: str
    storage: KnimeType


def string() -> KnimeType:
    return KnimeType("string")


def int32() -> KnimeType:
    return KnimeType("int32")


def bool_() -> KnimeType:
    return KnimeType("bool")


def blob() -> KnimeType:
    return KnimeType("blob")


def list_(inner: KnimeType) -> KnimeType:
    return KnimeType("list", (inner,))


def struct(*inner: KnimeType) -> KnimeType:
    return KnimeType("struct", inner)


@dataclass(frozen=True)
class Column:
    ktype: KnimeType | LogicalType
    name: str


@dataclass(frozen=True)
class Schema:
    columns: tuple[Column, ...]

    @classmethod
    def from_columns(cls, columns: Sequence[Column]) -> Schema:
        return cls(tuple(columns))

    @property
    def column_names(self) -> list[str]:
        return [column.name for column in self.columns]
