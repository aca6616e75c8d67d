"""Documents as they come: found, read within bounds, parsed, and followed from `$ref` to `$ref`."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast
from urllib.parse import unquote, urldefrag, urljoin

from spindle.domain.json_schema import JsonObject, is_array, is_object, resolve_pointer
from spindle.errors import ConfigurationError, SpindleError
from spindle.http.encode import text as text_of

if TYPE_CHECKING:
    from spindle.sources.openapi.fetch import Fetcher

MAX_DOCUMENTS = 100
MAX_HOPS = 32
MAX_NODES = 10_000_000
_OUTSIDE = re.compile(rb"\$ref[\"']?\s*:\s*[\"']?[^#\"'\s]")


@dataclass(frozen=True, slots=True)
class Document:
    """One file or URL. `address` is what relative references in it start from."""

    address: str
    root: JsonObject = field(repr=False)


@dataclass(frozen=True, slots=True)
class Located:
    """A part of a document, and the document that its own references start from."""

    node: Any
    document: Document


def entries(value: Any) -> JsonObject:
    """An object's entries; none where the document has something else in its place."""
    return value if is_object(value) else {}


class Documents:
    """A document and all that it refers to."""

    def __init__(self, main: Document, others: dict[str, Document], missing: dict[str, str]) -> None:
        self.main = main
        self._others = {main.address: main, **others}
        self._missing = missing
        """By address, why it could not be read: an error only for who needs it."""

    def follow(self, node: Any, document: Document) -> Located:
        """What a `$ref` leads to, however many there are in a row; the node itself where it is none."""
        seen: list[str] = []
        while is_object(node) and isinstance(node.get("$ref"), str):
            reference = node["$ref"]
            if len(seen) >= MAX_HOPS:
                raise broken(document, reference, f"goes in a circle ({' → '.join(seen[:4])} …)")
            seen.append(reference)
            target = self.target(reference, document)
            node, document = target.node, target.document
        return Located(node, document)

    def target(self, reference: str, document: Document) -> Located:
        """What one `$ref` points at."""
        where, pointer = self.address(reference, document)
        other = self._others.get(where)
        if other is None:
            raise broken(document, reference, self._missing.get(where, "was not read"))
        node = resolve_pointer(other.root, f"#{pointer}")
        if node is None:
            raise broken(document, reference, "points at nothing")
        return Located(node, other)

    def address(self, reference: str, document: Document) -> tuple[str, str]:
        if reference.startswith("#"):
            return document.address, reference[1:]
        where, pointer = urldefrag(urljoin(document.address, reference))
        return where, pointer


def broken(document: Document, reference: str, why: str) -> SpindleError:
    return ConfigurationError(
        f"{shown(document.address)}: the reference {reference!r} {why}", hint="correct the document"
    )


def shown(address: str) -> str:
    """Where a document is, the way its user wrote it."""
    return unquote(address.removeprefix("file://")) if address.startswith("file://") else address


async def load(address: str, fetcher: Fetcher) -> Documents:
    """The document at an address (a URL, or a file's as `file://…`) with everything it refers to."""
    data = await fetcher.fetch(address)
    where = fetcher.landed(address)
    try:
        main = await asyncio.to_thread(parse, where, data)
    except ConfigurationError as error:
        if where == address:
            raise
        raise ConfigurationError(f"{address} redirects: {error.message}", hint=error.hint) from None
    return await complete(main, data, fetcher)


async def complete(main: Document, data: bytes, fetcher: Fetcher) -> Documents:
    """A document with everything it refers to. `data` is its text."""
    others: dict[str, Document] = {}
    missing: dict[str, str] = {}
    waiting = outside_addresses(main, data)
    while waiting:
        where = waiting.pop(0)
        if where == main.address or where in others or where in missing:
            continue
        if len(others) + len(missing) >= MAX_DOCUMENTS:
            raise ConfigurationError(
                f"{shown(main.address)} refers to more than {MAX_DOCUMENTS} other documents",
                hint="bundle them into one",
            )
        try:
            data = await fetcher.fetch(where)
            found = await asyncio.to_thread(parse, where, data)
        except SpindleError as error:
            missing[where] = f"cannot be read: {error.message}"
            continue
        others[where] = found
        waiting += outside_addresses(found, data)
    return Documents(main, others, missing)


