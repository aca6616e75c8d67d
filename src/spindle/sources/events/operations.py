"""AsyncAPI documents of all versions, read into one shape: operations on channels at servers.

The application that a document describes is the workspace. In 3.x an operation says so itself: `send` and
`receive`. In 2.x the words are those of the other side: where others may `subscribe`, the application
sends, and what others `publish`, it receives.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any, Literal

from spindle.documents.refs import Document, Documents, Located, entries, shown
from spindle.domain.json_schema import JsonObject, is_array, is_object, pointer_steps
from spindle.errors import ConfigurationError, SpindleError

Action = Literal["send", "receive"]
EXTENSION = "x-agent-tool"


@dataclass(frozen=True, slots=True)
class EventMessage:
    """One of the messages that an operation may send or receive."""

    name: str
    node: JsonObject
    payload: Located | None
    schema_format: str | None
    content_type: str | None
    correlation: str | None = None
    """The runtime expression for the id that an answer repeats."""


@dataclass(frozen=True, slots=True)
class EventServer:
    """A server named in a document."""

    name: str
    protocol: str
    url: str
    """The URL with its variables, such as `{port}`, and `${VAR}`."""
    variables: dict[str, str] = field(default_factory=dict[str, str])
    version: str | None = None


@dataclass(frozen=True, slots=True)
class EventChannel:
    """A channel with its address and servers."""

    address: str | None
    parameters: dict[str, JsonObject]
    servers: list[EventServer]
    bindings: JsonObject


@dataclass(frozen=True, slots=True)
class ReplySpec:
    """The place that an operation's answers come to."""

    address: str | None
    location: str | None
    """The runtime expression for the reply address in the request."""


@dataclass(frozen=True, slots=True)
class EventOperation:
    """An operation of a document: it sends to a channel or receives from it."""

    id: str | None
    action: Action
    node: JsonObject
    channel: EventChannel
    messages: list[EventMessage]
    place: str
    reply: ReplySpec | None = None

    @property
    def extension(self) -> JsonObject | None:
        """The settings of the tool in the document; None if the operation is no tool."""
        given = self.node.get(EXTENSION)
        if given is True:
            return {}
        if given is None or given is False:
            return None
        if not is_object(given):
            raise ConfigurationError(f"{EXTENSION} must be true or an object, such as {{enabled: true}}")
        enabled = given.get("enabled")
        if not isinstance(enabled, bool):
            # Nothing is a tool by accident: the one word that makes it so must be there.
            said = "has no `enabled: true`" if enabled is None else "must say `enabled: true` or `false`"
            raise ConfigurationError(f"{EXTENSION} {said}, so the operation is no tool")
        return given if enabled else None


class AsyncApiReader:
    """The parts that all versions share. `documents` is one document with all that it refers to."""

    def __init__(self, documents: Documents, note: Callable[[str], None]) -> None:
        self.documents = documents
        self.main = documents.main
        self.note = note

    @property
    def root(self) -> JsonObject:
        return self.main.root

    @property
    def place(self) -> str:
        return shown(self.main.address)

    def follow(self, node: Any, document: Document) -> Located:
        return self.documents.follow(node, document)

    def merged(self, node: Any, document: Document, *, traits_win: bool) -> Located:
        """The object with its traits applied."""
        located = self.follow(node, document)
        own = entries(located.node)
        traits = own.get("traits")
        if not is_array(traits):
            return Located(own, located.document)
        parts = [entries(self.follow(trait, located.document).node) for trait in traits]
        ordered = [own, *parts] if traits_win else [*parts, own]
        result: JsonObject = {}
        for part in ordered:
            result = _patched(result, part)
        return Located(result, located.document)

    def message(self, name: str, node: Any, document: Document, *, traits_win: bool) -> EventMessage:
        located = self.merged(node, document, traits_win=traits_win)
        own, where = entries(located.node), located.document
        payload, schema_format = own.get("payload"), own.get("schemaFormat")
        if is_object(payload) and "schema" in payload and isinstance(payload.get("schemaFormat"), str):
            schema_format, payload = payload["schemaFormat"], payload["schema"]
        content_type = own.get("contentType") or self.root.get("defaultContentType")
        correlation = entries(self.follow(own.get("correlationId"), where).node).get("location")
        called = own.get("name") or own.get("messageId") or name
        return EventMessage(
            name=str(called),
            node=own,
            payload=None if "payload" not in own else Located(payload, where),
            schema_format=schema_format if isinstance(schema_format, str) else None,
            content_type=content_type if isinstance(content_type, str) else None,
            correlation=correlation if isinstance(correlation, str) else None,
        )

    def each(self, kind: str, items: JsonObject) -> Iterator[tuple[str, Any]]:
        """The entries of an object in the document, in order."""
        for name, node in items.items():
            if not is_object(node):
                self.note(f"{self.place}: {kind}.{name} is left out: it is not an object")
            else:
                yield name, node

    def variables(self, node: Any, document: Document) -> dict[str, str]:
        found: dict[str, str] = {}
        for name, variable in entries(node).items():
            default = entries(self.follow(variable, document).node).get("default")
            if isinstance(default, (str, int, float)):
                found[name] = str(default)
        return found

    def guarded(self, place: str, read: Callable[[], EventOperation | None]) -> EventOperation | None:
        """Reads one operation; if that fails, it is left out with a note."""
        try:
            return read()
        except SpindleError as error:
            self.note(f"{self.place}: {place} is left out: {error.message}")
            return None


def text_or_none(value: Any) -> str | None:
    """The value if it is a text that is not blank."""
    return value if isinstance(value, str) and value.strip() else None


def last_step(reference: str) -> str:
    """Returns the name at the end of a reference."""
    return (pointer_steps(reference) or [reference.rpartition("/")[2]])[-1]


def _patched(below: JsonObject, above: JsonObject) -> JsonObject:
    """JSON Merge Patch that leaves both sides unchanged."""
    result = dict(below)
    for key, value in above.items():
        under = result.get(key)
        result[key] = _patched(under, value) if is_object(under) and is_object(value) else value
    return result
