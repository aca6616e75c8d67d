"""The input of a run, as it may be shown."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from spindle.calls.record import clean_json, secrets_in
from spindle.errors import AuthorizationRequired, SpindleError
from spindle.flows.secrets import without_secrets
from spindle.flows.text.document import from_record

if TYPE_CHECKING:
    from spindle.calls.caller import Caller
    from spindle.domain.json_schema import JsonObject
    from spindle.domain.run import Run
    from spindle.flows.flow import Flow


async def without_secrets_of(
    run: Run, given: JsonObject, known: Mapping[str, Flow], caller: Caller
) -> JsonObject:
    """Returns what a run was given with its secrets masked. `known` are flows written in Python."""
    if run.kind == "flow":
        made, document = known.get(given.get("flow", "")), given.get("definition")
        inputs = from_record(document).inputs if document else made.inputs if made is not None else {}
        hidden = {name: without_secrets(inputs, given.get(name) or {}) for name in ("inputs", "shared")}
        return {**given, **hidden, "params": without_secrets({}, given.get("params") or {})}
    arguments = given.get("arguments")
    if not arguments:
        return given
    try:
        schema = (await caller.find(run.name, run.principal)).input_schema
    except (SpindleError, AuthorizationRequired):
        schema = {}  # what is named like a secret is known without it
    return {**given, "arguments": clean_json(arguments, secrets_in(arguments, schema))}
