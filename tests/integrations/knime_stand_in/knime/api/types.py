"""Value factories, and their registration by logical type."""

from __future__ import annotations

import importlib
import json
from typing import Any


class PythonValueFactory:
    def __init__(self, compatible_type: type) -> None:
        self.compatible_type = compatible_type

    def decode(self, storage: Any) -> Any:
        return storage

    def encode(self, value: Any) -> Any:
        return value

    def needs_conversion(self) -> bool:
        return True


_FACTORIES: dict[str, PythonValueFactory] = {}


def register_python_value_factory(
    module: str,
    class_name: str,
    data_type: str,
    data_spec_json: str,
    data_traits: str,
    value_type_name: str,
    is_default: bool = True,
) -> None:
    made = getattr(importlib.import_module(module), class_name)()
    if not isinstance(made, PythonValueFactory):
        raise TypeError(f"{class_name} must be of type knime.api.types.PythonValueFactory")
    json.loads(data_type)
    _FACTORIES[data_type] = made


def get_converter(logical: str) -> PythonValueFactory | None:
    return _FACTORIES.get(logical)
