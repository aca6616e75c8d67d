"""Drafts flows in an open workspace."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from spindle.agents.limits import Limits
from spindle.agents.models import no_model, require_library
from spindle.agents.usage import Budget, read_prices
from spindle.calls.validate import problems_with
from spindle.domain.json_schema import JsonObject, is_object
from spindle.drafting.draft import Draft
from spindle.drafting.finding import Finder
from spindle.drafting.fitting import fit_of
from spindle.errors import InvalidArgumentsError, ModelError, NotFoundError, did_you_mean
from spindle.flows.check.check import check
from spindle.flows.problems import BrokenFlowError
from spindle.flows.signature import input_schema
from spindle.flows.text.files import Loaded, read
from spindle.remedies import Remedy

if TYPE_CHECKING:
    from pydantic_ai.models import Model

    from spindle.agents.workspace import WorkspaceAgents
    from spindle.calls.permissions import Visible
    from spindle.catalog.catalog import Catalog
    from spindle.domain.agent import AgentConfig
    from spindle.domain.identity import Principal
    from spindle.domain.tool import Tool
    from spindle.flows.definition import FlowDefinition
    from spindle.flows.problems import Problem
    from spindle.flows.workspace import WorkspaceFlows
    from spindle.ports.source import Note

MOST_WORDS = 20_000
NEAR = 3
"""The number of tools that are shown for each unknown name."""
MOST_OF_WHY = 500


class OtherFlowError(Exception):
    """The model's answer that a saved flow does something else than is asked for, with the reason."""


