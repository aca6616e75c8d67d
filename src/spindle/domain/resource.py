"""Resources and prompts: what MCP servers offer besides tools."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from spindle.domain.call import Block
from spindle.domain.json_schema import JsonObject
from spindle.domain.records import fields_of, set_fields

MAX_URI: Final = 2048
"""Characters of an address, or of a template for addresses: what browsers and proxies agree on."""


def uri_problem(uri: str) -> str | None:
    """Returns why an address is none that anybody could have been given, or None."""
    return f"the address {uri[:60]}… has more than {MAX_URI} characters" if len(uri) > MAX_URI else None


def places_of(template: str) -> tuple[list[str], list[str]]:
    """Returns the fixed parts of a template, and the expressions between them, in braces."""
    fixed, places = [""], list[str]()
    at = 0
    while (start := template.find("{", at)) >= 0:
        end = template.find("}", start)
        if end < 0:
            break
        # The innermost braces count.
        start = template.rfind("{", start, end)
        fixed[-1] += template[at:start]
        places.append(template[start : end + 1])
        fixed.append("")
        at = end + 1
    fixed[-1] += template[at:]
    return fixed, places


def fits_template(uri: str, template: str) -> bool:
    """True if an address may come from a template. Every expression may stand for anything, since only the
    source knows exactly."""
    if len(uri) > MAX_URI or len(template) > MAX_URI:
        return False
    (first, *between), places = places_of(template)
    if not places:
        return uri == first
    last = between.pop()
    if not uri.startswith(first) or not uri.endswith(last) or len(uri) < len(first) + len(last):
        return False
    # The first place where a part is found leaves the most room for those after it: no other has to be tried.
    at, end = len(first), len(uri) - len(last)
    for part in between:
        found = uri.find(part, at, end)
        if found < 0:
            return False
        at = found + len(part)
    return True


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
        fields = set_fields(self)
        if not self.is_template:
            del fields["is_template"]
        return fields


@dataclass(frozen=True, slots=True)
class ResourceChange:
    """A source said that a resource is no longer what it was."""

    uri: str
    source: str
    at: float
    """The time at which it was heard."""

    def to_dict(self) -> JsonObject:
        """Returns the change as JSON."""
        return fields_of(self)


@dataclass(frozen=True, slots=True)
class PromptArgument:
    """One value that a prompt takes. It is always a text."""

    name: str
    description: str | None = None
    required: bool = False

    def to_dict(self) -> JsonObject:
        """Returns the argument as JSON, without empty fields."""
        return set_fields(self)


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
        return set_fields(self) | {"arguments": [argument.to_dict() for argument in self.arguments]}


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
        return set_fields(self) | {"messages": messages}
