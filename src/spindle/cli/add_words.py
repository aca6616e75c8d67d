"""The meaning of the words of `spindle add`: a program, a URL, a document or a preset."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from spindle.errors import NotFoundError, SpindleError, suggest

if TYPE_CHECKING:
    from spindle.presets import Preset

# The one tool of a WebSocket service whose messages nobody has described yet.
_SEND = {
    "description": "Send a message to the service and return its next message",
    "message": "{message}",
    "parameters": {"message": {"type": "object", "required": True, "description": "The message, as JSON"}},
}


@dataclass(frozen=True, slots=True)
class Addition:
    """A source that is to be added."""

    name: str
    preset: Preset | None = None
    arguments: Sequence[str] = ()
    """The arguments for the preset."""
    program: Sequence[str] = ()
    url: str | None = None
    document: str | None = None
    kind: str | None = None
    """The kind of the document, or of the URL if that is not an MCP server."""
    given: dict[str, Any] | None = None
    """All its settings, where a registry or a draft gives them."""
    note: str | None = None
    """A sentence for the user."""

    def table(self) -> dict[str, Any]:
        """The source's settings as far as the words say them."""
        if self.given is not None:
            return dict(self.given)
        if self.preset is not None:
            return self.preset.table(self.arguments)
        if self.document is not None:
            return {"kind": self.kind, "document": self.document}
        if self.kind == "websocket":
            return {"kind": self.kind, "url": self.url, "requests": {"send": _SEND}}
        if self.url is not None:
            return {"kind": self.kind, "url": self.url} if self.kind else {"url": self.url}
        return {"command": list(self.program)}


def addition(words: Sequence[str], after: Sequence[str] | None, arguments: Sequence[str]) -> Addition:
    """The source that the words name: `NAME -- COMMAND…`, `NAME URL` or `PRESET [NAME]`."""
    from spindle.cli.errors import UsageMistakeError
    from spindle.presets import presets

    if not words:
        raise UsageMistakeError("say what to add", "see `spindle add --help`, or `spindle add --presets`")
    first, *rest = words
    url = next((word for word in rest if "://" in word), None)
    preset = presets().get(first)
    if url is not None:
        if len(rest) > 1 or after:
            raise UsageMistakeError("give a name and a URL, and nothing else", f"spindle add {first} {url}")
        return _at(first, url)
    if after is not None:
        return _program(first, rest, after, preset)
    if preset is None:
        raise _not_a_preset(first, rest)
    if len(rest) > 1:
        raise UsageMistakeError(
            f"{rest[1]!r} is one word too many",
            f"give a preset's arguments with --arg: spindle add {first} --arg {rest[-1]}",
        )
    return Addition(rest[0] if rest else first, preset=preset, arguments=arguments)


def not_for_a_preset(addition: Addition) -> SpindleError:
    """The error for `--arg` beside something that is no preset."""
    from spindle.cli.errors import UsageMistakeError

    hint = "write them after `--`, with the command" if addition.program else None
    return UsageMistakeError("--arg is for the arguments of a preset", hint)


def _at(name: str, url: str) -> Addition:
    scheme, _, rest = url.partition("://")
    if scheme.lower() not in ("ws", "wss"):
        return Addition(name, url=url)
    note = (
        f"{name}.send sends any message; describe the service's own requests in the settings "
        "to get a tool for each: see docs/how-to/websocket.md"
    )
    return Addition(name, url=f"{scheme.lower()}://{rest}", kind="websocket", note=note)


def _program(name: str, rest: Sequence[str], command: Sequence[str], preset: Preset | None) -> Addition:
    from spindle.cli.errors import UsageMistakeError

    if rest:
        raise UsageMistakeError(
            f"{rest[0]!r} is one word too many before `--`", "spindle add NAME -- COMMAND…"
        )
    if not command:
        raise UsageMistakeError("there is no command after `--`", "spindle add NAME -- COMMAND…")
    note = None
    if preset is not None and preset.argument is not None and not preset.is_started_by(command):
        note = (
            f"{command[0]!r} is started as a program; the preset {name!r} gets its "
            f"{preset.argument.name} with --arg: spindle add {name} --arg {command[-1]}"
        )
    return Addition(name, program=command, note=note)


def _not_a_preset(first: str, rest: Sequence[str]) -> SpindleError:
    from spindle.cli.errors import UsageMistakeError
    from spindle.presets import presets

    if "://" in first:
        return UsageMistakeError("a source needs a name", f"spindle add NAME {first}")
    meant = suggest(first, presets())
    if rest and not meant:
        command = " ".join(rest)
        return UsageMistakeError(
            f"{rest[0]!r} is not a URL, and {first!r} is not a preset",
            f"to start a program, put `--` before it: spindle add {first} -- {command}",
        )
    hint = f"did you mean {meant!r}?" if meant else "`spindle add --presets` lists them"
    return NotFoundError(f"there is no preset {first!r}", hint=hint)


def pairs(option: str, words: Sequence[str]) -> dict[str, str]:
    """The values of an option `KEY=VALUE` by their keys."""
    from spindle.cli.errors import UsageMistakeError

    found: dict[str, str] = {}
    for word in words:
        key, sign, value = word.partition("=")
        if option == "--header" and ":" in (key if sign else word):
            key, sign, value = word.partition(":")  # as in HTTP itself; its value may have `=`
        if not sign or not key.strip():
            raise UsageMistakeError(f"{option} {word!r} is not of the form KEY=VALUE")
        found[key.strip()] = value.strip() if option == "--header" else value
    return found
