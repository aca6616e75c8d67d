"""Values by name, computed by expressions, as a node."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from spindle.domain.json_schema import JsonObject
from spindle.flows.definition import Batch, NodeDefinition
from spindle.flows.node_done import NodeDone
from spindle.flows.shared import SharedLookup
from spindle.flows.workspace_node import WorkspaceNode


class Transform(WorkspaceNode):
    """Computes values from the shared store, without a tool. They are its output, and shared keys:
    `Transform({"total": "${sum(search.items, item.price)}"}, id="sums")`."""

    def __init__(
        self,
        values: Mapping[str, Any],
        *,
        id: str = "transform",
        batch: Batch | None = None,
        fail_when: str | None = None,
        outputs: Mapping[str, str] | None = None,
        description: str = "",
    ) -> None:
        super().__init__(
            NodeDefinition(
                id=id,
                transform=dict(values),
                batch=batch,
                fail_when=fail_when,
                outputs=dict(outputs or {}),
                description=description,
            )
        )

    def _given(self, shared: Mapping[str, Any], item: JsonObject | None) -> JsonObject:
        lookup = SharedLookup(shared, item)
        values = self.definition.transform or {}
        return {name: self._rendered(value, lookup, f"transform.{name}") for name, value in values.items()}

    def _shown(self, given: JsonObject) -> None:
        """Its output says all."""

    async def _work(self, given: JsonObject) -> NodeDone:
        return NodeDone(given)
