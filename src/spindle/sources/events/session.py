"""Emits events, waits for them, and sends requests that are answered by events."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from spindle.domain.call import Call, Result, new_id
from spindle.domain.event import Event
from spindle.domain.json_schema import JsonObject
from spindle.errors import ConfigurationError, SpindleError
from spindle.meanings import Meaning
from spindle.ports.source import Session
from spindle.schemas.compiled import CompiledSchema
from spindle.sources.events.addresses import filled
from spindle.sources.events.answers import AwaitedReply, asked, at_pointer, is_answer
from spindle.sources.events.files import documents
from spindle.sources.events.links.pool import LinkPool
from spindle.sources.events.links.port import EventLink, Incoming, Outgoing, give_back
from spindle.sources.events.payloads import PAYLOAD
from spindle.sources.events.servers import Endpoint, endpoint, process_environment
from spindle.sources.events.tools import import_tools, longest_wait
from spindle.sources.message_paths import at
from spindle.threads import in_turn

if TYPE_CHECKING:
    from spindle.domain.identity import Credential
    from spindle.domain.tool import Tool, ToolSpec
    from spindle.ports.source import Note
    from spindle.sources.events.config import EventsConfig


class EventsSession(Session):
    """The documents of a source and the links to its servers, which the first call connects: the tools come
    from the documents alone."""

    def __init__(
        self, name: str, config: EventsConfig, root: Path, credential: Credential, note: Note
    ) -> None:
        self._name = name
        self._config = config
        self._root = root
        self._note = note
        self._links = LinkPool(name, config, root, credential)

    async def __aexit__(self, *_: object) -> None:
        await self._links.close()

    async def discover(self) -> list[ToolSpec]:
        specs: list[ToolSpec] = []
        notes: list[str] = []
        for found, remote in await documents(self._config, self._root, notes.append):
            try:
                specs += await in_turn(
                    import_tools, found, self._config, self._name, remote=remote, note=notes.append
                )
            except ConfigurationError as error:
                notes.append(f"{error.message}; {error.hint or 'the file is left out'}")
        for line in notes:
            self._note(line)
        return specs

    async def probe(self, tools: Sequence[Tool]) -> None:
        for tool in tools:
            await self._link(tool)

    async def _link(self, tool: Tool) -> tuple[Endpoint, EventLink]:
        metadata = tool.spec.metadata
        remote = bool(metadata.get("remote"))
        server = endpoint(
            metadata["server"], self._config, self._name, remote=remote, environ=process_environment()
        )
        return server, await self._links.get(server, remote=remote)

    async def invoke(self, tool: Tool, call: Call) -> Result:
        metadata = tool.spec.metadata
        server, link = await self._link(tool)
        if metadata["action"] == "receive":
            return await self._wait(tool, call, link, server)
        message = self._message(tool, call, server)
        if "reply" in metadata:
            return await self._ask(tool, call, link, message)
        acknowledged = await link.publish(message)
        event = message.event
        return Result.of_value({
            "id": event.id,
            "type": event.type,
            "channel": event.channel,
            "server": server.name,
            "acknowledged": acknowledged,
        })  # fmt: skip

    # --- sending

    def _message(self, tool: Tool, call: Call, server: Endpoint) -> Outgoing:
        metadata = tool.spec.metadata
        values, payload = _split(metadata, call.arguments)
        for name, pointer in metadata.get("located", {}).items():
            values[name] = at_pointer(payload, pointer)
        described = _fitting(tool, payload)
        address = filled(metadata["address"], values, server.protocol)
        event = Event(
            type=str(described["name"]),
            source=str(metadata["source"]),
            data=payload,
            id=call.key,
            subject=address,
            content_type=described.get("content_type", "application/json"),
            channel=address,
        )
        return Outgoing(event, described.get("envelope", self._config.envelope), metadata.get("bindings", {}))

    async def _ask(self, tool: Tool, call: Call, link: EventLink, message: Outgoing) -> Result:
        if link.has_responses:
            return _received(await link.exchange(message))
        question: AwaitedReply = asked(tool, message, new_id())
        passed_over: list[Incoming] = []
        try:
            async with link.subscribe(question.reply_address, message.bindings) as incoming:
                await link.publish(question.message)
                try:
                    # The call's own timeout limits the wait for an answer.
                    answer = await _first(incoming, lambda item: is_answer(question, item), passed_over)
                except SpindleError as error:
                    error.sent = True  # the question was taken, so it must not be asked again
                    raise
                return _received(answer)
        finally:
            await give_back(passed_over)

    # --- receiving

    async def _wait(self, tool: Tool, call: Call, link: EventLink, server: Endpoint) -> Result:
        metadata = tool.spec.metadata
        values, options = _split(metadata, call.arguments)
        address = filled(metadata["address"], values, server.protocol)
        patience = float(options.get("timeout", longest_wait(self._config.timeout)))
        wanted: JsonObject = options.get("filter", {})

        def fits(item: Incoming) -> bool:
            return all(at(item.event.data, path) == value for path, value in wanted.items())

        timer = asyncio.timeout(patience)
        passed_over: list[Incoming] = []
        try:
            async with timer, link.subscribe(address, metadata.get("bindings", {})) as incoming:
                return _received(await _first(incoming, fits, passed_over))
        except TimeoutError:
            if not timer.expired():
                raise
            text = f"no event came on {address} within {patience:g} s"
            return Result.of_text(text, is_error=True, meaning=Meaning("timeout"))
        finally:
            await give_back(passed_over)


async def _first(
    incoming: AsyncIterator[Incoming], fits: Callable[[Incoming], bool], passed_over: list[Incoming]
) -> Incoming:
    """Returns the first event that fits; those before it are added to `passed_over`, to be given back once
    the subscription has ended."""
    async for item in incoming:
        if fits(item):
            if item.settle is not None:
                await item.settle(True)
            return item
        passed_over.append(item)
    raise AssertionError("a subscription ends with an error")


def _split(metadata: JsonObject, arguments: JsonObject) -> tuple[JsonObject, Any]:
    """The channel's parameters, and the payload."""
    names: JsonObject = metadata.get("parameters", {})
    values: JsonObject = dict(metadata.get("defaults", {}))
    values |= {names[name]: value for name, value in arguments.items() if name in names}
    rest = {name: value for name, value in arguments.items() if name not in names}
    return values, rest.get(PAYLOAD) if metadata.get("wrapped") else rest


def _fitting(tool: Tool, payload: Any) -> JsonObject:
    """The message that the payload belongs to."""
    messages: list[JsonObject] = tool.spec.metadata["messages"]
    if len(messages) == 1:
        return messages[0]
    for message in messages:
        schema = message.get("schema", {})
        if tool.spec.definitions is not None:
            schema = tool.spec.definitions.completed(schema)
        if not CompiledSchema(schema).mistakes(payload):
            return message
    return messages[0]


def _received(item: Incoming) -> Result:
    return Result.of_value(item.event.to_dict())
