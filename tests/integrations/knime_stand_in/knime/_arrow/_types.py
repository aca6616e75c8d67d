"""The Arrow type of columns that have a logical type."""

from __future__ import annotations

from typing import Any

import pyarrow as pa


class LogicalTypeExtensionType(pa.ExtensionType):
    def __init__(self, converter: Any, storage_type: pa.DataType, logical_type: str) -> None:
        self._converter = converter
        self._logical_type = logical_type
        super().__init__(storage_type, "knime.logical_type")

    def __arrow_ext_serialize__(self) -> bytes:
        return self._logical_type.encode()

    @classmethod
    def __arrow_ext_deserialize__(cls, storage_type: Any, serialized: Any) -> Any:
        from knime.api.types import get_converter

        return cls(get_converter(serialized.decode()), storage_type, serialized.decode())