class Drafting:
    """One request in words. `model` is an object or a name; None: the model of the settings."""

    def __init__(
        self,
        catalog: Catalog,
        visible: Visible,
        agents: WorkspaceAgents,
        flows: WorkspaceFlows,
        note: Note,
        config: AgentConfig,
        model: str | Model | None,
        principal: Principal,
        limits: Limits | Mapping[str, Any] | None = None,
    ) -> None:
        self._finding = Finder(catalog, visible, principal, config.tools)
        self._agents = agents
        self._flows = flows
        self._note = note
        self._model = model if model is not None else config.model
        self._instructions = config.instructions
        self._limits = Limits.of(
            limits if limits is not None else config.limits.model_dump(exclude_none=True)
        )
        self._budget = Budget(self._limits, read_prices(config.prices))

    async def draft(self, words: str, *, reuse: bool = True) -> Draft:
        """Returns a saved flow that fits the words, or one that the model writes. `fill` adds its inputs."""
        words = words.strip()
        if not words:
            raise InvalidArgumentsError("the request is empty", hint="say what the flow should do")
        if len(words) > MOST_WORDS:
            raise InvalidArgumentsError(f"the request is longer than {MOST_WORDS} characters")
        await self._finding.make_ready()
        draft = await self._saved(words) if reuse else None
        return draft if draft is not None else await self._written(words)

    # --- a flow that is there already

    async def _saved(self, words: str) -> Draft | None:
        for tool in await self._finding.flows(words):
            found = self._flows.saved(tool.name)
            if not isinstance(found, Loaded):
                continue  # written in Python, or not of flows/: it is among the tools
            judged = fit_of(words, found.definition, tool)
            if not judged.is_candidate:
                if judged.refused is not None:
                    self._note(f"the saved flow {tool.name} is not used: {judged.refused}")
                continue
            problems = await check(found.definition, self._finding.find, found.positions, found.place)
            wrong = [problem for problem in problems if problem.severity == "error"]
            if not wrong:
                return Draft(
                    words, found.definition, tuple(problems), judged.inputs, from_saved=found.place,
                    doubts=judged.doubts,
                )  # fmt: skip
            self._note(f"the saved flow {tool.name} fits, but no longer works: {wrong[0]}")
        return None

    # --- a new one

    async def _written(self, words: str) -> Draft:
        model = await self._chosen_model()
        from spindle.drafting.dialogue import Dialogue
        from spindle.drafting.prompt import drafting

        tools = await self._finding.tools(words, self._limits.tools)
        if not tools:
            await self._finding.ask_for_consent()
            raise NotFoundError(f"no tool matches {words!r}", remedy=Remedy("list_tools"))
        instructions = "\n\n".join(filter(None, [drafting(tools), self._instructions]))
        dialogue = Dialogue(model, self._limits, self._budget)
        flow, problems = await dialogue.until_usable(instructions, words, self._read)
        if not flow.description:
            flow = replace(flow, description=words)
        return Draft(
            words, flow, tuple(problems), tools=tuple(tool.name for tool in tools), usage=self._budget.usage
        )

    async def _read(self, text: str) -> tuple[FlowDefinition, list[Problem]]:
        """Returns the flow of an answer, and its warnings. Raises UnusableError with the errors."""
        from spindle.drafting.dialogue import UnusableError
        from spindle.drafting.prompt import described, json_in, told

        document = json_in(text)
        if (why := _impossible(document)) is not None:
            raise ModelError(
                f"the model says that the tools cannot do this: {why}",
                hint="`spindle search` finds tools by words; `spindle add` adds a source",
            )
        try:
            loaded = read(document, "json")
        except BrokenFlowError as error:
            problems: Sequence[Problem] = error.problems
            more = ""
        else:
            problems = await check(loaded.definition, self._finding.find, loaded.positions, surface="model")
            if all(problem.severity != "error" for problem in problems):
                return loaded.definition, list(problems)
            more = described(await self._meant(loaded.definition))
        first = next(problem for problem in problems if problem.severity == "error")
        raise UnusableError(
            f"wrote no flow that works ({first.message})",
            told(problems, more),
            details=[problem.to_dict() for problem in problems],
        )

    async def _meant(self, flow: FlowDefinition) -> list[Tool]:
        """Returns tools that unknown names may mean."""
        found: dict[str, Tool] = {}
        for node in flow.nodes:
            try:
                if node.tool is not None:
                    await self._finding.find(node.tool)
            except NotFoundError:
                near = await self._finding.near(str(node.tool), NEAR)
                found.update({tool.name: tool for tool in near})
        return list(found.values())

    # --- what it is run with

    async def fill(self, draft: Draft, given: Mapping[str, Any]) -> Draft:
        """Returns the draft with values for its inputs: those that are given, and those found in the
        words. A flow that was just written already has the latter as defaults."""
        schema = input_schema(dict(draft.definition.inputs))
        known: JsonObject = schema["properties"]
        for name in given:
            if name not in known:
                listed = ", ".join(known) or "nothing"
                hint = did_you_mean(name, known, f"it takes {listed}")
                raise InvalidArgumentsError(
                    f"{draft.definition.name or 'the flow'} has no input {name!r}", hint=hint
                )
        said_by_rule, doubts = draft.inputs, draft.doubts
        wanted = {name: found for name, found in known.items() if name not in given}
        if given and not wanted:
            doubts = ()  # whatever the words say of values, these are meant
        draft = replace(draft, inputs={**said_by_rule, **given}, doubts=doubts)
        is_wanted = bool(wanted or doubts) if draft.from_saved is not None else bool(draft.missing)
        if not is_wanted or self._model is None:
            return draft
        model = await self._chosen_model()  # before the import, which needs the library
        from spindle.drafting.dialogue import Dialogue
        from spindle.drafting.prompt import filling, to_fill

        dialogue = Dialogue(model, self._limits, self._budget)
        without = {key: value for key, value in schema.items() if key != "required"}

        async def values(text: str) -> JsonObject:
            return _values(text, {**without, "properties": wanted, "additionalProperties": False})

        asked = to_fill(draft.words, draft.definition, wanted)
        try:
            said = await dialogue.until_usable(filling(), asked, values)
        except OtherFlowError as other:
            self._note(f"the saved flow {draft.definition.name} is not used: {other}")
            return await self.fill(await self._written(draft.words), given)
        return replace(draft, inputs={**said, **given}, doubts=(), usage=self._budget.usage)

    async def _chosen_model(self) -> Model:
        require_library()
        if self._model is None:
            raise no_model()
        return await self._agents.named(self._model) if isinstance(self._model, str) else self._model


def _impossible(document: str) -> str | None:
    import json

    from spindle.drafting.prompt import IMPOSSIBLE

    try:
        said: Any = json.loads(document, strict=False)
    except (ValueError, RecursionError):
        return None  # what is wrong with it is said where it is read
    return str(said[IMPOSSIBLE])[:MOST_OF_WHY] if is_object(said) and list(said) == [IMPOSSIBLE] else None


def _values(text: str, schema: JsonObject) -> JsonObject:
    from spindle.documents.places import TextError
    from spindle.documents.text import read
    from spindle.drafting.dialogue import UnusableError
    from spindle.drafting.prompt import OTHER, json_in

    try:
        found = read(json_in(text), "json").value
        wrong = [f"{item['path']}: {item['problem']}" for item in problems_with(schema, found, "the object")]
    except TextError as error:
        wrong = [error.problem]
        found = None
    if is_object(found) and list(found) == [OTHER]:
        raise OtherFlowError(str(found[OTHER])[:MOST_OF_WHY])
    if wrong or not is_object(found):
        listed = "; ".join(wrong)
        raise UnusableError(
            f"gave no usable values for the inputs ({listed})",
            f"The values do not fit: {listed}. Answer again.",
        )
    return found
