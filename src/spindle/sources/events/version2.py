"""AsyncAPI 2.x, where operations are inside channels and named from the other side."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from spindle.documents.refs import Document, Located, entries
from spindle.domain.json_schema import JsonObject, is_array, is_object
from spindle.sources.events.operations import (
    Action,
    AsyncApiReader,
    EventChannel,
    EventMessage,
    EventOperation,
    EventServer,
    last_step,
    text_or_none,
)

_ACTIONS: dict[str, Action] = {"subscribe": "send", "publish": "receive"}


class Version2(AsyncApiReader):
    """Reads documents of AsyncAPI 2.x."""

    def operations(self) -> Iterator[EventOperation]:
        """All operations of the document."""
        for address, node in self.each("channels", entries(self.root.get("channels"))):
            for word in _ACTIONS:
                place = f"channels.{address}.{word}"
                made = self.guarded(
                    place, lambda address=address, node=node, word=word: self._operation(address, node, word)
                )
                if made is not None:
                    yield made

    def _operation(self, address: str, node: Any, word: str) -> EventOperation | None:
        channel = self.follow(node, self.main)
        own = entries(channel.node)
        if not is_object(own.get(word)):
            return None
        located = self.merged(own[word], channel.document, traits_win=True)
        operation = entries(located.node)
        return EventOperation(
            id=text_or_none(operation.get("operationId")),
            action=_ACTIONS[word],
            node=operation,
            channel=self._channel(address, own, channel.document),
            messages=self._messages(operation.get("message"), located.document),
            place=f"{self.place}: channels.{address}.{word}",
        )

    def _channel(self, address: str, own: JsonObject, where: Document) -> EventChannel:
        return EventChannel(
            address,
            {name: self._parameter(item, where) for name, item in entries(own.get("parameters")).items()},
            self._servers(own.get("servers")),
            entries(self.follow(own.get("bindings"), where).node),
        )

    def _parameter(self, node: Any, where: Document) -> JsonObject:
        located = self.follow(node, where)
        own = entries(located.node)
        schema = dict(entries(self.follow(own.get("schema"), located.document).node))
        schema.setdefault("type", "string")
        return schema | {key: own[key] for key in ("description", "location") if key in own}

    def _messages(self, node: Any, where: Document) -> list[EventMessage]:
        if node is None:
            return []
        several = entries(node).get("oneOf")
        items = several if is_array(several) else [node]
        found: list[EventMessage] = []
        for number, item in enumerate(items, 1):
            reference = entries(item).get("$ref")
            name = last_step(reference) if isinstance(reference, str) else f"message{number}"
            found.append(self.message(name, item, where, traits_win=True))
        return found

    def _servers(self, chosen: Any) -> list[EventServer]:
        known = entries(self.root.get("servers"))
        names = [str(name) for name in chosen if str(name) in known] if is_array(chosen) and chosen else known
        return [self._server(name, known[name], self.main) for name in names]

    def _server(self, name: str, node: Any, document: Document) -> EventServer:
        located: Located = self.follow(node, document)
        own = entries(located.node)
        protocol = str(own.get("protocol", "")).lower()
        url = str(own.get("url", ""))
        return EventServer(
            name=name,
            protocol=protocol,
            url=url if "://" in url else f"{protocol}://{url}",
            variables=self.variables(own.get("variables"), located.document),
            version=text_or_none(own.get("protocolVersion")),
        )
