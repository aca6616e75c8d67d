"""What was kept of a run of an agent: its events, its messages, and the results that were cut."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from spindle.agents.definition import Job
from spindle.agents.events import AgentEvent
from spindle.domain.json_schema import JsonObject
from spindle.errors import NotFoundError

if TYPE_CHECKING:
    from pydantic_ai.messages import ModelMessage

    from spindle.auth.encryption import Sealer
    from spindle.domain.run import Run
    from spindle.ports.store import RunStore

KIND = "agent"


def events_of(run: str, data: JsonObject) -> Iterator[AgentEvent]:
    """The events that one note of a run stands for."""
    step = data.get("step", 0)
    match data["kind"]:
        case "start":
            yield AgentEvent("start", run, text=data["task"])
        case "turn":
            calls = iter(data["tools"])
            for part in data["response"]["parts"]:
                kind = part.get("part_kind")
                if kind == "thinking" and part["content"]:
                    yield AgentEvent("thought", run, step, part["content"])
                elif kind == "text" and part["content"]:
                    yield AgentEvent("text", run, step, part["content"])
                elif kind == "tool-call":
                    yield AgentEvent(
                        "tool_call", run, step, tool=next(calls) or part["tool_name"],
                        call_id=part["tool_call_id"], arguments=_readable(part["args"]),
                    )  # fmt: skip
        case "result":
            yield AgentEvent(
                "tool_result", run, step, data["text"], data["tool"] or data["name"], data["id"],
                outcome=data["outcome"],
            )  # fmt: skip
        case "told":
            yield AgentEvent("told", run, step, data["text"])
        case _:
            yield AgentEvent("end", run, step, data["result"]["text"], result=data["result"])


@dataclass(frozen=True, slots=True)
class Record:
    run: Run
    job: Job
    notes: Sequence[JsonObject]

    def events(self) -> Iterator[AgentEvent]:
        for note in self.notes:
            yield from events_of(self.run.id, note)

    def messages(self, step: int | None = None) -> list[ModelMessage]:
        """The conversation, up to a step and the results of its calls."""
        from spindle.agents.conversation import Conversation, read_messages, read_response

        last = max((note.get("step", 0) for note in self.notes), default=0)
        if step is not None and not 0 <= step <= last:
            raise NotFoundError(f"run {self.run.id} has no step {step}", hint=f"it has steps 1 to {last}")
        conversation = Conversation(read_messages(self.job.history))
        if self.job.task:
            conversation.say(self.job.task)
        kept = [note for note in self.notes if step is None or note.get("step", 0) <= step]
        for note in sorted(kept, key=_in_order):
            if note["kind"] == "turn":
                conversation.respond(read_response(note["response"]))
            elif note["kind"] == "result":
                failed = note["outcome"] != "ok"
                conversation.answer_call(note["id"], note["name"], note["text"], failed=failed)
            elif note["kind"] == "told":
                conversation.say(note["text"])
        return conversation.messages()

    def whole(self, reference: str) -> str | None:
        """All of a result that was cut under this reference."""
        mark, _, place = reference.partition("-")
        if mark != self.run.id[:8]:
            return None
        for note in self.notes:
            if note["kind"] == "result" and f"{note['step']}-{note['index'] + 1}" == place:
                return note.get("whole")
        return None


def _is_ours(path: str) -> bool:
    """Whether the agent noted it itself, and not a flow that it called."""
    return path.partition("#")[0].count("/") == 1


def _readable(arguments: object) -> object:
    """Arguments as an object where they are one; as the model wrote them where that is broken."""
    if not isinstance(arguments, str):
        return arguments or {}
    try:
        return json.loads(arguments, strict=False) if arguments.strip() else {}
    except (ValueError, RecursionError):
        return arguments


def _in_order(note: JsonObject) -> tuple[int, int, int]:
    order = {"start": 0, "turn": 1, "result": 2, "told": 3, "end": 4}
    return note.get("step", 0), order[note["kind"]], note.get("index", 0)


async def read_record(store: RunStore, sealer: Sealer, run: str) -> Record:
    found = await store.run(run) if run else None
    if found is None or found.kind != KIND:
        what = f"run {found.id} is not one of an agent" if found else f"there is no run {run!r}"
        raise NotFoundError(what, hint="`spindle runs` lists them")
    notes: list[JsonObject] = []
    given: JsonObject | None = None
    for event in await store.history(found.id):
        if event.sealed is None:
            continue
        if event.kind == "note" and _is_ours(event.path):
            notes.append(sealer.open(event.sealed, f"run:{found.id}:{event.path}"))
        elif event.kind == "started":
            given = sealer.open(event.sealed, f"run:{found.id}:started")
    if given is None:
        raise NotFoundError(f"what run {found.id} was started with is not in the store")
    return Record(found, Job.from_dict(given), notes)
