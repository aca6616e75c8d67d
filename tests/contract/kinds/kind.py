"""The words in which the contract speaks of every kind of source."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from pathlib import Path
from typing import Any, ClassVar, NamedTuple, Self

import pytest

from spindle.domain.call import Result
from spindle.domain.identity import Credential
from spindle.errors import SpindleError

SOURCE = "s"
PROPERTIES = (
    "an error of the tool",
    "ending at the source",
    "lost link",
    "answers out of order",
    "credentials",
)
"""What a kind may lack. Everything else is asked of all."""

QUICKLY = {"retry": {"attempts": 2, "wait": 0.001, "max_wait": 0.01}, "max_concurrency": 32}


class Request(NamedTuple):
    """A call to make: a tool of the source, and its arguments."""

    tool: str
    arguments: dict[str, Any]


class Kind(ABC):
    """A source of one kind with something real behind it. Entered, it can be opened and called."""

    lacks: ClassVar[Mapping[str, str]] = {}
    """By property, the reason why it cannot be asked of this kind."""
    failure: ClassVar[type[SpindleError] | None] = None
    """The error that a failing tool raises; None: it answers with a result that is an error."""
    complaint: ClassVar[str] = "out of stock"
    """What a failing tool says."""
    repeatable: ClassVar[bool] = False
    """True where a call that broke off may be sent again, because its receiver knows it by its id."""
    tools: ClassVar[frozenset[str]] = frozenset({"echo", "fail", "hang", "whoami"})

    def __init__(self, request: pytest.FixtureRequest, root: Path) -> None:
        self.root = root

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        return None

    @property
    @abstractmethod
    def settings(self) -> dict[str, Any]:
        """The settings of the source."""

    @property
    def sources(self) -> dict[str, dict[str, Any]]:
        """The settings of the source and of those that it needs besides."""
        return {SOURCE: {**QUICKLY, **self.settings}}

    # --- calls

    def echo(self, text: str) -> Request:
        """A call that answers with a text."""
        return Request("echo", {"text": text})

    def fail(self) -> Request:
        """A call that fails for reasons of the tool's own."""
        return Request("fail", {})

    def hang(self) -> Request:
        """A call that never answers."""
        return Request("hang", {})

    def whoami(self) -> Request:
        """A call that answers with the credential that was shown."""
        return Request("whoami", {})

    def said(self, result: Result) -> str:
        """The text that came back."""
        return result.text

    # --- what is behind it

    @abstractmethod
    async def begun(self) -> None:
        """Returns when the hanging call has arrived."""

    async def over(self) -> None:
        """Returns when nothing works on the hanging call any more, or its source was told to stop."""
        raise NotImplementedError

    async def lose(self) -> None:
        """Kills what is behind the source."""
        raise NotImplementedError

    async def restore(self) -> None:  # noqa: B027 - some come back by themselves
        """Starts it again, where the source does not do so itself."""

    def shuffle(self, count: int) -> None:
        """Has the next calls of `echo` wait for each other, and be answered the last first."""
        raise NotImplementedError

    def credential(self, who: str) -> Credential:
        """What proves to the source that a call is made for somebody."""
        return Credential(headers=(("Authorization", f"Bearer {who}-token"),), token=f"{who}-token")

    def shown(self, who: str) -> str:
        """What `whoami` answers to that."""
        return f"Bearer {who}-token"
