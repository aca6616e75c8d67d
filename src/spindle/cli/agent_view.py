"""Shows the work of an agent as it happens."""

from __future__ import annotations

from typing import TYPE_CHECKING

from spindle.domain.json_schema import to_json

if TYPE_CHECKING:
    from spindle.agents.events import AgentEvent
    from spindle.agents.record import Record
    from spindle.cli.output import Output
    from spindle.runs.outcomes import Paused

LONGEST = 160


class View:
    """Shows calls and results on stderr. On a terminal the answer's text appears on stdout as it is
    generated; in a pipe only the whole answer, at the end. With `stream`, everything is printed as lines
    of JSON."""

    def __init__(self, output: Output, *, stream: bool = False, says_text: bool = True) -> None:
        self.run_id: str | None = None
        self.is_stream = stream
        self.has_written = False
        """True if the text on stdout is the answer."""
        self._output = output
        self._shows_text = says_text and output.is_terminal and not output.as_json and not stream
        self._is_in_line = False

    @property
    def streams(self) -> bool:
        """True if text is wanted piece by piece."""
        return self._shows_text or self.is_stream

    def hear(self, event: AgentEvent) -> None:
        """Shows one event."""
        self.run_id = event.run_id
        if self.is_stream:
            self._output.line(to_json(event.to_dict(), default=str).decode())
            self._output.flush()
            return
        match event.kind:
            case "text":
                self._text(event.text or "")
            case "tool_call":
                self.end_line()
                self._output.aside(_short(_said(event)))
                self.has_written = False
            case "tool_result":
                self._output.aside(_short(_said(event)))
            case "told" | "compacted" | "switched":
                self.end_line()
                self._output.aside(_short(_said(event)))
                self.has_written = False
            case _:
                pass

    def show_pause(self, paused: Paused) -> None:
        """Shows a pause, if events are streamed."""
        if self.is_stream:
            from spindle.agents.agent import paused_event

            self.hear(paused_event(paused))

    def status(self, text: str) -> None:
        """Shows a line on stderr."""
        self.end_line()
        self._output.aside(text)

    def end_line(self) -> None:
        """Ends the current line of text."""
        if self._is_in_line:
            self._output.line()
            self._output.flush()
            self._is_in_line = False

    def _text(self, text: str) -> None:
        if self._shows_text and text:
            self._output.piece(text)
            self._is_in_line = self.has_written = True


def print_record(output: Output, record: Record, *, full: bool) -> None:
    """Prints a past run as it happened."""
    run, events = record.run, list(record.events())
    if output.as_json:
        told = [event.to_dict() for event in events]
        output.json({**run.to_dict(), "task": record.job.task, "agent_events": told})
        return
    for name, fact in (
        ("run", run.id),
        ("agent", run.name),
        ("status", run.status),
        ("task", record.job.task),
    ):
        output.line(f"{name + ':':<8}{fact}")
    for event in events:
        if event.kind not in ("start", "end"):
            line = f"{event.step:>3}  {_said(event)}"
            output.line(line if full else _short(line, keep=5))
    if run.error:
        output.line(f"\nfailed: {run.error.get('message')}")


def _said(event: AgentEvent) -> str:
    match event.kind:
        case "tool_call":
            return f"→ {event.tool} {to_json(event.arguments, default=str).decode()}"
        case "tool_result":
            return f"{'←' if event.outcome == 'ok' else '✗'} {event.tool}: {event.text or ''}"
        case "told" | "compacted" | "switched":
            return f"! {event.text or ''}"
        case "thought":
            return f"({event.text or ''})"
        case _:
            return event.text or ""


def _short(text: str, keep: int = 0) -> str:
    line = text[:keep] + " ".join(text[keep:].split())
    return line if len(line) <= LONGEST else line[: LONGEST - 1] + "…"
