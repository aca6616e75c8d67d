"""Resources and prompts for people and programs that use a workspace: listed, read, watched, filled in."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any
from weakref import WeakSet

from spindle.calls.content import block_of
from spindle.calls.relay import checked_uri
from spindle.calls.watch import ResourceWatch
from spindle.domain.call import Result
from spindle.domain.json_schema import is_array, is_object
from spindle.domain.resource import (
    FilledPrompt,
    PromptArgument,
    PromptMessage,
    Resource,
    SourcePrompt,
    fits_template,
    places_of,
)
from spindle.errors import InvalidArgumentsError, NotFoundError, ServerError, did_you_mean

if TYPE_CHECKING:
    from spindle.calls.relay import SourceRelay
    from spindle.domain.identity import Principal
    from spindle.domain.json_schema import JsonObject
    from spindle.ports.source import Note


class Resources:
    """The resources and prompts of a workspace's sources."""

    def __init__(self, relay: SourceRelay, note: Note) -> None:
        self._relay = relay
        self._note = note
        self._watches: WeakSet[ResourceWatch] = WeakSet()

    async def close(self) -> None:
        """Ends all watches."""
        await asyncio.gather(*(watch.close() for watch in list(self._watches)))

    # --- resources

    async def resources(self, source: str | None, principal: Principal) -> list[Resource]:
        """The resources of all sources or of one, and the templates of further ones."""
        listed, templates = await asyncio.gather(
            self._listed(principal, "resources", source), self._listed(principal, "templates", source)
        )
        found = [_resource(name, item, str(item["uri"])) for name, items in listed for item in items]
        return found + [
            _resource(name, item, str(item["uriTemplate"]), is_template=True)
            for name, items in templates
            for item in items
        ]

    async def read(self, uri: str, source: str | None, principal: Principal) -> Result:
        """The contents of a resource, as blocks."""
        home, inner = await self.locate(uri, source, principal)
        answer = await self._relay.request(home, principal, "resources/read", {"uri": inner})
        contents = answer.get("contents")
        if not is_array(contents):
            raise ServerError(f"{home!r} answered against the protocol: it gave no contents", source=home)
        return Result(tuple(block_of({"type": "resource", "resource": item}, home) for item in contents))

    def watch(self, uri: str, source: str | None, principal: Principal) -> ResourceWatch:
        """The changes of a resource from now on."""
        watch = ResourceWatch(self._relay, lambda: self.locate(uri, source, principal), principal, self._note)
        self._watches.add(watch)
        return watch

    async def locate(self, uri: str, source: str | None, principal: Principal) -> tuple[str, str]:
        """The source of a resource and its address there. Raises NotFoundError if none or several have it."""
        own = self._relay.of_own(principal, uri)
        if own is not None:
            return own
        checked_uri(uri)
        if source is not None:
            self._relay.require(principal, source)
            return source, uri
        known = await self.resources(None, principal)
        homes = [item.source for item in known if not item.is_template and item.uri == uri]
        _, places = places_of(uri)
        if places and any(item.is_template and item.uri == uri for item in known):
            raise InvalidArgumentsError(
                f"{uri!r} is a template", hint=f"put a value in the place of {', '.join(places)}", sent=False
            )
        if not homes:
            homes = [item.source for item in known if item.is_template and fits_template(uri, item.uri)]
        if len(set(homes)) > 1:
            which = ", ".join(sorted(set(homes)))
            raise NotFoundError(f"several sources have the resource {uri!r}", hint=f"say which: {which}")
        if not homes:
            hint = did_you_mean(uri, [item.uri for item in known], "name its source if it is in no list")
            raise NotFoundError(f"there is no resource {uri!r}", hint=hint, details={"uri": uri})
        return homes[0], uri

    # --- prompts

    async def prompts(self, source: str | None, principal: Principal) -> list[SourcePrompt]:
        """The prompts of all sources or of one."""
        listed = await self._listed(principal, "prompts", source)
        return [self._prompt(name, item) for name, items in listed for item in items]

    async def prompt(
        self, name: str, arguments: Mapping[str, Any], source: str | None, principal: Principal
    ) -> FilledPrompt:
        """A prompt with its arguments filled in."""
        prompt = await self._find_prompt(name, source, principal)
        given = _checked(prompt, arguments)
        home = prompt.source
        inner = prompt.name.removeprefix(self._relay.prompt_name(home, ""))
        params: JsonObject = {"name": inner} | ({"arguments": given} if given else {})
        answer = await self._relay.request(home, principal, "prompts/get", params)
        messages = answer.get("messages")
        if not is_array(messages) or not all(is_object(item) for item in messages):
            raise ServerError(f"{home!r} answered against the protocol: it gave no messages", source=home)
        return FilledPrompt(
            tuple(
                PromptMessage(str(item.get("role")), block_of(item.get("content"), home)) for item in messages
            ),
            _text(answer, "description"),
        )

    async def _find_prompt(self, name: str, source: str | None, principal: Principal) -> SourcePrompt:
        head, dot, _ = name.partition(".")
        if source is None and dot and head in self._relay.sources(principal):
            source = head
        known = await self.prompts(source, principal)
        found = [item for item in known if item.name == name]
        if not found:
            # As with tools, the last part is enough where only one has it.
            found = [item for item in known if item.name == f"{item.source}.{name}"]
        if len(found) > 1:
            which = ", ".join(item.source if item.name == name else item.name for item in found)
            raise NotFoundError(f"several prompts are called {name!r}", hint=f"say which: {which}")
        if not found:
            raise self._relay.no_prompt(name, [item.name for item in known])
        return found[0]

    def _prompt(self, source: str, item: JsonObject) -> SourcePrompt:
        arguments = item.get("arguments")
        return SourcePrompt(
            self._relay.prompt_name(source, str(item["name"])),
            source,
            _text(item, "title"),
            _text(item, "description"),
            tuple(
                PromptArgument(str(one["name"]), _text(one, "description"), one.get("required") is True)
                for one in (arguments if is_array(arguments) else ())
                if is_object(one) and "name" in one
            ),
        )

    # --- both

    async def _listed(
        self, principal: Principal, what: str, source: str | None
    ) -> Sequence[tuple[str, list[JsonObject]]]:
        if source is None:
            return await self._relay.listed(principal, what)
        self._relay.require(principal, source)
        return [(source, await self._relay.list_of(source, principal, what))]


