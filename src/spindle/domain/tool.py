"""A tool: one thing that can be called, whatever protocol it comes from."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field
from typing import Any, Literal

from spindle.domain.definitions import Definitions, references_in
from spindle.domain.json_schema import EMPTY_OBJECT_SCHEMA, JsonObject, canonical, parameters
from spindle.domain.records import fields_of, set_fields
from spindle.domain.trail import FIELD

SHOWN = "shown"
"""The key in a tool's metadata of what MCP says of it besides, for those who are shown it: its icons, its
`execution`, and the title in its annotations. It changes nothing of what a call does."""
NOT_MARKED = frozenset({FIELD, SHOWN})
"""The keys in a tool's metadata that its fingerprint leaves out."""


Effect = Literal["read-only", "changes things", "destructive", "safe to repeat"]
"""The effect of a call, in the words by which people choose tools."""


@dataclass(frozen=True, slots=True)
class Hints:
    """A tool's promises about its effects. None: it does not say."""

    read_only: bool | None = None
    idempotent: bool | None = None
    destructive: bool | None = None
    open_world: bool | None = None

    @property
    def safe_to_repeat(self) -> bool:
        """True if a call may be made twice without harm."""
        return bool(self.read_only or self.idempotent)

    def to_dict(self) -> dict[str, bool]:
        """Returns the promises that are made, as JSON."""
        return set_fields(self)

    def promise(self, effect: Effect) -> bool:
        """True if a tool with these promises has such an effect, as far as it says."""
        if effect == "read-only":
            return self.read_only is True
        if effect == "safe to repeat":
            return self.safe_to_repeat
        return self.read_only is not True and (effect == "changes things" or self.destructive is True)


@dataclass(frozen=True, slots=True)
class Repaired:
    """The schemas of a tool as they are used, where those that its source gave cannot be."""

    input_schema: JsonObject
    output_schema: JsonObject | None
    faults: tuple[str, ...] = ()
    """The parts of them that were dropped, and why. Empty where they say the same in other words."""

    def to_dict(self) -> JsonObject:
        """Returns them as JSON."""
        return {**fields_of(self), "faults": list(self.faults)}

    @classmethod
    def from_dict(cls, data: JsonObject) -> Repaired:
        """Returns those that `to_dict` wrote."""
        return cls(data["input_schema"], data["output_schema"], tuple(data["faults"]))


