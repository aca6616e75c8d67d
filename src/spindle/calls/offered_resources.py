"""The methods of an open workspace for resources and prompts of MCP servers."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from functools import cached_property
from typing import TYPE_CHECKING

from spindle.domain.identity import LOCAL, Principal

if TYPE_CHECKING:
    from spindle.calls.resources import Resources
    from spindle.calls.watch import ResourceWatch
    from spindle.domain.call import Result
    from spindle.domain.resource import FilledPrompt, Resource, SourcePrompt


class OffersResources(ABC):
    """Offers what `Resources` can do, which is made when it is first needed."""

    @abstractmethod
    def _make_resources(self) -> Resources: ...

    @cached_property
    def _resources(self) -> Resources:
        return self._make_resources()

    async def resources(self, source: str | None = None, *, principal: Principal = LOCAL) -> list[Resource]:
        """The resources of all MCP servers or of one, and the templates of further ones."""
        return await self._resources.resources(source, principal)

    async def read(self, uri: str, *, source: str | None = None, principal: Principal = LOCAL) -> Result:
        """The contents of a resource. `source` says whose, if it is in no list or several sources have it."""
        return await self._resources.read(uri, source, principal)

    def watch(self, uri: str, *, source: str | None = None, principal: Principal = LOCAL) -> ResourceWatch:
        """The changes of a resource: `async with s.watch(uri) as changes: async for change in changes: …`."""
        return self._resources.watch(uri, source, principal)

    async def prompts(self, source: str | None = None, *, principal: Principal = LOCAL) -> list[SourcePrompt]:
        """The prompts of all MCP servers or of one."""
        return await self._resources.prompts(source, principal)

    async def prompt(
        self,
        name: str,
        arguments: Mapping[str, str] | None = None,
        *,
        source: str | None = None,
        principal: Principal = LOCAL,
    ) -> FilledPrompt:
        """A prompt with its arguments filled in: messages to begin a conversation with a model."""
        return await self._resources.prompt(name, arguments or {}, source, principal)
