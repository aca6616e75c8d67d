"""Makes tools from a document: one for each operation."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from spindle.documents.refs import Document, Documents, Located, entries, shown
from spindle.domain import trail
from spindle.domain.definitions import Definitions, references_in
from spindle.domain.json_schema import JsonObject, canonical, is_array, is_object
from spindle.domain.tool import ToolSpec
from spindle.errors import ConfigurationError
from spindle.http.bodies import body_kind
from spindle.sources.method_hints import METHOD_HINTS
from spindle.sources.openapi import swagger2
from spindle.sources.openapi.flatten import KINDS, Flattener
from spindle.sources.openapi.names import tool_names
from spindle.sources.openapi.servers import ServerChoice, Servers
from spindle.sources.schemas import Schemas

if TYPE_CHECKING:
    from spindle.ports.source import Note

METHODS = ("get", "put", "post", "delete", "options", "head", "patch", "trace", "query")
# Parts of a document that hold what could be called in some other way.
_NOT_READ = {
    "webhooks": "they cannot be received",
    "x-webhooks": "they cannot be received",
    "x-ms-paths": "these paths are left out: they differ in their query only",
    "x-ms-parameterized-host": "the host has variables that are not read; set `base_url`",
}
_NOT_CALLED = ("additionalOperations", "x-amazon-apigateway-any-method")
_VARIABLE = re.compile(r"\{([^{}]+)\}")


@dataclass(slots=True)
class OpenApiOperation:
    """One operation of a document, with the path it belongs to."""

    method: str
    path: str
    node: JsonObject
    item: JsonObject
    document: Document
    problems: list[str] = field(default_factory=list[str])
    remarks: list[str] = field(default_factory=list[str])
    """Parts that are left out and hardly missed."""

    @property
    def variables(self) -> list[str]:
        """The names of the places in its path. What stands behind a `#` is no part of a request."""
        return list(dict.fromkeys(_VARIABLE.findall(self.path.partition("#")[0])))

    def check_path(self) -> None:
        """Raises ConfigurationError for a path with a place that no request has."""
        for name in _VARIABLE.findall(self.path.partition("#")[2]):
            if name not in self.variables:
                raise ConfigurationError(
                    f"its path has {{{name}}} behind a `#`, and no request carries what stands there"
                )


def import_tools(documents: Documents, choice: ServerChoice, *, remote: bool, note: Note) -> list[ToolSpec]:
    """Returns all operations as tools; those of which nothing can be made are `unusable`, and say why. Notes
    what one of them cannot represent as `.name: what`, and what concerns the document as `: what`; the worst
    first, since only the first few may be read."""
    importer = _OperationReader(documents, choice, remote=remote)
    operations = list(importer.operations())
    importer.assume_security(operations)
    names = tool_names([(op.method, op.path, str(op.node.get("operationId") or "")) for op in operations])
    named = list(zip(operations, names, strict=True))
    specs = [importer.spec(operation, name) for operation, name in named]
    importer.schemas.cut_circles()
    importer.note_holes(operations, specs)
    for problem in (*importer.problems, *importer.servers.homeless(specs)):
        note(f": {problem}")
    for operation, name in named:
        for problem in dict.fromkeys(operation.problems):
            note(f".{name}: {problem}")
    for remark in (*importer.servers.check(), *importer.schemas.remarks()):
        note(f": {remark}")
    for operation, name in named:
        for remark in dict.fromkeys(operation.remarks):
            note(f".{name}: {remark}")
    return [*specs, *importer.lost_paths]


class _OperationReader:
    def __init__(self, documents: Documents, choice: ServerChoice, *, remote: bool) -> None:
        self._documents = documents
        self._remote = remote
        self.problems: list[str] = []
        self.lost_paths: list[ToolSpec] = []
        """Paths whose operations nobody knows, because their reference leads nowhere."""
        self._root = documents.main.root
        self._version = version_of(documents.main)
        self._is_older = self._version.startswith("2")
        self.schemas = Schemas(documents, version=self._version)
        self._definitions = Definitions(self.schemas.definitions)
        schemes = entries(entries(self._root.get("components")).get("securitySchemes"))
        if self._is_older:
            schemes = swagger2.security_schemes_of(self._root)
        self._schemes = {name: self._scheme(scheme) for name, scheme in schemes.items()}
        self._default_security: Any = None
        servers = swagger2.servers_of(self._root) if self._is_older else self._root.get("servers")
        self.servers = Servers(documents.main, servers, choice)

    def _scheme(self, given: Any) -> Any:
        try:
            return self._documents.follow(given, self._documents.main).node
        except ConfigurationError:
            return None  # said of each operation that wants it

    def assume_security(self, operations: list[OpenApiOperation]) -> None:
        """Settles the `security` of operations without one: the document's. Where the document has none
        either, they want none if others say what they want; if no operation does, any of the document's
        schemes; and without schemes nothing is known."""
        if "security" in self._root:
            self._default_security = self._root["security"]
        elif any("security" in operation.node for operation in operations):
            self._default_security = []
        else:
            # A key without a name rather goes where the document wants a key.
            keys_first = sorted(self._schemes, key=lambda name: not _is_key(self._schemes[name]))
            self._default_security = [{name: []} for name in keys_first] or None

    def operations(self) -> Iterator[OpenApiOperation]:
        paths = self._root.get("paths")
        for key, why in _NOT_READ.items():
            if self._root.get(key):
                self.problems.append(f"{key}: {why}")
        if not is_object(paths):
            if self._root.get("webhooks") or "components" in self._root:
                return
            raise ConfigurationError(f"{shown(self._documents.main.address)} has no `paths`")
        for path, given in paths.items():
            if not path.startswith("/"):
                if not path.startswith("x-"):
                    self.problems.append(f"the path {path!r} is left out: it does not begin with /")
                continue
            try:
                item = self._documents.follow(given, self._documents.main)
            except ConfigurationError as error:
                place = f"{shown(self._documents.main.address)}: {path}"
                self.lost_paths.append(ToolSpec(path, place=place, unusable=error.message))
                continue
            if not is_object(item.node):
                continue
            # A path may be a reference with more beside it.
            whole = {**item.node, **{key: value for key, value in given.items() if key != "$ref"}}
            for key in _NOT_CALLED:
                if whole.get(key):
                    self.problems.append(f"{path}: its {key} cannot be called")
            for method in METHODS:
                node = whole.get(method)
                if is_object(node):
                    yield OpenApiOperation(method, path, node, whole, item.document)

    def spec(self, operation: OpenApiOperation, name: str) -> ToolSpec:
        """Returns the operation as a tool; an unusable one where a part of it cannot be found."""
        try:
            return self._spec(operation, name)
        except ConfigurationError as error:
            operation.problems.clear()
            operation.remarks.clear()
            return ToolSpec(name, place=self._place(operation), unusable=error.message)

    def note_holes(self, operations: list[OpenApiOperation], specs: list[ToolSpec]) -> None:
        """Says of each operation which of its schemas could not be found."""
        if not self.schemas.holes:
            return
        for operation, spec in zip(operations, specs, strict=True):
            schemas = canonical([spec.input_schema, spec.output_schema])
            reached = self._definitions.reached_from(references_in(schemas))
            operation.problems += self.schemas.holes_of(reached)

    def _place(self, operation: OpenApiOperation) -> str:
        return f"{shown(self._documents.main.address)}: {operation.method.upper()} {operation.path}"

    def _spec(self, operation: OpenApiOperation, name: str) -> ToolSpec:
        operation.check_path()
        node, document = operation.node, operation.document
        parameters, where = self._parameters(operation), None
        if self._is_older:
            node, parameters, where = swagger2.operation_of(node, parameters, self._root)
        flat = Flattener(self.schemas, operation.problems, operation.remarks)
        flat.add_parameters(parameters)
        self._complete_path(operation, flat)
        self._add_body(operation, Located(node.get("requestBody"), where or document), flat)
        if node.get("callbacks"):
            operation.problems.append("its callbacks cannot be received")
        output, accept = self._output(operation, node)
        metadata: JsonObject = {
            "method": operation.method.upper(),
            "path": operation.path,
            "server": self.servers.of(
                operation.node, operation.item, document=document, problems=operation.problems
            ),
            "parameters": flat.parameters,
            "body": flat.body,
            "accept": accept,
            "security": _requirements(
                node.get("security", self._default_security), self._schemes, operation.problems
            ),
            "remote": self._remote or None,
            trail.FIELD: trail.in_description(node.get(trail.OPENAPI_KEY)),
        }
        kept = {key: value for key, value in metadata.items() if value is not None}
        return ToolSpec(
            remote_name=name,
            title=_text(node.get("summary")) or None,
            description=_description(node, operation.item),
            input_schema=flat.schema(),
            output_schema=output,
            hints=METHOD_HINTS[operation.method],
            tags=tuple(str(tag) for tag in node["tags"]) if is_array(node.get("tags")) else (),
            place=self._place(operation),
            metadata=kept,
            definitions=self._definitions,
        )

    def _parameters(self, operation: OpenApiOperation) -> list[Located]:
        """Returns the parameters of the operation over those of its path."""
        found: dict[tuple[str, str], Located] = {}
        for given in (operation.item.get("parameters"), operation.node.get("parameters")):
            for entry in given if is_array(given) else []:
                located = self._documents.follow(entry, operation.document)
                if is_object(located.node) and self._has_place(operation, located.node):
                    found[str(located.node.get("name")), str(located.node.get("in"))] = located
        return list(found.values())

    @staticmethod
    def _has_place(operation: OpenApiOperation, parameter: JsonObject) -> bool:
        name = parameter.get("name")
        if parameter.get("in") != "path" or name in operation.variables:
            return True
        operation.problems.append(f"its path has no place for {name!r}, which is no argument")
        return False

    @staticmethod
    def _complete_path(operation: OpenApiOperation, flat: Flattener) -> None:
        """Adds path variables that are not described, as text."""
        named = {how["name"] for how in flat.parameters if how["in"] == "path"}
        missing = [name for name in operation.variables if name not in named]
        described = [{"name": name, "in": "path", "schema": {"type": "string"}} for name in missing]
        flat.add_parameters([Located(parameter, operation.document) for parameter in described])
        for name in missing:
            operation.problems.append(f"{{{name}}} of its path is not described, and taken as text")

    def _add_body(self, operation: OpenApiOperation, given: Located, flat: Flattener) -> None:
        if given.node is None:
            return
        body = self._documents.follow(given.node, given.document)
        content = body.node.get("content") if is_object(body.node) else None
        if not is_object(content) or not content:
            operation.problems.append("its body has no content type, and is not sent")
            return
        media_type = min(content, key=lambda name: KINDS.index(body_kind(name)))
        others = [name for name in content if name != media_type]
        if others:
            operation.remarks.append(
                f"its body is sent as {media_type}; it could also be {', '.join(others)}"
            )
        media = self._documents.follow(content[media_type], body.document)
        flat.add_body(body.node, media_type, media.node if is_object(media.node) else {}, media.document)

    def _output(self, operation: OpenApiOperation, node: JsonObject) -> tuple[JsonObject | None, str | None]:
        """The schema of what a success returns, and the types to ask for."""
        schemas: list[JsonObject] = []
        types: list[str] = []
        may_be_empty = False
        for status, response in entries(node.get("responses")).items():
            if not str(status).startswith("2"):
                continue
            try:
                located = self._documents.follow(response, operation.document)
            except ConfigurationError as error:
                # It can be called all the same.
                operation.problems.append(f"{error.message}, so that its result is not checked")
                return None, None
            content = entries(entries(located.node).get("content"))
            if self._is_older:
                content = swagger2.content_of(located.node, node, self._root)
            types += content
            media = next((content[name] for name in content if body_kind(name) == "json"), None)
            schema = entries(media).get("schema")
            if is_object(schema):
                schemas.append(self.schemas.convert(schema, located.document))
            elif media is None:
                may_be_empty = True
            else:
                schemas.append({})
        # JSON first, since that is what the schema is about.
        ordered = sorted(dict.fromkeys(types), key=lambda name: KINDS.index(body_kind(name)))
        accept = ", ".join(ordered) or None
        if not schemas or not all(schemas):
            return None, accept
        if may_be_empty:
            schemas.append({"type": "null"})
        return (schemas[0] if len(schemas) == 1 else {"anyOf": schemas}), accept


def version_of(document: Document) -> str:
    """Returns the version of a document; raises ConfigurationError where it is not one of OpenAPI."""
    root, place = document.root, shown(document.address)
    version = root.get("openapi", root.get("swagger"))
    if version is None:
        looks = "an AsyncAPI" if "asyncapi" in root else "no OpenAPI"
        is_manual = "utcp_version" in root or "manual_call_templates" in root
        raise ConfigurationError(
            f"{place} is {looks} document: it has neither `openapi` nor `swagger`",
            hint='it is a UTCP manual: set kind = "utcp"' if is_manual else "check `document`",
        )
    # YAML reads `swagger: 2.0` as a number.
    text = str(version)
    if not re.match(r"2\.0|3\.[012](\.|$)", text):
        raise ConfigurationError(f"{place}: OpenAPI version {text!r} is not known; 2.0, 3.0, 3.1 and 3.2 are")
    return text


def _description(node: JsonObject, item: JsonObject) -> str:
    summary = _text(node.get("summary")) or _text(item.get("summary"))
    description = _text(node.get("description")) or _text(item.get("description"))
    parts = [summary, description if description != summary else ""]
    if node.get("deprecated") is True:
        parts.append("Deprecated.")
    return "\n\n".join(part for part in parts if part)


def _text(value: Any) -> str:
    return value.strip() if isinstance(value, str) else ""


def _is_key(scheme: Any) -> bool:
    return is_object(scheme) and scheme.get("type") == "apiKey"


def _requirements(security: Any, schemes: JsonObject, problems: list[str]) -> list[list[JsonObject]] | None:
    """Returns the alternatives, each a list of schemes; None when the document does not say."""
    if not is_array(security):
        return None
    found: list[list[JsonObject]] = []
    for alternative in security:
        if not is_object(alternative):
            continue
        wanted: list[JsonObject] = []
        for name in alternative:
            scheme = schemes.get(name)
            if is_object(scheme):
                wanted.append({key: scheme[key] for key in ("type", "in", "name", "scheme") if key in scheme})
            else:
                problems.append(f"the security scheme {name!r} is not defined")
        found.append(wanted)
    return found
