"""The record of a run of an agent: its events, its messages, and the results that were cut."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from spindle.agents.definition import Job
from spindle.agents.events import AgentEvent
from spindle.domain.json_schema import JsonObject
from spindle.errors import NotFoundError
from spindle.remedies import Remedy
from spindle.runs.record import origin_in

if TYPE_CHECKING:
    from pydantic_ai.messages import ModelMessage

    from spindle.auth.encryption import Sealer
    from spindle.domain.run import Run
    from spindle.ports.store import RunStore

KIND = "agent"


def events_of(run: str, data: JsonObject) -> Iterator[AgentEvent]:
    """Returns the events of one note of a run."""
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
        case "cut":
            yield AgentEvent("compacted", run, step, data["text"])
        case "switched":
            yield AgentEvent("switched", run, step, data["text"])
        case _:
            yield AgentEvent("end", run, step, data["result"]["text"], result=data["result"])


@dataclass(frozen=True, slots=True)
class Record:
    """The record of one run."""

    run: Run
    job: Job
    notes: Sequence[JsonObject]
    untrusted: str | None = None
    """The tool that brought untrusted content into the run first."""

    def events(self) -> Iterator[AgentEvent]:
        for note in self.notes:
            yield from events_of(self.run.id, note)

    def messages(self, step: int | None = None) -> list[ModelMessage]:
        """Returns the conversation, up to a step and the results of its calls."""
        from spindle.agents.context import Cut
        from spindle.agents.conversation import Conversation, read_messages, read_response

        last = max((note.get("step", 0) for note in self.notes), default=0)
        if step is not None and not 0 <= step <= last:
            raise NotFoundError(f"run {self.run.id} has no step {step}", hint=f"it has steps 1 to {last}")
        conversation = Conversation(read_messages(self.job.history), self.job.run)
        self.job.tell(conversation)
        kept = [note for note in self.notes if step is None or note.get("step", 0) <= step]
        for note in sorted(kept, key=_in_order):
            if note["kind"] == "cut":
                for given in note["cuts"]:
                    conversation.cut(Cut(**given))
            elif note["kind"] == "turn":
                conversation.respond(read_response(note["response"]))
            elif note["kind"] == "result":
                failed, is_ours = note["outcome"] != "ok", note.get("ours", False)
                about = self.job.about_result(note["step"], note["index"], note["tool"])
                conversation.answer_call(
                    note["id"], note["name"], note["text"], failed=failed, about=about, is_ours=is_ours
                )
            elif note["kind"] == "told":
                conversation.say(note["text"])
        return conversation.messages()

    def whole(self, reference: str) -> str | None:
        """Returns the whole of a result that was cut, or left out, under this reference."""
        mark, _, place = reference.partition("-")
        if mark != self.run.id[:8]:
            return None
        for note in self.notes:
            if note["kind"] == "result" and f"{note['step']}-{note['index'] + 1}" == place:
                return note.get("whole", note["text"])
        return None


def _is_ours(path: str) -> bool:
    """True if the agent made the note itself, not a flow that it called."""
    return path.partition("#")[0].count("/") == 1


def _readable(arguments: object) -> object:
    """Returns arguments as an object if they are one, or else as the model wrote them."""
    if not isinstance(arguments, str):
        return arguments or {}
    try:
        return json.loads(arguments, strict=False) if arguments.strip() else {}
    except (ValueError, RecursionError):
        return arguments


def _in_order(note: JsonObject) -> tuple[int, int, int]:
    order = {"start": 0, "cut": 1, "switched": 2, "turn": 3, "result": 4, "told": 5, "end": 6}
    return note.get("step", 0), order[note["kind"]], note.get("index", 0)


async def read_record(store: RunStore, sealer: Sealer, run: str) -> Record:
    """Reads the record of a run. Raises NotFoundError."""
    found = await store.run(run) if run else None
    if found is None or found.kind != KIND:
        what = f"run {found.id} is not a run of an agent" if found else f"there is no run {run!r}"
        raise NotFoundError(what, remedy=Remedy("list_runs"))
    notes: list[JsonObject] = []
    given: JsonObject | None = None
    untrusted: str | None = None
    for event in await store.history(found.id):
        if event.sealed is None:
            continue
        if event.kind == "note" and (origin := origin_in(event.path)) is not None:
            untrusted = untrusted or origin
        elif event.kind == "note" and _is_ours(event.path):
            notes.append(sealer.open(event.sealed, f"run:{found.id}:{event.path}"))
        elif event.kind == "started":
            given = sealer.open(event.sealed, f"run:{found.id}:started")
    if given is None:
        raise NotFoundError(f"what run {found.id} was started with is not in the store")
    return Record(found, Job.from_dict(given), notes, untrusted)
