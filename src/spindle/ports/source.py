"""The extension point for tools: a new kind of source subclasses `Source` and `Session`.

What only some kinds have is a member with a default here, so that the rest need not mention it.
"""

from __future__ import annotations

import asyncio
import hashlib
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Generic, Protocol, Self, TypeVar

from spindle.domain.call import Call, Result
from spindle.domain.identity import Credential, Principal
from spindle.domain.json_schema import JsonObject, to_json
from spindle.domain.peer import SessionHolder
from spindle.domain.tool import Tool, ToolSpec

if TYPE_CHECKING:
    from spindle.domain.source import SourceConfig

SourceNotice = Callable[[str, str, JsonObject, str], None]
"""Takes the name of a source, the method and parameters of a notification that its server sent, and whom it
was sent to: see `RelaySession.audience`."""

ListRoots = Callable[[], Awaitable[JsonObject]]
"""Asks a client for its roots, and returns the result of `roots/list`. Raises McpError if it gives none."""

ConfigT = TypeVar("ConfigT", bound="SourceConfig")


class Note(Protocol):
    """Takes a sentence for the user: something was odd, but the work goes on."""

    def __call__(self, text: str, /) -> None:
        """Takes one sentence."""
        ...


class Notice(Protocol):
    """Takes a notification that a server sent of its own accord."""

    def __call__(self, method: str, params: JsonObject, whose: str | None = None) -> None:
        """`whose` names those whom it was sent to; None: all that use the session."""


class Session(ABC):
    """A live link to a source, opened under one credential and shared by parallel calls."""

    per_call_credentials: bool = False
    """True: `invoke` shows each call's own credential (`call.credential`) and nothing of another's, so that
    one session serves everybody. False: it serves only calls with the credential that it was opened with."""

    is_occupied: bool = False
    """True while nothing else should begin on it, because somebody is asked something during a call."""
    is_lost: bool = False
    """True once `wait_closed` returns, or is about to: it serves no further calls."""
    is_stateless: bool = False
    """True: its server keeps nothing between two calls, so that one session serves all holders."""

    log: Callable[[], str] | None = None
    """Returns the last lines that the program behind it wrote to stderr, if it is one of ours."""

    @property
    def instructions(self) -> str | None:
        """The source's own words on how its tools are meant to be used, if it has any."""
        return None

    @property
    def server(self) -> str | None:
        """The name and version of the program behind the source, as it says them, if it does."""
        return None

    @abstractmethod
    async def discover(self) -> list[ToolSpec]:
        """Returns all tools of the source, every page."""

    @abstractmethod
    async def invoke(self, tool: Tool, call: Call) -> Result:
        """Makes the call once. Raises a SpindleError; `error.sent` is False when it never left.

        Cancelling the awaiting task must reach the source.
        """

    async def probe(self, tools: Sequence[Tool]) -> None:  # noqa: B027 - most have nothing left to try
        """Tries what calls of these tools need, without calling any: a program, an address. Raises a
        SpindleError. Only for kinds whose list of tools comes from elsewhere than what is called."""

    async def wait_closed(self) -> str:
        """Returns when the link is lost, with the reason; never, unless overridden by what can be lost."""
        return await asyncio.get_running_loop().create_future()

    async def __aenter__(self) -> Self:
        """Opens the link, where that needs waiting."""
        return self

    async def __aexit__(self, *_: object) -> None:  # noqa: B027 - not all have something to close
        """Closes the link, and leaves nothing behind."""


class Source(ABC, Generic[ConfigT]):
    """One configured source. Making it must be cheap; `open` does the work."""

    _settings_mark: str | None = None
    is_stateful: bool | None = None
    """True if its server keeps state for who uses a session; None as long as that is not known."""

    def __init__(self, name: str, config: ConfigT, root: Path, note: Note) -> None:
        """Takes the source's name, its settings (a `config_model()`), the workspace's folder, and `note`."""
        self.name = name
        self.config = config
        self.root = root
        self.note = note

    @staticmethod
    @abstractmethod
    def config_model() -> type[SourceConfig]:
        """Returns the model of this kind's settings. A function, because a listing needs no settings and
        should not pay for loading their models."""

    @staticmethod
    def signature(settings: Mapping[str, Any], root: Path) -> str | None:
        """Returns a mark that changes when the source's tools may have, without contacting anything; None
        where only asking the source can tell. `settings` are as written in the file."""
        return None

    def behaviour(self, tool: Tool) -> str:
        """Returns a mark that changes when the tool may do something else though its definition is the same:
        no result from before is used then. By default the settings in force, such as a command or an URL."""
        if self._settings_mark is None:
            settings = to_json(self.config.model_dump(mode="python", warnings=False), default=repr)
            self._settings_mark = hashlib.sha256(settings).hexdigest()[:32]
        return self._settings_mark

    def server_of(self, tool: Tool | None) -> str | None:
        """Names the server that calls of this tool reach, for sources that have several: each is left alone
        by itself when it fails. None where there is nothing that users share, because each credential has a
        process of its own. `tool` is None for requests that are about no tool."""
        return ""

    def holder_of(self, principal: Principal, client: SessionHolder | None) -> str:
        """Names the one whose calls alone a session serves, where its server keeps state for who uses it.
        Empty where all with the same credential share one. `client` is the program that asks, if any."""
        return ""

    def runs_alone(self, call: Call) -> bool:
        """True if nothing else should run on the session of a call, because its server asks something and
        does not say during which call."""
        return False

    @abstractmethod
    def open(
        self, credential: Credential, on_change: Callable[[], None]
    ) -> AbstractAsyncContextManager[Session]:
        """Returns a session, or what opens one. Entered and left by one task. `on_change` may be called at
        any time to say that the list of tools is no longer what `discover` returned."""


class RelaySession(Session):
    """A session that also passes on, as they are, MCP's resources, prompts and completions."""

    @property
    @abstractmethod
    def offers(self) -> frozenset[str]:
        """Of `resources`, `prompts`, `completions` and `subscribe`, those that the server has."""

    @abstractmethod
    async def relay(self, method: str, call: Call) -> JsonObject:
        """Makes a request other than a call of a tool, with the call's arguments as its parameters, and
        returns the result as it came: also one that asks a `call.peer` which comes back."""

    @abstractmethod
    def audience(self, credential: Credential) -> str:
        """Names those whom what is told of watched resources is for, where they are watched with this
        credential: the last argument of a `SourceNotice`."""

    @abstractmethod
    async def watch(
        self, uri: str, credential: Credential, on_ready: Callable[[], None] | None = None
    ) -> None:
        """Has the server tell of changes of a resource, until cancelled. Raises ConnectionFailedError when
        the link is lost. `on_ready` is called once no change is missed any more."""

    async def roots_changed(self, list_roots: ListRoots) -> None:
        """Tells the server that the roots of the client whose session it is are others. It may then ask for
        them at any time."""


class RelaySource(Source[ConfigT]):
    """A source whose sessions are all `RelaySession`s."""

    def __init__(self, name: str, config: ConfigT, root: Path, note: Note) -> None:
        super().__init__(name, config, root, note)
        self.notices: list[SourceNotice] = []
        """The listeners for news from its servers other than changed tools. Set by the catalog before
        `open`."""

    @abstractmethod
    def open(
        self, credential: Credential, on_change: Callable[[], None]
    ) -> AbstractAsyncContextManager[RelaySession]:
        """Opens a session that relays."""
