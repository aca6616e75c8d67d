"""Tables as files: Parquet, Feather and Arrow IPC.

When reading, the format is recognised by the first bytes; when writing, it is chosen by the file's suffix.
"""

from __future__ import annotations

import os
import uuid
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import pyarrow as pa

from spindle.domain.json_schema import JsonObject
from spindle.domain.records import fields_of
from spindle.errors import TableError, suggest
from spindle.tables.columns import TODAY, as_tools, layout_of

Format = Literal["parquet", "arrow", "stream"]

SUFFIXES: dict[str, Format] = {
    ".parquet": "parquet",
    ".feather": "arrow",
    ".arrow": "arrow",
    ".ipc": "arrow",
    ".arrows": "stream",
}
MAX_FILE = 1 << 30
MAX_UNPACKED = 4 << 30

_STREAM_START = b"\xff\xff\xff\xff"


def read_table(path: Path | str) -> pa.Table:
    """Reads the whole table. Raises TableError, which says what is wrong with the file."""
    file = Path(path)
    return _read(file, _format_of(file))


def write_table(table: pa.Table, path: Path | str) -> None:
    """Writes the table. A concurrent reader sees the whole old file or the whole new one."""
    file = Path(path)
    _write(table, file, format_for(file))


@dataclass(frozen=True, slots=True)
class ConvertedColumn:
    """A column that was converted from an older layout."""

    column: str
    layout: str
    rows: int

    def to_dict(self) -> JsonObject:
        return fields_of(self)


@dataclass(frozen=True, slots=True)
class Migration:
    """The changes that `migrate` made to a file; none if `changes` is empty."""

    file: Path
    rows: int
    changes: tuple[ConvertedColumn, ...]
    kept: tuple[str, ...]
    """The other columns, which are unchanged."""

    def to_dict(self) -> JsonObject:
        changes = [change.to_dict() for change in self.changes]
        return {"file": str(self.file), "rows": self.rows, "changes": changes, "kept": list(self.kept)}


def migrate(path: Path | str) -> Migration:
    """Converts every column of tools in a file to the current layout. The rest of the file stays as it is,
    and a file without old columns is not written."""
    file = Path(path)
    form = _format_of(file)
    table = _read(file, form)
    changes: list[ConvertedColumn] = []
    kept: list[str] = []
    holds_tools = False
    for index, field in enumerate(table.schema):
        layout = layout_of(field.type)
        holds_tools = holds_tools or layout is not None
        if layout is None or field.type == TODAY:
            kept.append(field.name)
            continue
        column = table.column(index)
        try:
            converted = as_tools(column)
        except TableError as error:
            raise TableError(f"{file}: column {field.name!r}: {error.message}", hint=error.hint) from None
        new_field = pa.field(field.name, TODAY, field.nullable, _own_metadata(field))
        table = table.set_column(index, new_field, converted)
        changes.append(ConvertedColumn(field.name, layout, len(column)))
    if not holds_tools:
        from spindle.tables.columns import tool_column_name

        tool_column_name(table)  # says what is there instead
    if changes:
        _write(table, file, form, **_options_of(file, form))
    return Migration(file, table.num_rows, tuple(changes), tuple(kept))


# --- reading


def _format_of(file: Path) -> Format:
    try:
        size = file.stat().st_size
        if file.is_dir():
            raise TableError(f"{file} is a folder, not a file")
        with file.open("rb") as opened:
            start = opened.read(8)
    except FileNotFoundError:
        raise TableError(f"there is no file {file}", hint=_neighbour(file)) from None
    except OSError as error:
        raise TableError(f"cannot read {file}: {error.strerror or error}") from None
    if size > MAX_FILE:
        raise TableError(f"{file} has {size:,} bytes; tables of tools are read up to {MAX_FILE:,}")
    if start.startswith(b"PAR1"):
        return "parquet"
    if start.startswith((b"ARROW1", b"FEA1")):
        return "arrow"
    if start.startswith(_STREAM_START):
        return "stream"
    what = "is empty" if not start else "is not a table: neither Parquet nor Feather nor Arrow IPC"
    raise TableError(f"{file} {what}", hint="`spindle table from SOURCE --out tools.parquet` writes one")


