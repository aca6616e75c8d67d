"""Turns operations into tools. A tool's metadata holds everything that a call needs, so a call never reads
the document."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace

from spindle.catalog.naming import legal
from spindle.documents.refs import Documents, entries
from spindle.domain.definitions import Definitions
from spindle.domain.json_schema import JsonObject, is_array, is_object
from spindle.domain.tool import Hints, ToolSpec
from spindle.errors import ConfigurationError, SpindleError
from spindle.sources.events.addresses import places
from spindle.sources.events.asyncapi import operations
from spindle.sources.events.cloudevents import Envelope
from spindle.sources.events.config import EventsConfig
from spindle.sources.events.operations import EXTENSION, EventMessage, EventOperation, text_or_none
from spindle.sources.events.payloads import Arguments, Payloads, beside
from spindle.sources.events.servers import PROTOCOLS, chosen, to_metadata

_ENVELOPES: tuple[Envelope, ...] = ("structured", "binary", "plain")
_LOCATION = re.compile(r"\$message\.(header|payload)#(/.*)?")
_BINDING = {"websocket": ("ws",), "rabbitmq": ("amqp",), "mqtt": ("mqtt", "mqtt5")}


def import_tools(
    documents: Documents,
    config: EventsConfig,
    source: str,
    *,
    remote: bool,
    note: Callable[[str], None],
) -> list[ToolSpec]:
    """The tools of one document. An operation with a mistake is left out with a note."""
    return _ToolMaker(documents, config, source, remote=remote, note=note).tools()


class _ToolMaker:
    def __init__(
        self,
        documents: Documents,
        config: EventsConfig,
        source: str,
        *,
        remote: bool,
        note: Callable[[str], None],
    ) -> None:
        self._documents = documents
        self._config = config
        self._source = source
        self._remote = remote
        self._note = note
        self._payloads = Payloads(documents)
        application = documents.main.root.get("id")
        self._event_source = config.source or text_or_none(application) or f"/spindle/{source}"

    def tools(self) -> list[ToolSpec]:
        found: list[ToolSpec] = []
        taken: set[str] = set()
        for operation in operations(self._documents, self._note):
            try:
                extension = operation.extension
                if extension is None:
                    continue
                spec = self._tool(operation, extension, taken)
            except SpindleError as error:
                self._note(f"{operation.place} is left out: {error.message}")
                continue
            taken.add(spec.remote_name)
            found.append(spec)
        # The set is complete only now; the tools of one document share it, so it is stored once.
        definitions = self._payloads.definitions()
        return [_with_definitions(spec, definitions) for spec in found]

    def _tool(self, operation: EventOperation, extension: JsonObject, taken: set[str]) -> ToolSpec:
        address = operation.channel.address
        if address is None:
            raise ConfigurationError("its channel has no address, so there is nowhere to send to")
        server = chosen(operation.channel.servers, self._config, self._source)
        metadata: JsonObject = {
            "action": operation.action,
            "address": address,
            "server": to_metadata(server),
            "source": self._event_source,
        }
        if self._remote:
            metadata["remote"] = True
        bindings = bindings_of(operation, PROTOCOLS.get(server.protocol, ""))
        if bindings:
            metadata["bindings"] = bindings
        parameters, located = self._parameters(operation, address)
        if located:
            metadata["located"] = located
        defaults = {name: item["default"] for name, item in parameters.items() if "default" in item}
        if defaults:
            metadata["defaults"] = defaults
        if operation.action == "send":
            schema = self._sending(operation, parameters, metadata)
        else:
            schema = _waiting(parameters, metadata, self._config.timeout)
        return ToolSpec(
            remote_name=_name(operation, extension, address, taken),
            description=_description(operation, extension, address),
            title=text_or_none(operation.node.get("title")),
            input_schema=schema,
            hints=Hints(read_only=False, destructive=False, open_world=True)
            if operation.action == "send"
            else Hints(destructive=False, open_world=True),
            tags=_tags(operation.node.get("tags")),
            place=operation.place,
            metadata=metadata,
            definitions=None,
        )

    def _sending(
        self, operation: EventOperation, parameters: dict[str, JsonObject], metadata: JsonObject
    ) -> JsonObject:
        notes: list[str] = []
        schemas = [self._payloads.schema(message, notes.append) for message in operation.messages]
        for line in notes:
            self._note(f"{operation.place}: {line}")
        arguments = self._payloads.arguments(schemas, parameters)
        _keep_names(arguments, metadata)
        if arguments.wrapped:
            metadata["wrapped"] = True
        metadata["messages"] = [
            self._message(message, schema if len(schemas) > 1 else None)
            for message, schema in zip(operation.messages, schemas, strict=True)
        ] or [{"name": operation.id or operation.channel.address}]
        if operation.reply is not None:
            reply = {"address": operation.reply.address, "location": operation.reply.location}
            metadata["reply"] = {key: value for key, value in reply.items() if value is not None}
        return arguments.schema

    def _message(self, message: EventMessage, schema: JsonObject | None) -> JsonObject:
        found: JsonObject = {"name": message.name, "envelope": self._envelope(message)}
        if message.content_type:
            found["content_type"] = message.content_type
        if message.correlation:
            found["correlation"] = message.correlation
        if schema is not None:
            found["schema"] = schema
        return found

    def _envelope(self, message: EventMessage) -> Envelope:
        """The envelope that the message names, else that of the settings."""
        said = entries(message.node.get("x-cloudevents")).get("mode")
        for known in _ENVELOPES:
            if said == known:
                return known
        if said is not None:
            raise ConfigurationError(
                f"x-cloudevents.mode of {message.name} must be one of {', '.join(_ENVELOPES)}"
            )
        bound = entries(entries(message.node.get("bindings")).get("http")).get("headers")
        for headers in (message.node.get("headers"), bound):
            names = entries(entries(headers).get("properties"))
            # Attributes in headers mean binary mode.
            if any(name.lower().startswith(("ce-", "ce_")) for name in names):
                return "binary"
        return self._config.envelope

    def _parameters(
        self, operation: EventOperation, address: str
    ) -> tuple[dict[str, JsonObject], dict[str, str]]:
        """The channel's parameters that are arguments, and those that the payload holds already, by their
        place."""
        arguments: dict[str, JsonObject] = {}
        located: dict[str, str] = {}
        for name in places(address):
            described = dict(operation.channel.parameters.get(name, {"type": "string"}))
            location = described.pop("location", None)
            match = _LOCATION.fullmatch(location) if isinstance(location, str) else None
            if operation.action == "send" and match and match[1] == "payload":
                located[name] = match[2] or ""
            else:
                described.setdefault("description", f"{{{name}}} of the channel {address}")
                arguments[name] = described
        return arguments, located


def _waiting(parameters: dict[str, JsonObject], metadata: JsonObject, timeout: float) -> JsonObject:
    schema: JsonObject = {
        "type": "object",
        "properties": {
            "timeout": {
                "type": "number",
                "exclusiveMinimum": 0,
                "default": longest_wait(timeout),
                "description": "seconds to wait for an event",
            },
            "filter": {
                "type": "object",
                "description": 'what the event\'s data must hold: values by path, such as {"order.id": 7}',
            },
        },
        "additionalProperties": False,
    }
    arguments = beside(schema, parameters)
    _keep_names(arguments, metadata)
    return arguments.schema


def longest_wait(timeout: float) -> float:
    """A little less than the timeout of a call, so that the wait ends with an answer of its own."""
    return round(timeout * 0.9, 3)


def _keep_names(arguments: Arguments, metadata: JsonObject) -> None:
    if arguments.names:
        metadata["parameters"] = arguments.names


def _with_definitions(spec: ToolSpec, definitions: Definitions) -> ToolSpec:
    return replace(spec, definitions=definitions if definitions.schemas else None)


def _name(operation: EventOperation, extension: JsonObject, address: str, taken: set[str]) -> str:
    given = extension.get("name")
    if given is not None and (not isinstance(given, str) or not given.strip()):
        raise ConfigurationError(f"{EXTENSION}.name must be text")
    name = given or operation.id
    if name is None:
        name = legal(address).strip("_") or "event"
        if name in taken:
            name = f"{'wait_for' if operation.action == 'receive' else 'send'}_{name}"
    return name


def _description(operation: EventOperation, extension: JsonObject, address: str) -> str:
    node = operation.node
    said = (extension.get("description"), node.get("summary"), node.get("description"))
    told = next((item for item in map(text_or_none, said) if item), None)
    if told is not None:
        return told.strip()
    if operation.action == "receive":
        return f"Wait for an event on {address}."
    return f"Send an event to {address}."


def _tags(given: object) -> tuple[str, ...]:
    if not is_array(given):
        return ()
    names = (item.get("name") if is_object(item) else None for item in given)
    return tuple(name for name in names if isinstance(name, str))


def bindings_of(operation: EventOperation, protocol: str) -> JsonObject:
    """The document's bindings for this protocol; those of the operation override those of the channel."""
    found: JsonObject = {}
    for name in _BINDING.get(protocol, (protocol,)):
        for part in (operation.channel.bindings, entries(operation.node.get("bindings"))):
            found |= entries(part.get(name))
    found.pop("bindingVersion", None)
    return found
