"""The program that makes calls: what it can be asked, and the sessions that servers keep for it."""

from __future__ import annotations

from collections.abc import Collection
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from spindle.domain.json_schema import JsonObject


class SessionHolder(Protocol):
    """Somebody for whom a server may keep a session."""

    @property
    def holder(self) -> str:
        """The name of the program, or of the principal it acts for, among all holders. Empty for the owner of
        the workspace."""
        ...

    @property
    def has_session(self) -> bool:
        """True if it is one and the same program from call to call."""
        ...

    def wants_own_session(self, answers: Collection[str]) -> bool:
        """True if a server that keeps a session must keep one for it alone: it can be asked one of these, has
        set a level for messages, or watches a resource."""
        ...


class Peer(SessionHolder, Protocol):
    """The program that made a call, if it can be asked something while the call runs."""

    @property
    def owner(self) -> object:
        """The same for all calls of one program, and for no other's."""
        ...

    @property
    def capabilities(self) -> JsonObject:
        """The requests that it can answer, as MCP clients declare them: while the call runs, or after a
        result with which it makes the call again."""
        ...

    @property
    def log_level(self) -> str | None:
        """The least severe level of messages that it wants to see, as MCP names them; None: none."""
        ...

    def log(self, level: str, data: Any, logger: str | None) -> None:
        """Shows it a message, if it wants to see one of this level. Does not wait."""
        ...

    @property
    def comes_back(self) -> bool:
        """True if it makes the call again by itself, with its answers to `Result.asked`."""
        ...

    @property
    def has_model(self) -> bool:
        """True if it comes back, and a model of ours answers in its place when a source asks for one."""
        ...

    def can_answer(self, method: str) -> bool:
        """True if it can be asked this while the call runs."""
        ...

    async def ask(self, method: str, params: JsonObject | None) -> JsonObject:
        """Its answer to a request of MCP that servers make: for a person's input, or a model's."""
        ...
