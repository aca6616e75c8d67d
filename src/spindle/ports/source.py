"""Where tools come from. A new kind of source implements these two protocols and nothing else."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Protocol, runtime_checkable

from spindle.domain.call import Call, Result
from spindle.domain.identity import Credential
from spindle.domain.json_schema import JsonObject
from spindle.domain.tool import Tool, ToolSpec

if TYPE_CHECKING:
    from spindle.domain.source import SourceConfig

Note = Callable[[str], None]
"""Takes a sentence for the user: something was odd, but the work goes on."""


class Session(Protocol):
    """A live link to a source, shared by parallel calls. It was opened under one credential and serves
    only calls that have the same; unless it has an attribute `per_call_credentials` that is true, by which
    it says that `invoke` shows each call's own credential (`call.credential`) and nothing of another's."""

    async def discover(self) -> list[ToolSpec]:
        """All tools of the source, every page."""
        ...

    async def invoke(self, tool: Tool, call: Call) -> Result:
        """Make the call once. Raises a SpindleError; `error.sent` is False when it never left.

        Cancelling the awaiting task must reach the source.
        """
        ...

    async def wait_closed(self) -> str:
        """Returns when the link is lost, with the reason. Never returns for what cannot be lost."""
        ...


Notice = Callable[[str, JsonObject], None]
"""Takes a notification that a server sent of its own accord: its method and parameters."""


@runtime_checkable
class Relay(Protocol):
    """What a session has besides where its source speaks MCP: resources, prompts and completions, which
    are passed on as they are."""

    @property
    def offers(self) -> frozenset[str]:
        """Of `resources`, `prompts`, `completions` and `subscribe`, those that the server has."""
        ...

    async def relay(self, method: str, params: JsonObject, credential: Credential) -> JsonObject:
        """Make a request other than a call of a tool, and return the result as it came."""
        ...

    async def watch(self, uri: str, credential: Credential) -> None:
        """Until cancelled or the link is lost, have the server tell of changes of a resource."""
        ...


class RelaySource(Protocol):
    """A source whose sessions are relays says so by `relays = True`. It is given the list of `notices`."""

    relays: ClassVar[bool]
    notices: list[Notice]
    """Who hears what its servers tell of: other lists than that of tools, and watched resources."""


class Source(Protocol):
    """One configured source. Making it must be cheap; `open` does the work."""

    @staticmethod
    def config_model() -> type[SourceConfig]:
        """The settings of this kind. A function, because a listing needs no settings and should not
        pay for loading their models."""
        ...

    @staticmethod
    def signature(settings: Mapping[str, Any], root: Path) -> str | None:
        """A cheap mark that changes when the source's tools may have, without contacting anything;
        None where only asking the source can tell. `settings` are as written in the file."""
        ...

    def __init__(self, name: str, config: Any, root: Path, note: Note) -> None: ...

    def open(
        self, credential: Credential, on_change: Callable[[], None]
    ) -> AbstractAsyncContextManager[Session]:
        """Open a session. Entered and left by one task. `on_change` may be called at any time
        to say that the list of tools is no longer what `discover` returned."""
        ...
