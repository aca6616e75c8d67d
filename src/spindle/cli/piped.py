"""The input of a flow that is piped in."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from spindle.errors import InvalidArgumentsError

if TYPE_CHECKING:
    from spindle.app import Spindle
    from spindle.domain.json_schema import JsonObject
    from spindle.flows.definition import FlowDefinition
    from spindle.flows.inputs import InputNames

_SIGNS = (
    (b"\x89PNG\r\n\x1a\n", "image/png"),
    (b"\xff\xd8\xff", "image/jpeg"),
    (b"GIF8", "image/gif"),
    (b"%PDF-", "application/pdf"),
    (b"PK\x03\x04", "application/zip"),
    (b"\x1f\x8b", "application/gzip"),
    (b"ID3", "audio/mpeg"),
    (b"OggS", "audio/ogg"),
)
"""The first bytes of kinds of files."""


async def piped_input(
    app: Spindle, flow: FlowDefinition, names: InputNames, given: JsonObject, *, needed: bool
) -> JsonObject:
    """Returns piped input as the input `stdin`, or as the only one that is missing; what is no text as a file
    value. Raises InvalidArgumentsError if none of them takes what is piped in."""
    from spindle.calls.flags import value_of
    from spindle.cli.stdin import PATIENCE_WHEN_NEEDED, PATIENCE_WHEN_OPTIONAL, is_piped_into, read_piped

    missing = [name for name in names.required if name not in given]
    name = "stdin" if "stdin" in names.inputs else missing[0] if len(missing) == 1 else None
    if name is None or name in given:
        if await is_piped_into():
            raise _unused(flow, name, missing)
        return {}
    is_needed = needed and name in missing
    data = await read_piped(PATIENCE_WHEN_NEEDED if is_needed else PATIENCE_WHEN_OPTIONAL)
    if not data and (data is None or not is_needed):
        if is_needed:
            raise _absent(flow, name)
        return {}
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError:
        return {name: await _file_value(app, flow, name, names.inputs[name], data)}
    # As `$(…)` in a shell: what ends the last line does not belong to the text.
    return {name: value_of(text.removesuffix("\n").removesuffix("\r"), names.inputs[name], name)}


async def _file_value(
    app: Spindle, flow: FlowDefinition, name: str, schema: JsonObject, data: bytes
) -> JsonObject:
    """Keeps binary data as a file, and returns the block that refers to it."""
    from dataclasses import replace

    from spindle.domain.call import Block

    kind = next((kind for sign, kind in _SIGNS if data.startswith(sign)), "application/octet-stream")
    if data[:4] == b"RIFF":
        kind = {b"WEBP": "image/webp", b"WAVE": "audio/wav"}.get(data[8:12], kind)
    types: Any = schema.get("type")
    if types is not None and "object" not in ([types] if isinstance(types, str) else types):
        raise InvalidArgumentsError(
            f"what is piped in is no text ({kind}, {len(data)} bytes), and {_taker(flow, name)} takes "
            f"{' or '.join([types] if isinstance(types, str) else types)}",
            hint=f"it is a file: ${{{name}.path}} is its place, ${{{name}.mime_type}} its kind"
            + ("" if name == "stdin" else f"; declare the input {name!r} as an object"),
        )
    whole = Block.of_bytes(b"", kind)
    return replace(whole, data=None, path=await app.files.keep(data, kind), size=len(data)).to_dict()


def _taker(flow: FlowDefinition, name: str) -> str:
    bound = (
        f"`{key}` of node {node.id!r}"
        for node in flow.nodes
        for key, value in node.params.items()
        if value == f"${{{name}}}"
    )
    return next(bound, "the flow" if name == "stdin" else f"the input {name!r}")


def _absent(flow: FlowDefinition, name: str) -> InvalidArgumentsError:
    if name != "stdin":
        return InvalidArgumentsError(
            f"{flow.name or 'this pipe'} needs the input {name!r}",
            hint=f"give --{name}=VALUE, or pipe it in",
        )
    return InvalidArgumentsError(
        f"{_taker(flow, name)} takes piped input, and nothing was piped in",
        hint="pipe something into `spindle run`, or set it with a flag",
    )


def _unused(flow: FlowDefinition, name: str | None, missing: list[str]) -> InvalidArgumentsError:
    who = flow.name or "this pipe"
    if name is not None:
        why = f"the input {name!r} is given already"
    elif missing:
        why = f"{who} needs {' and '.join(map(repr, missing))}, and only one can be piped in"
    else:
        why = f"no input of {who} takes it"
    return InvalidArgumentsError(
        f"something is piped in, but {why}",
        hint="${stdin} names it in a line of tools; `</dev/null` after the command keeps it away",
    )