def outside_addresses(document: Document, data: bytes) -> list[str]:
    """The other documents that one refers to. Most refer to none, which their text tells at once."""
    if not _OUTSIDE.search(data):
        return []
    found = (urldefrag(urljoin(document.address, reference))[0] for reference in _references(document.root))
    return [where for where in dict.fromkeys(found) if where != document.address]


def _references(root: Any) -> Iterator[str]:
    waiting = [root]
    while waiting:
        node = waiting.pop()
        if is_object(node):
            reference = node.get("$ref")
            if isinstance(reference, str) and not reference.startswith("#"):
                yield reference
        inner = node.values() if is_object(node) else node
        waiting += [value for value in inner if is_object(value) or is_array(value)]


def parse(address: str, data: bytes, what: str = "an OpenAPI document") -> Document:
    """JSON, or else YAML. `what` it is meant to be is for messages."""
    import orjson

    place = shown(address)
    text = data.removeprefix(b"\xef\xbb\xbf")
    start = text[:1024].lstrip()[:200].lower()
    if start.startswith((b"<!doctype html", b"<html")):
        raise ConfigurationError(
            f"{place} is an HTML page, not {what}",
            hint="give the address of the JSON or YAML; it may be behind a login: then download it",
        )
    root: Any
    if start.startswith((b"{", b"[")):
        try:
            root = orjson.loads(text)
        except orjson.JSONDecodeError as error:
            root = _from_yaml(place, text, str(error))
    else:
        root = _from_yaml(place, text, None)
    if not is_object(root):
        raise ConfigurationError(f"{place} is not {what}: it holds no object")
    return Document(address, root)


def _from_yaml(place: str, text: bytes, json_problem: str | None) -> Any:
    import yaml

    loader = yaml_loader()
    try:
        root = yaml.load(text, loader)  # noqa: S506 - a safe loader, without dates
        if b"*" in text and _written_out(root) > MAX_NODES:
            raise ConfigurationError(f"{place}: its YAML aliases go in circles, or unfold without measure")
        return root
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        mark: Any = getattr(error, "problem_mark", None)
        at = f", line {mark.line + 1}" if mark is not None else ""
        said = json_problem or getattr(error, "problem", None) or error
        raise ConfigurationError(f"{place}{at}: this is neither JSON nor YAML: {said}") from None


def _written_out(root: Any) -> int:
    """How many nodes there are once every alias is replaced by what it stands for."""
    sizes: dict[int, int] = {}
    waiting: list[tuple[Any, bool]] = [(root, False)]
    while waiting:
        node, is_done = waiting.pop()
        inner = list(node.values()) if is_object(node) else node if is_array(node) else []
        if is_done:
            sizes[id(node)] = 1 + sum(sizes.get(id(item), 1) for item in inner)
        elif id(node) not in sizes:
            # A node that is met again before it is done is in a circle.
            sizes[id(node)] = MAX_NODES
            waiting.append((node, True))
            waiting += [(item, False) for item in inner if is_object(item) or is_array(item)]
    return sizes[id(root)]


_loader: list[Any] = []


def yaml_loader() -> Any:
    """A safe loader for which `2020-01-01`, `on` and `yes` are text, as they are in JSON Schema's YAML."""
    if not _loader:
        import yaml

        base: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
        rules: dict[str, list[Any]] = {}
        for first, resolvers in base.yaml_implicit_resolvers.items():
            kept = [entry for entry in resolvers if entry[0] not in _NOT_IN_JSON]
            rules[first] = kept

        def construct_mapping(self: Any, node: Any, deep: bool = False) -> dict[str, Any]:
            found: dict[Any, Any] = base.construct_mapping(self, node, deep=deep)
            # `200:` is a number to YAML, and a name to JSON.
            return {key if isinstance(key, str) else text_of(key): value for key, value in found.items()}

        members = {"yaml_implicit_resolvers": rules, "construct_mapping": construct_mapping}
        made = type("OpenApiLoader", (base,), members)
        cast(Any, made).add_implicit_resolver(
            "tag:yaml.org,2002:bool", re.compile(r"^(?:true|True|TRUE|false|False|FALSE)$"), list("tTfF")
        )
        _loader.append(made)
    return _loader[0]


_NOT_IN_JSON = ("tag:yaml.org,2002:timestamp", "tag:yaml.org,2002:bool", "tag:yaml.org,2002:value")


def file_address(path: Path) -> str:
    return path.resolve().as_uri()
