"""A call and what comes back from it."""

from __future__ import annotations

import base64
from collections.abc import AsyncIterable, Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal, Protocol

from spindle.domain.branching import Branching
from spindle.domain.failure import ToolFailure as ToolFailure
from spindle.domain.idempotency import IdempotencyKey as IdempotencyKey
from spindle.domain.idempotency import KeyPlace as KeyPlace
from spindle.domain.identity import LOCAL, NO_CREDENTIAL, Credential, Principal
from spindle.domain.ids import new_id as new_id
from spindle.domain.json_schema import JsonObject, to_json
from spindle.domain.records import fields_of, quick_dataclass, set_fields
from spindle.meanings import Meaning

if TYPE_CHECKING:
    from spindle.domain.flow_of_trust import TrustPolicy
    from spindle.domain.peer import Peer
    from spindle.domain.text_values import Parse
    from spindle.domain.tool import Tool


class Progress(Protocol):
    """Receives the progress of a call while it runs."""

    async def __call__(self, progress: float, total: float | None, message: str | None) -> None: ...


class FileKeeper(Protocol):
    """Takes binary content that is too large to carry inline, while it still comes in."""

    async def keep_stream(self, chunks: AsyncIterable[bytes], mime_type: str | None) -> str:
        """Store the content and return its path. Nothing of it stays when `chunks` ends with an error."""
        ...


INLINE_LIMIT = 256 * 1024
"""Binary content above this many bytes goes to the file store."""


@dataclass(frozen=True, slots=True)
class Reply:
    """A person's answer, or their reason for refusing. `state` is what the one who asked left for later."""

    answer: Any = None
    refused: str | None = None
    state: Any = None


class Host(Branching, Protocol):
    """The services of Spindle for a tool that serves a call. All of them act for the call's principal."""

    @property
    def principal(self) -> Principal:
        """The principal of the call."""
        ...

    @property
    def step_id(self) -> str | None:
        """An id of this step of its run, the same each time that the step is made; None outside of a run."""
        ...

    async def call(
        self,
        tool: str,
        arguments: Mapping[str, Any],
        *,
        timeout: float | None = None,
        use_cache: bool = True,
        cache_ttl: float | None = None,
        on_record: Callable[[CallRecord], None] | None = None,
    ) -> Result:
        """Calls another tool. `cache_ttl`: seconds that the result of a pure tool stays good, where its
        source does not say. `on_record` receives the call's record, unless the call was made before in the
        same run."""
        ...

    async def find(self, tool: str) -> Tool:
        """Returns the tool that a call of this name would reach."""
        ...

    async def work(self, kind: str, given: JsonObject) -> Result:
        """Does work that is no tool's, such as a question to a language model, as a step of the run."""
        ...

    async def require(self, kind: str, given: JsonObject) -> None:
        """Raises ConfigurationError if it is known before such work begins that it cannot be done here."""
        ...

    def parses(self, tool: Tool) -> Parse:
        """Returns how the source of a tool wants a text that is JSON to be seen by the nodes of flows."""
        ...

    async def kept(self, result: Result) -> Result:
        """Returns the result with all of its binary content in files."""
        ...

    def holds(self, path: str) -> bool:
        """True if the path is that of content that was kept."""
        ...

    async def secret(self, name: str) -> str:
        """Returns a secret of the workspace, by its name. Raises NotFoundError or PermissionDeniedError."""
        ...

    def ask(self, question: BaseException) -> Reply:
        """Returns a person's answer to this Interruption; raises it when nobody has answered yet."""
        ...

    async def remember(
        self,
        name: str,
        key: Any,
        make: Callable[[Host], Awaitable[Any]],
        *,
        in_doubt: Literal["ask", "repeat", "fail"] = "repeat",
    ) -> Any:
        """Returns what `make` returns, or returned when the run was at this place before. Only values that
        JSON can hold are remembered; others are made again. `make` is handed the host for its own calls.
        `in_doubt`: what becomes of it if a fault hit while it was made."""
        ...

    @property
    def policy(self) -> TrustPolicy | None:
        """The flow-of-trust policy to which all steps below this place keep."""
        ...

    @property
    def untrusted(self) -> str | None:
        """The tool that brought untrusted content into the run first."""
        ...

    def under(self, policy: TrustPolicy | None, origin: str = "") -> None:
        """Has all steps below this place keep to the policy. `origin`: where untrusted content came from that
        is there from the start."""
        ...

    def note(self, name: str, data: JsonObject) -> bool:
        """Keeps this in the run's history, encrypted; once, however often the run passes this place.
        False: it was kept before."""
        ...


