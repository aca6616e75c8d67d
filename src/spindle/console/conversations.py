"""The conversation of an agent, with each call and its result in one place."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from spindle.console.call_lines import shown_json

if TYPE_CHECKING:
    from spindle.agents.events import AgentEvent


@dataclass(frozen=True, slots=True)
class Said:
    """One thing that was said or done."""

    who: str
    """task, model, thought, call or note."""
    step: int
    text: str
    tool: str = ""
    arguments: str = ""
    outcome: str = ""
    """The end of a call: empty while it has none."""


def conversation(events: Iterable[AgentEvent]) -> Sequence[Said]:
    """Returns what was said, in order; results are folded into their calls."""
    found: list[Said] = []
    calls: dict[str, int] = {}
    for event in events:
        text = event.text or ""
        match event.kind:
            case "start":
                found.append(Said("task", 0, text))
            case "text":
                found.append(Said("model", event.step, text))
            case "thought":
                found.append(Said("thought", event.step, text))
            case "told":
                found.append(Said("note", event.step, text))
            case "tool_call":
                calls[event.call_id or ""] = len(found)
                found.append(Said("call", event.step, "", event.tool or "", shown_json(event.arguments)))
            case "tool_result" if (event.call_id or "") in calls:
                at = calls[event.call_id or ""]
                found[at] = replace(found[at], text=text, outcome=event.outcome or "ok")
            case _:
                pass
    return found