@dataclass(frozen=True, slots=True)
class ToolSpec:
    """A tool as its source describes it, before the catalog gives it a name of its own.

    `remote_name` is the source's name for it and is sent back as it came, never parsed out of an id.
    `place` says where a person finds the definition (a file and line, a server).
    """

    remote_name: str
    description: str = ""
    input_schema: JsonObject = field(default_factory=lambda: dict(EMPTY_OBJECT_SCHEMA))
    output_schema: JsonObject | None = None
    title: str | None = None
    hints: Hints = Hints()
    tags: tuple[str, ...] = ()
    place: str = ""
    pure: bool = False
    metadata: JsonObject = field(default_factory=dict[str, Any])
    definitions: Definitions | None = field(default=None, repr=False, compare=False)
    """The schemas that these refer to as `#/$defs/...` and do not hold: shared by the source's tools."""
    unusable: str | None = field(default=None, compare=False)
    """The reason why it cannot be called. Such a tool is left out of the catalog, and its source stays."""
    repaired: Repaired | None = field(default=None, repr=False, compare=False)
    """Its schemas as they are used; None where those that it has can be."""

    def definition(self) -> JsonObject:
        """Returns all that a model or a caller relies on; the fingerprint is taken over this."""
        fields: JsonObject = {
            "name": self.remote_name,
            "title": self.title,
            "description": self.description,
            "input_schema": self.input_schema,
            "output_schema": self.output_schema,
            "hints": self.hints.to_dict() or None,
            "tags": list(self.tags) or None,
            "pure": self.pure or None,
            "metadata": self.metadata or None,
        }
        return {key: value for key, value in fields.items() if value is not None}

    def to_dict(self) -> JsonObject:
        """Returns the definition as it is stored, with what was made of it."""
        if self.repaired is None:
            return self.definition()
        return {**self.definition(), "repaired": self.repaired.to_dict()}

    @property
    def usable_input(self) -> JsonObject:
        """The schema of its arguments as it is used, without shared definitions."""
        return self.input_schema if self.repaired is None else self.repaired.input_schema

    @property
    def usable_output(self) -> JsonObject | None:
        """The schema of its result as it is used, without shared definitions."""
        return self.output_schema if self.repaired is None else self.repaired.output_schema

    def whole_definition(self) -> JsonObject:
        """Returns the definition with schemas that stand by themselves."""
        whole = self.definition()
        if self.definitions is not None:
            for key in ("input_schema", "output_schema"):
                if key in whole:
                    whole[key] = self.definitions.completed(whole[key])
        return whole

    @property
    def fingerprint(self) -> str:
        """A mark that changes with the definition."""
        fields = self.definition()
        if not NOT_MARKED.isdisjoint(self.metadata):
            # By which workspaces it is served says nothing of the tool, and changes when one of them moves.
            kept = {key: value for key, value in self.metadata.items() if key not in NOT_MARKED}
            fields["metadata"] = kept or None
        text = canonical({key: value for key, value in fields.items() if value is not None})
        if self.definitions is not None:
            text += self.definitions.digest_of(references_in(text))
        return hashlib.sha256(text).hexdigest()

    @classmethod
    def from_definition(
        cls, data: JsonObject, place: str = "", definitions: Definitions | None = None
    ) -> ToolSpec:
        """Returns the spec of a definition, or of what `to_dict` wrote."""
        repaired = data.get("repaired")
        return cls(
            remote_name=data["name"],
            description=data.get("description", ""),
            input_schema=data["input_schema"],
            output_schema=data.get("output_schema"),
            title=data.get("title"),
            hints=Hints(**data.get("hints", {})),
            tags=tuple(data.get("tags", ())),
            place=place,
            pure=data.get("pure", False),
            metadata=data.get("metadata", {}),
            definitions=definitions,
            repaired=Repaired.from_dict(repaired) if repaired else None,
        )


@dataclass(frozen=True, slots=True)
class LeftOut:
    """A tool that a source lists and the catalog does not take, with the reason."""

    name: str
    reason: str

    def to_dict(self) -> JsonObject:
        """Returns it as JSON."""
        return {"name": self.name, "reason": self.reason}


@dataclass(frozen=True, slots=True)
class Loosened:
    """A tool, or a definition that tools of a source share, of whose schemas something was dropped."""

    name: str
    reason: str

    def to_dict(self) -> JsonObject:
        """Returns it as JSON."""
        return {"name": self.name, "reason": self.reason}