def _read(file: Path, form: Format) -> pa.Table:
    readers: dict[Format, Callable[[Path], pa.Table]] = {
        "parquet": _read_parquet,
        "arrow": _read_arrow,
        "stream": _read_stream,
    }
    try:
        table = readers[form](file)
        # Finds broken offsets here, instead of later when a value is read.
        table.validate(full=True)
    except TableError as error:
        raise TableError(f"{file}: {error.message}", hint=error.hint) from None
    except (pa.ArrowException, OSError, EOFError) as error:
        reason = str(error).strip().split("\n", 1)[0]
        raise TableError(
            f"{file} cannot be read as {_NAMES[form]}: {reason}",
            hint="it is damaged or cut off: write it again",
        ) from None
    return table


_NAMES: dict[Format, str] = {
    "parquet": "Parquet",
    "arrow": "Feather or Arrow IPC",
    "stream": "an Arrow IPC stream",
}


# Tables of tools are read without Arrow's own threads. The type of a tool's column is written in Python, so a
# thread of Arrow that still holds one when the program ends would wait for an interpreter that is gone.


def _read_parquet(file: Path) -> pa.Table:
    import pyarrow.parquet as pq

    with pq.ParquetFile(file) as opened:
        metadata = opened.metadata
        unpacked = sum(metadata.row_group(index).total_byte_size for index in range(metadata.num_row_groups))
        if unpacked > MAX_UNPACKED:
            raise TableError(f"it unpacks to {unpacked:,} bytes; at most {MAX_UNPACKED:,} are read")
        return opened.read(use_threads=False)


def _read_arrow(file: Path) -> pa.Table:
    import pyarrow.feather as feather

    return feather.read_table(file, memory_map=False, use_threads=False)


def _read_stream(file: Path) -> pa.Table:
    in_order = pa.ipc.IpcReadOptions(use_threads=False)
    with pa.OSFile(str(file)) as opened, pa.ipc.open_stream(opened, options=in_order) as reader:
        return reader.read_all()


def _neighbour(file: Path) -> str | None:
    try:
        names = [entry.name for entry in file.parent.iterdir() if entry.suffix in SUFFIXES]
    except OSError:
        return None
    meant = suggest(file.name, names)
    return f"did you mean {meant}?" if meant else None


# --- writing


def format_for(file: Path) -> Format:
    """The format that a file's suffix means. Raises TableError for an unknown suffix."""
    form = SUFFIXES.get(file.suffix.lower())
    if form is None:
        known = ", ".join(SUFFIXES)
        raise TableError(
            f"{file.name!r} does not say which format to write", hint=f"end its name with one of {known}"
        )
    return form


def _write(table: pa.Table, path: Path, form: Format, **options: Any) -> None:
    file = path.resolve()
    try:
        part = file.with_name(f".{file.name}.{uuid.uuid4().hex}.part")
        try:
            with part.open("xb") as out:
                _write_to(out, table, form, options)
                out.flush()
                os.fsync(out.fileno())
            if file.exists():
                part.chmod(file.stat().st_mode & 0o777)
            part.replace(file)
        except BaseException:
            part.unlink(missing_ok=True)
            raise
    except (OSError, pa.ArrowException) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise TableError(f"cannot write {path}: {reason}") from None


def _write_to(out: Any, table: pa.Table, form: Format, options: dict[str, Any]) -> None:
    if form == "parquet":
        import pyarrow.parquet as pq

        pq.write_table(table, out, **options)
    elif form == "stream":
        with pa.ipc.new_stream(out, table.schema) as writer:
            writer.write_table(table)
    else:
        with pa.ipc.new_file(out, table.schema, options=pa.ipc.IpcWriteOptions(compression="lz4")) as writer:
            writer.write_table(table)


def _options_of(file: Path, form: Format) -> dict[str, Any]:
    """The compression of the file, so that it can be written the same way again."""
    if form != "parquet":
        return {}
    import pyarrow.parquet as pq

    with pq.ParquetFile(file) as opened:
        metadata = opened.metadata
        if not metadata.num_row_groups or not metadata.num_columns:
            return {}
        return {
            "compression": metadata.row_group(0).column(0).compression.lower().replace("uncompressed", "none")
        }


def _own_metadata(field: pa.Field) -> dict[bytes, bytes] | None:
    """The metadata of a column without the name of the extension type that it no longer has."""
    kept = {
        key: value for key, value in (field.metadata or {}).items() if not key.startswith(b"ARROW:extension:")
    }
    return kept or None