@quick_dataclass(frozen=True, slots=True)
class Call:
    """One guarded use of a tool, or another request of a source, such as to read a resource: `tool` is then
    `source.method`, as in the history. `key` is the same for every attempt of the call."""

    tool: str
    arguments: JsonObject
    principal: Principal = LOCAL
    credential: Credential = NO_CREDENTIAL
    on_progress: Progress | None = None
    key: str = field(default_factory=new_id)
    parent: str | None = None
    """The key of the call during which this one was made."""
    files: FileKeeper | None = field(default=None, repr=False, compare=False)
    host: Host | None = field(default=None, repr=False, compare=False)
    reply: Reply | None = field(default=None, repr=False)
    """The answer of a person, where this call was made before and its source asked for input."""
    peer: Peer | None = field(default=None, repr=False, compare=False)
    answers: JsonObject | None = field(default=None, repr=False)
    """The answers of the peer to `Result.asked`, when it makes this call again."""
    idempotency_key: IdempotencyKey | None = None
    """The key to send, where the settings say that the source honours one."""
    can_pause: bool = True
    """False for what cannot wait until a person has answered: a request that is no call of a tool."""
    meta: JsonObject | None = field(default=None, repr=False)
    """The `_meta` that the client of a call sent along, such as its trace context, for a source that takes
    such."""

    @property
    def is_keyed(self) -> bool:
        """True if its source knows it again when it is sent once more."""
        return self.idempotency_key is not None

    def key_in(self, place: KeyPlace) -> dict[str, str]:
        """Returns the idempotency key by its name, if it belongs in this place, else nothing."""
        key = self.idempotency_key
        return {key.name: key.value} if key is not None and key.place == place else {}


BlockType = Literal["text", "image", "audio", "resource", "link"]


@quick_dataclass(frozen=True, slots=True)
class Block:
    """One piece of a result. Binary data is base64, or a `path` once it is kept in the file store."""

    type: BlockType
    text: str | None = None
    data: str | None = None
    mime_type: str | None = None
    uri: str | None = None
    name: str | None = None
    path: str | None = None
    size: int | None = None
    annotations: JsonObject | None = None
    besides: JsonObject | None = None
    """All else that MCP says of it, in its words: `_meta`, a link's `title` and `icons`; of a resource, under
    `resource`, the `_meta` of its contents."""

    def view(self, left: int) -> tuple[str, int]:
        """Returns the block as HTML, and how many of the bytes `left` for pictures and sound it took."""
        from spindle.domain import html

        if self.text is not None:
            return html.text_html(self.text), 0
        shown = html.media_html(self.mime_type, self.data, self.path, self.name or self.type, left)
        if shown is not None:
            return shown
        size = self.size if self.size is not None else len(self.data or "") * 3 // 4
        said = (self.type, self.name, self.mime_type, f"{size:,} bytes" if size else None, self.path)
        return html.described_html(said, self.uri), 0

    def to_dict(self) -> JsonObject:
        """Returns the block as JSON, without empty fields."""
        return set_fields(self)

    @classmethod
    def of_bytes(cls, content: bytes, mime_type: str = "application/octet-stream") -> Block:
        """Returns the block that carries binary content: an image, audio or anything else."""
        kind = mime_type.partition("/")[0]
        data = base64.b64encode(content).decode()
        type_: BlockType = "image" if kind == "image" else "audio" if kind == "audio" else "resource"
        return cls(type_, data=data, mime_type=mime_type, size=len(content))


