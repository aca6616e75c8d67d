"""Conditions of edges, over the shared store."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast

from spindle.errors import FlowError, suggest
from spindle.flows.definition import ELSE
from spindle.flows.expressions.errors import ExpressionError, UnresolvedError
from spindle.flows.expressions.parsing import parse
from spindle.flows.expressions.paths import written_path
from spindle.flows.shared import SharedLookup


def holds(when: str, shared: Any, whose: str) -> bool:
    """True if the condition holds. Raises FlowError if it has no value; `whose` is the node of the edge."""
    if when == ELSE:
        return True
    place = f"{whose}: when: {when}"
    if not isinstance(shared, Mapping):
        raise FlowError(f"{place}: the shared store is a {type(shared).__name__}, which has no names")
    lookup = SharedLookup(cast("Mapping[str, Any]", shared))
    try:
        return bool(parse(when).value(lookup))
    except UnresolvedError as error:
        meant = suggest(error.written, lookup.known(error.path))
        default = f"give it a default if it may be missing: {error.written} ?? …"
        hint = f"did you mean {meant}?" if meant and meant != error.written else default
        raise FlowError(f"{place}: {written_path(error.path)} has no value", hint=hint) from None
    except ExpressionError as error:
        raise FlowError(f"{place}: {error}", hint=error.hint) from None
