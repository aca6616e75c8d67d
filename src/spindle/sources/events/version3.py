"""AsyncAPI 3.x."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from spindle.documents.refs import Document, Located, entries
from spindle.domain.json_schema import JsonObject, is_array, is_object
from spindle.errors import ConfigurationError
from spindle.sources.events.operations import (
    AsyncApiReader,
    EventChannel,
    EventMessage,
    EventOperation,
    EventServer,
    ReplySpec,
    last_step,
    text_or_none,
)


class Version3(AsyncApiReader):
    """Reads documents of AsyncAPI 3.x."""

    def operations(self) -> Iterator[EventOperation]:
        """All operations of the document."""
        for name, node in self.each("operations", entries(self.root.get("operations"))):
            place = f"operations.{name}"
            made = self.guarded(place, lambda name=name, node=node: self._operation(name, node))
            if made is not None:
                yield made

    def _operation(self, name: str, node: Any) -> EventOperation:
        located = self.merged(node, self.main, traits_win=False)
        own, where = entries(located.node), located.document
        action = own.get("action")
        if action not in ("send", "receive"):
            raise ConfigurationError(f"its action is {action!r}, and must be send or receive")
        if "channel" not in own:
            raise ConfigurationError("it names no channel")
        channel = self.follow(own["channel"], where)
        return EventOperation(
            id=name,
            action=action,
            node=own,
            channel=self._channel(channel, own.get("channel")),
            messages=self._messages(own.get("messages"), where, channel),
            place=f"{self.place}: operations.{name}",
            reply=self._reply(own.get("reply"), where),
        )

    def _channel(self, located: Located, reference: Any) -> EventChannel:
        own, where = entries(located.node), located.document
        parameters = {
            name: entries(self.follow(item, where).node)
            for name, item in entries(own.get("parameters")).items()
        }
        address = own.get("address")
        if "address" not in own and is_object(reference) and isinstance(reference.get("$ref"), str):
            address = last_step(reference["$ref"])
        return EventChannel(
            address if isinstance(address, str) else None,
            {name: _parameter_schema(item) for name, item in parameters.items()},
            self._servers(own, where),
            entries(self.follow(own.get("bindings"), where).node),
        )

    def _messages(self, chosen: Any, where: Document, channel: Located) -> list[EventMessage]:
        own = entries(channel.node)
        if is_array(chosen):
            named = [
                (last_step(item["$ref"]) if is_object(item) and "$ref" in item else "message", item, where)
                for item in chosen
            ]
        else:
            named = [(name, item, channel.document) for name, item in entries(own.get("messages")).items()]
        return [self.message(name, item, document, traits_win=False) for name, item, document in named]

    def _servers(self, channel: JsonObject, where: Document) -> list[EventServer]:
        chosen = channel.get("servers")
        if is_array(chosen) and chosen:
            references = [(last_step(str(entries(item).get("$ref", ""))), item, where) for item in chosen]
        else:
            references = [(name, item, self.main) for name, item in entries(self.root.get("servers")).items()]
        return [self._server(name, item, document) for name, item, document in references]

    def _server(self, name: str, node: Any, document: Document) -> EventServer:
        located = self.follow(node, document)
        own = entries(located.node)
        protocol = str(own.get("protocol", "")).lower()
        host = str(own.get("host", ""))
        path = str(own.get("pathname", ""))
        return EventServer(
            name=name,
            protocol=protocol,
            url=f"{protocol}://{host}{path if not path or path.startswith('/') else f'/{path}'}",
            variables=self.variables(own.get("variables"), located.document),
            version=text_or_none(own.get("protocolVersion")),
        )

    def _reply(self, node: Any, where: Document) -> ReplySpec | None:
        if node is None:
            return None
        located = self.follow(node, where)
        own = entries(located.node)
        channel = entries(self.follow(own.get("channel"), located.document).node)
        address = entries(self.follow(own.get("address"), located.document).node)
        return ReplySpec(text_or_none(channel.get("address")), text_or_none(address.get("location")))


def _parameter_schema(node: JsonObject) -> JsonObject:
    schema: JsonObject = {"type": "string"}
    return schema | {
        key: node[key] for key in ("enum", "default", "description", "examples", "location") if key in node
    }
