"""A question to a language model as a node, and a task for an agent as one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, Literal

from spindle.calls.known_secrets import with_known
from spindle.calls.record import clean
from spindle.domain.json_schema import JsonObject
from spindle.domain.text_values import as_text
from spindle.flows.definition import AgentTask, Approval, Batch, ModelPrompt, NodeDefinition, Retry
from spindle.flows.node_done import NodeDone
from spindle.flows.shared import SharedLookup
from spindle.flows.workspace_node import WorkspaceNode

if TYPE_CHECKING:
    from spindle.domain.call import Host


class _AnsweredNode(WorkspaceNode):
    """A node whose output is the answer of a model or of an agent."""

    kind: ClassVar[Literal["model", "agent"]]
    can_spread = True

    def _given(self, shared: Mapping[str, Any], item: JsonObject | None) -> JsonObject:
        lookup = SharedLookup(shared, item)
        given = work_of(self.definition)[1]
        for place, text in self.definition.texts.items():
            value = self._rendered(text, lookup, place)
            said = value if isinstance(value, str) else as_text(value)
            # A model, and whoever runs it, is told no secret.
            given[place.partition(".")[2]] = clean(said, with_known(frozenset()))
        return given

    def _shown(self, given: JsonObject) -> JsonObject:
        names = [place.partition(".")[2] for place, text in self.definition.texts.items() if text]
        return {name: given[name] for name in names}

    async def _work(self, given: JsonObject) -> NodeDone:
        async def once(host: Host) -> JsonObject:
            result = await host.work(self.kind, given)
            return result.structured

        found = await self._in_time([self.id, self.visit, self.cur_retry, given], once)
        self.report.attempts += 1
        self.report.add_usage(found["usage"])
        return NodeDone(found["answer"])


class ModelNode(_AnsweredNode):
    """Asks a language model. Its answer is the output: text, or a value that fits `schema`."""

    kind = "model"

    def __init__(
        self,
        prompt: str,
        *,
        id: str = "model",
        system: str = "",
        schema: JsonObject | None = None,
        model: str | None = None,
        limits: Mapping[str, Any] | None = None,
        settings: Mapping[str, Any] | None = None,
        outputs: Mapping[str, str] | None = None,
        retry: Retry | None = None,
        timeout: float | None = None,
        batch: Batch | None = None,
        fail_when: str | None = None,
        approval: Approval | None = None,
        description: str = "",
    ) -> None:
        asked = ModelPrompt(prompt, system, schema, model, dict(limits or {}), dict(settings or {}))
        super().__init__(
            NodeDefinition(
                id, model=asked, outputs=dict(outputs or {}), retry=retry or Retry(), timeout=timeout,
                batch=batch, fail_when=fail_when, approval=approval, description=description,
            )
        )  # fmt: skip


class AgentNode(_AnsweredNode):
    """Lets an agent work on a task with tools of the catalog. Its answer is the output. The run pauses where
    the agent has to wait for a person."""

    kind = "agent"

    def __init__(
        self,
        task: str,
        tools: Sequence[str],
        *,
        id: str = "agent",
        instructions: str = "",
        schema: JsonObject | None = None,
        model: str | None = None,
        approve: Sequence[str] | None = None,
        ask_user: bool = True,
        limits: Mapping[str, Any] | None = None,
        settings: Mapping[str, Any] | None = None,
        outputs: Mapping[str, str] | None = None,
        retry: Retry | None = None,
        timeout: float | None = None,
        batch: Batch | None = None,
        fail_when: str | None = None,
        approval: Approval | None = None,
        description: str = "",
    ) -> None:
        asked = AgentTask(
            task, tuple(tools), instructions, schema, model, None if approve is None else tuple(approve),
            ask_user, dict(limits or {}), dict(settings or {}),
        )  # fmt: skip
        super().__init__(
            NodeDefinition(
                id, agent=asked, outputs=dict(outputs or {}), retry=retry or Retry(), timeout=timeout,
                batch=batch, fail_when=fail_when, approval=approval, description=description,
            )
        )  # fmt: skip


def work_of(node: NodeDefinition) -> tuple[str, JsonObject]:
    """Returns the kind of work that such a node does, and all about it that the definition says."""
    asked = node.model or node.agent
    assert asked is not None
    kind = "model" if node.model is not None else "agent"
    given: JsonObject = {name: getattr(asked, name) for name in asked.__slots__}
    for name in {"tools", "approve"} & given.keys():  # as JSON
        given[name] = None if given[name] is None else list(given[name])
    return kind, {name: value for name, value in given.items() if value is not None}