@quick_dataclass(frozen=True, slots=True)
class Result:
    """The result of a call: every block in order, and structured data where the tool gives it."""

    content: tuple[Block, ...] = ()
    structured: Any = None
    is_error: bool = False
    """True when the tool reports an error; `category` says which kind."""
    has_structured: bool = False
    """True when the tool gave structured data, which may itself be null."""
    cached: bool = False
    action: str | None = None
    """The edge that a node chose, where the tool is a node of a flow."""
    changed: JsonObject | None = None
    """The arguments that the person who allowed the call put in place of those given."""
    asked: JsonObject | None = field(default=None, repr=False)
    """The questions of the source before it continues, as MCP has them: only for a call that has a peer,
    which is asked, or told to make the call again with the answers."""
    failure: ToolFailure | None = field(default=None, repr=False, compare=False)
    """The place where a Python tool failed. Not part of `to_dict`, which clients are sent."""
    meaning: Meaning | None = None
    """The meaning of the error that the result reports, where the source or a rule says more than that."""
    meta: JsonObject | None = None
    """The `_meta` that an MCP server sent along with it."""

    @classmethod
    def of_text(cls, text: str, *, is_error: bool = False, meaning: Meaning | None = None) -> Result:
        """Returns a result that is nothing but text."""
        return cls((Block("text", text=text),), is_error=is_error, meaning=meaning)

    @classmethod
    def of_value(cls, value: Any, text: str | None = None, *, is_error: bool = False) -> Result:
        """Returns a result of structured data, with its JSON as text unless there is another."""
        shown = to_json(value).decode() if text is None else text
        return cls((Block("text", text=shown),), value, is_error, has_structured=True)

    @property
    def category(self) -> str | None:
        """The category of the error that it reports, `tool` unless more is known; None without one."""
        if not self.is_error:
            return None
        return self.meaning.category if self.meaning is not None else "tool"

    @property
    def text(self) -> str:
        """All text of the result, blocks joined by a newline."""
        return "\n".join([block.text for block in self.content if block.text is not None])

    @property
    def value(self) -> Any:
        """The structured data where there is any, else the text."""
        return self.structured if self.has_structured else self.text

    def parsed(self, parse: Parse = "auto") -> Any:
        """The value, with a text that is JSON as what it stands for: if it is an object or a list as a whole
        (`auto`), or in any case (`json`). Raises ValueError if it must be JSON and is not."""
        from spindle.domain.text_values import value_of_text

        return value_of_text(self.value, parse) if isinstance(self.value, str) else self.value

    def _repr_html_(self) -> str:
        """Returns the view of a notebook."""
        from spindle.domain import html

        parts = [html.value_html(self.structured)] if self.has_structured else []
        # The text of structured data says the same once more.
        blocks = [block for block in self.content if not (self.has_structured and block.text is not None)]
        left = html.MAX_INLINE
        for block in blocks[: html.MAX_BLOCKS]:
            shown, used = block.view(left)
            parts.append(shown)
            left -= used
        parts.append(html.more_html(len(blocks) - html.MAX_BLOCKS, "block"))
        if (failure := self.failure) is not None:
            place = f"{failure.file}, line {failure.line}, in {failure.function}"
            parts.append(html.text_html(f"{place}\n    {failure.code}"))
        view = "\n".join(part for part in parts if part) or "<em>an empty result</em>"
        return html.error_html(view) if self.is_error else view

    def to_dict(self) -> JsonObject:
        """Returns the result as JSON. The category of an error is part of it."""
        return {
            "content": [block.to_dict() for block in self.content],
            "structured": self.structured,
            "is_error": self.is_error,
            **self.reported(),
            **({"meta": self.meta} if self.meta else {}),
        }

    def reported(self) -> JsonObject:
        """Returns the error that the result reports as JSON: its category, and what more is known of it."""
        if self.meaning is not None and self.is_error:
            return self.meaning.to_dict()
        return {"category": "tool"} if self.is_error else {}

    @classmethod
    def from_dict(cls, data: Mapping[str, Any], *, cached: bool = False) -> Result:
        """Returns the result that was written as JSON."""
        return cls(
            content=tuple(Block(**block) for block in data["content"]),
            structured=data["structured"],
            is_error=data["is_error"],
            has_structured=data.get("has_structured", data["structured"] is not None),
            action=data.get("action"),
            changed=data.get("changed"),
            cached=cached,
            meaning=_meaning_in(data),
            meta=data.get("meta"),
        )


def _meaning_in(data: Mapping[str, Any]) -> Meaning | None:
    meaning = Meaning.from_dict(data) if data["is_error"] else None
    return None if meaning == Meaning("tool") else meaning


Outcome = Literal["ok", "cached"] | str
"""The end of a call: `ok`, `cached`, or the category of its error."""


@quick_dataclass(frozen=True, slots=True)
class CallRecord:
    """The record of a call, with secrets masked. Of the result there is the beginning, if the caller asked
    to keep it."""

    key: str
    tool: str
    source: str
    principal: str
    arguments: JsonObject
    outcome: str
    started_at: float
    duration: float
    attempts: int
    error: JsonObject | None = None
    parent: str | None = None
    result: JsonObject | None = None
    run: str | None = None
    """The run that it was a step of, or that it became."""
    trace: str | None = None
    """The id of its trace, if tracing was on."""

    def to_dict(self) -> JsonObject:
        """Returns the record as JSON."""
        return fields_of(self)