def _checked(prompt: SourcePrompt, arguments: Mapping[str, Any]) -> dict[str, str]:
    """The arguments as the protocol has them: texts, of the names that the prompt knows."""
    known = [argument.name for argument in prompt.arguments]
    for name, value in arguments.items():
        if not isinstance(value, str):
            raise InvalidArgumentsError(f"{prompt.name}: {name!r} must be a text, not {value!r}", sent=False)
        if name not in known:
            takes = f"it takes {', '.join(known)}" if known else "it takes none"
            raise InvalidArgumentsError(
                f"{prompt.name} has no argument {name!r}",
                hint=did_you_mean(name, known, takes),
                sent=False,
            )
    missing = [item.name for item in prompt.arguments if item.required and item.name not in arguments]
    if missing:
        raise InvalidArgumentsError(
            f"{prompt.name} needs {', '.join(missing)}",
            hint=" ".join(f"--arg {name}=…" for name in missing),
            sent=False,
        )
    return dict(arguments)


def _resource(source: str, item: JsonObject, uri: str, *, is_template: bool = False) -> Resource:
    size = item.get("size")
    return Resource(
        uri,
        _text(item, "name") or uri,
        source,
        _text(item, "title"),
        _text(item, "description"),
        _text(item, "mimeType"),
        size if isinstance(size, int) else None,
        is_template,
    )


def _text(item: JsonObject, name: str) -> str | None:
    found = item.get(name)
    return found if isinstance(found, str) else None