@dataclass(frozen=True, slots=True)
class Tool:
    """A tool in the catalog: a source's spec under a unique name."""

    name: str
    source: str
    kind: str
    spec: ToolSpec
    fingerprint: str
    forms: dict[str, Any] = field(default_factory=dict[str, Any], init=False, repr=False, compare=False)
    """Its schemas in the forms that were made of them, so that each is made once."""

    @property
    def local_name(self) -> str:
        """The name without its source."""
        return self.name.removeprefix(f"{self.source}.")

    @property
    def description(self) -> str:
        """The description that its source gives."""
        return self.spec.description

    @property
    def input_schema(self) -> JsonObject:
        """The schema of its arguments, with the shared definitions it refers to."""
        return self._complete("input", self.spec.usable_input)

    @property
    def output_schema(self) -> JsonObject | None:
        """The schema of its structured result, with the shared definitions it refers to, or None."""
        schema = self.spec.usable_output
        return None if schema is None else self._complete("output", schema)

    def _complete(self, side: str, schema: JsonObject) -> JsonObject:
        definitions = self.spec.definitions
        if definitions is None:
            return schema
        whole = self.forms.get(side)
        if whole is None:
            whole = self.forms[side] = definitions.completed(schema)
        return whole

    @property
    def faults(self) -> tuple[str, ...]:
        """The parts that were dropped of the schemas that its source gave, and why."""
        return self.spec.repaired.faults if self.spec.repaired is not None else ()

    @property
    def hints(self) -> Hints:
        """The promises about its effects."""
        return self.spec.hints

    @property
    def pure(self) -> bool:
        """True if two calls with the same arguments give the same and have no effect."""
        return self.spec.pure or bool(self.spec.hints.read_only)

    def _repr_html_(self) -> str:
        """Returns the view of a notebook."""
        from spindle.domain import html

        found = parameters(self.input_schema)
        rows = [
            (
                f"<code>{html.cell_html(item.name)}</code>",
                html.cell_html(item.label) + ("" if item.required else " <em>(optional)</em>"),
                html.cell_html(item.description),
            )
            for item in found[: html.MAX_ROWS]
        ]
        parts = [
            f"<strong><code>{html.cell_html(self.name)}</code></strong> <em>{html.cell_html(self.kind)}</em>",
            html.text_html(self.description) if self.description else "",
            html.table_html(("parameter", "type", "what it is"), rows)
            if rows
            else "<em>takes no arguments</em>",
            html.more_html(len(found) - len(rows), "parameter"),
        ]
        return "\n".join(part for part in parts if part)

    def to_dict(self) -> JsonObject:
        """Returns the tool as JSON, with whole schemas."""
        return {
            "name": self.name,
            "source": self.source,
            "kind": self.kind,
            "remote_name": self.spec.remote_name,
            "title": self.spec.title,
            "description": self.description,
            "input_schema": self.input_schema,
            "output_schema": self.output_schema,
            "hints": self.hints.to_dict(),
            "tags": list(self.spec.tags),
            "place": self.spec.place,
            "fingerprint": self.fingerprint,
            "loosened": list(self.faults),
        }


@dataclass(frozen=True, slots=True)
class ToolSummary:
    """A line of a listing or of search results: enough to choose, cheap to load by the thousand."""

    name: str
    source: str
    kind: str
    description: str
    tags: tuple[str, ...] = ()
    held: bool = False
    said: float = field(default=0.0, compare=False)
    """Found by words: how much of the question the tool says; 1 is all of a question of one word. A rare word
    is more of it than a common one, and the name of a tool says it louder than its parameters."""
    near: float = field(default=0.0, compare=False)
    """Found by meaning: how much nearer to the question the tool is than the farthest that was found, where 1
    is the usual distance of any tool from the middle of all."""

    @property
    def headline(self) -> str:
        """The first sentence or line of the description."""
        line = self.description.strip().split("\n", 1)[0]
        return line.split(". ", 1)[0].rstrip(".")

    def to_dict(self) -> JsonObject:
        """Returns the line as JSON."""
        return {
            "name": self.name,
            "source": self.source,
            "kind": self.kind,
            "description": self.description,
            "tags": list(self.tags),
            "held": self.held,
        }


class ToolList(list[ToolSummary]):
    """The tools of a listing or a search, which a notebook shows as a table."""

    def _repr_html_(self) -> str:
        from spindle.domain import html

        if not self:
            return "<em>no tools</em>"
        rows = [
            (
                f"<code>{html.cell_html(tool.name)}</code>",
                html.cell_html(tool.kind),
                html.cell_html(tool.headline),
            )
            for tool in self[: html.MAX_TOOLS]
        ]
        table = html.table_html(("tool", "kind", "what it does"), rows)
        return table + html.more_html(len(self) - len(rows), "tool")


def is_wrapped(schema: JsonObject | None) -> bool:
    """True if the server says that it wrapped a plain value in an object, which older MCP requires."""
    return (
        schema is not None
        and schema.get("x-fastmcp-wrap-result") is True
        and "result" in schema.get("properties", {})
    )
