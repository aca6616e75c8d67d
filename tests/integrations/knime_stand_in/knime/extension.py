"""Decorators, parameters, tables and contexts of nodes."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from enum import Enum
from types import SimpleNamespace
from typing import Any

import pyarrow as pa

from knime._arrow._types import LogicalTypeExtensionType
from knime.api.schema import Column, LogicalType, Schema, bool_, int32, string, struct

__all__ = ["Column", "LogicalType", "Schema", "bool_", "int32", "string", "struct"]

ROW_ID = "<RowID>"


class InvalidParametersError(Exception):
    pass


class NodeType(Enum):
    SOURCE = "Source"
    OTHER = "Other"


def category(**given: Any) -> SimpleNamespace:
    return SimpleNamespace(**given)


def node(**given: Any) -> Callable[[type], type]:
    def mark(cls: type) -> type:
        cls.node = given  # type: ignore[attr-defined]
        return cls

    return mark


def _port(kind: str, *, group: bool = False) -> Callable[..., Callable[[type], type]]:
    def decorator(name: str, description: str, optional: bool = False) -> Callable[[type], type]:
        def mark(cls: type) -> type:
            # Decorators are applied from the last to the first.
            port = SimpleNamespace(name=name, optional=optional, group=group)
            setattr(cls, kind, [port, *getattr(cls, kind, [])])
            return cls

        return mark

    return decorator


input_table = _port("input_ports")
output_table = _port("output_ports")
input_table_group = _port("input_ports", group=True)
"""The user adds any number of ports to a group. A node gets the tables of a group in a list."""
output_table_group = _port("output_ports", group=True)


class _Parameter:
    """A descriptor: a node has the value, its class the parameter."""

    def __init__(
        self, label: str, description: str, default_value: Any = None, choices: Any = None, **limits: Any
    ) -> None:
        self.label, self.description, self.default_value = label, description, default_value
        self.choices, self.limits = choices, limits

    def __set_name__(self, owner: type, name: str) -> None:
        self._name = name

    def __get__(self, instance: Any, owner: type) -> Any:
        return self if instance is None else instance.__dict__.get(self._name, self.default_value)

    def __set__(self, instance: Any, value: Any) -> None:
        instance.__dict__[self._name] = value


class StringParameter(_Parameter):
    pass


class MultilineStringParameter(_Parameter):
    pass


class BoolParameter(_Parameter):
    pass


class IntParameter(_Parameter):
    pass


class Table:
    """A table. What comes in has a first column of row ids."""

    def __init__(self, table: pa.Table) -> None:
        self._table = table

    @classmethod
    def from_pyarrow(cls, table: pa.Table, row_ids: str = "auto") -> Table:
        for field in table.schema:
            if isinstance(field.type, pa.BaseExtensionType) and not isinstance(
                field.type, LogicalTypeExtensionType
            ):
                raise TypeError(f"Data type {field.type} is not supported in KNIME Python")
        if row_ids == "generate":
            ids = pa.array([f"Row{number}" for number in range(table.num_rows)])
            table = table.add_column(0, ROW_ID, ids)
        return cls(table)

    def to_pyarrow(self) -> pa.Table:
        for field in self._table.schema:
            storage = field.type.storage_type if isinstance(field.type, pa.ExtensionType) else field.type
            if pa.types.is_struct(storage) and any(
                storage.field(index).type == pa.int8() for index in range(storage.num_fields)
            ):
                raise TypeError("Cannot convert PyArrow type int8")
        return self._table


class ConfigurationContext:
    def __init__(self, credentials: dict[str, str] | None = None, output_ports: Sequence[int] = (1,)) -> None:
        self._credentials = credentials or {}
        self._output_ports = output_ports
        self.warnings: list[str] = []

    def get_credential_names(self) -> list[str]:
        return list(self._credentials)

    def get_credentials(self, name: str) -> SimpleNamespace:
        return SimpleNamespace(username="", password=self._credentials[name])

    def get_connected_output_port_numbers(self) -> list[int]:
        """A number for each output: 1, or of a group how many ports it has."""
        return list(self._output_ports)

    def set_warning(self, text: str) -> None:
        self.warnings.append(text)


class ExecutionContext(ConfigurationContext):
    """What a node sees of the workflow that it runs in. `cancel_when` is asked each time a node asks."""

    def __init__(
        self,
        credentials: dict[str, str] | None = None,
        cancel_when: Callable[[], bool] = lambda: False,
        execute_tool: Callable[..., Any] | None = None,
        output_ports: Sequence[int] = (1, 2),
    ) -> None:
        super().__init__(credentials, output_ports)
        self._cancel_when = cancel_when
        self._run_tool = execute_tool
        self.progress: list[tuple[float, str | None]] = []

    def is_canceled(self) -> bool:
        return self._cancel_when()

    def set_progress(self, progress: float, message: str | None = None) -> None:
        assert 0 <= progress <= 1
        self.progress.append((progress, message))

    def _execute_tool(self, tool: Any, configuration: Any, inputs: Any, execution_hints: Any) -> Any:
        """Gives a message, tables, and the ids of nodes with a view."""
        assert self._run_tool is not None
        assert all(isinstance(table, Table) for table in inputs)
        assert re.fullmatch(r".+", tool.name)
        return self._run_tool(tool, configuration, inputs, execution_hints)
