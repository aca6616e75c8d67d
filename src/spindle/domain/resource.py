"""Resources and prompts: what MCP servers offer besides tools."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from spindle.domain.call import Block
from spindle.domain.json_schema import JsonObject


@dataclass(frozen=True, slots=True)
class Resource:
    """Something that a source lets others read: a file, a row, a page. A template stands for many."""

    uri: str
    name: str
    source: str
    title: str | None = None
    description: str | None = None
    mime_type: str | None = None
    size: int | None = None
    is_template: bool = False
    """True if `uri` has places such as `{id}` that a reader fills in."""

    def to_dict(self) -> JsonObject:
        """Returns the resource as JSON, without empty fields."""
        return _filled(
            uri=self.uri,
            name=self.name,
            source=self.source,
            title=self.title,
            description=self.description,
            mime_type=self.mime_type,
            size=self.size,
            is_template=self.is_template or None,
        )


@dataclass(frozen=True, slots=True)
class ResourceChange:
    """A source said that a resource is no longer what it was."""

    uri: str
    source: str
    at: float
    """The time at which it was heard."""

    def to_dict(self) -> JsonObject:
        """Returns the change as JSON."""
        return {"uri": self.uri, "source": self.source, "at": self.at}


@dataclass(frozen=True, slots=True)
class PromptArgument:
    """One value that a prompt takes. It is always a text."""

    name: str
    description: str | None = None
    required: bool = False

    def to_dict(self) -> JsonObject:
        """Returns the argument as JSON, without empty fields."""
        return {**_filled(name=self.name, description=self.description), "required": self.required}


@dataclass(frozen=True, slots=True)
class SourcePrompt:
    """A text for a model that a source keeps ready, perhaps with places to fill in."""

    name: str
    source: str
    title: str | None = None
    description: str | None = None
    arguments: tuple[PromptArgument, ...] = ()

    def to_dict(self) -> JsonObject:
        """Returns the prompt as JSON, without empty fields."""
        return {
            **_filled(name=self.name, source=self.source, title=self.title, description=self.description),
            "arguments": [argument.to_dict() for argument in self.arguments],
        }


@dataclass(frozen=True, slots=True)
class PromptMessage:
    """One message of a filled-in prompt, said by `user` or `assistant`."""

    role: str
    content: Block


@dataclass(frozen=True, slots=True)
class FilledPrompt:
    """A prompt with its arguments in place: messages to begin a conversation with a model."""

    messages: tuple[PromptMessage, ...]
    description: str | None = None

    @property
    def text(self) -> str:
        """The text of all messages, joined by a newline."""
        return "\n".join(item.content.text for item in self.messages if item.content.text is not None)

    def to_dict(self) -> JsonObject:
        """Returns the messages as JSON."""
        messages = [{"role": item.role, "content": item.content.to_dict()} for item in self.messages]
        return {**_filled(description=self.description), "messages": messages}


def _filled(**fields: Any) -> JsonObject:
    return {key: value for key, value in fields.items() if value is not None}
