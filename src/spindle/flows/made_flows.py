"""Flows as they are run: built from a definition once, however often the same is run."""

from __future__ import annotations

import hashlib
from collections.abc import MutableMapping
from typing import TYPE_CHECKING

from spindle.domain.bounded import BoundedMap
from spindle.domain.json_schema import to_json
from spindle.errors import FlowError
from spindle.flows.build import DefinedFlow, build, definition_of, is_data, name_nodes
from spindle.flows.definition import FlowDefinition
from spindle.flows.flow import Flow
from spindle.flows.text.document import check_document
from spindle.flows.text.files import Loaded
from spindle.flows.text.writing import to_document

if TYPE_CHECKING:
    from spindle.domain.json_schema import JsonObject

MAX_FLOWS = 32
MAX_NODES = 1_000
"""Nodes of a flow that is kept."""


class MadeFlows:
    """The flows that were run, by what defines them. `named` are those written in Python, by name."""

    def __init__(self, named: MutableMapping[str, Flow]) -> None:
        self._named = named
        self._built: BoundedMap[bytes, DefinedFlow] = BoundedMap(MAX_FLOWS)

    def of(self, flow: Loaded | Flow | FlowDefinition) -> tuple[Flow, JsonObject | None]:
        """Returns the flow to run, and its document for the record; None for one written in Python.

        The flow that runs is the one that is recorded, so that a resumed run does the same: a flow that a
        program made of tools is built again from its definition.
        """
        if isinstance(flow, DefinedFlow):
            return flow, flow.document
        if isinstance(flow, Loaded):
            made = self._of_text(flow)
            return made, made.document
        if isinstance(flow, Flow):
            if not is_data(flow):
                name_nodes(flow)
                if not flow.name:
                    raise FlowError(
                        "a flow with parts written in Python needs a name to be run here",
                        hint='Flow(start, name="…"): a paused run is resumed by this name',
                    )
                self._named[flow.name] = flow
                return flow, None
            flow = definition_of(flow)
        made = self._of_definition(flow)
        return made, made.document

    def _of_text(self, loaded: Loaded) -> DefinedFlow:
        """Returns the flow of a text. One that says the same as before is the same flow, which need not be
        checked again, wherever its lines are now."""
        definition = loaded.definition
        json = to_json(definition, default=repr)
        key = hashlib.sha256(loaded.place.encode() + b"\0" + json).digest()
        known = self._built.use(key)
        if known is None or known.json != json:
            known = build(definition, positions=loaded.positions, place=loaded.place)
            if len(definition.nodes) <= MAX_NODES:
                self._built[key] = known
        known.positions = loaded.positions
        return known

    def _of_definition(self, definition: FlowDefinition) -> DefinedFlow:
        try:
            json = to_json(definition)
        except (TypeError, ValueError, RecursionError):
            return _checked(definition)  # which says what is wrong with it, if anything is
        key = hashlib.sha256(json).digest()
        known = self._built.use(key)
        # The values in it are a program's own, which may have changed them since.
        if known is None or to_json(known.definition) != json:
            known = _checked(definition)
            known.json = json
            if len(definition.nodes) <= MAX_NODES:
                self._built[key] = known
        return known


def _checked(definition: FlowDefinition) -> DefinedFlow:
    document = to_document(definition)
    check_document(document)  # a text is checked when it is read; this was none
    made = build(definition)
    made.document = document
    return made
