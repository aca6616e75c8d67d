"""Any value that a schema allows survives being written and read, in each kind of body."""

import base64
import email
import email.policy
import json
import re
from typing import Any
from urllib.parse import parse_qsl
from xml.etree import ElementTree

from hypothesis import given
from hypothesis import strategies as st

from spindle.http.bodies import encode_body

TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)
XML_TEXT = st.text(
    st.characters(exclude_categories=["Cs", "Cc", "Cn"], include_characters="\t\n\r"), max_size=20
)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | TEXT,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(TEXT, inner, max_size=4),
    max_leaves=12,
)
NAMES = st.text("abcdefgh", min_size=1, max_size=6)


def written(kind: str, media_type: str, value: Any, schema: Any = None, **how: Any) -> tuple[str, bytes]:
    described = {"kind": kind, "media_type": media_type, "argument": "body", **how}
    tool_schema = {"properties": {"body": schema or {}}}
    body = encode_body(described, {"body": value}, set(), tool_schema)
    assert body is not None
    return body.media_type, body.content


@given(JSON)
def test_json(value: Any) -> None:
    assert json.loads(written("json", "application/json", value)[1]) == value


@given(TEXT)
def test_text(value: str) -> None:
    assert written("text", "text/plain", value)[1].decode() == value


@given(st.binary(max_size=100))
def test_binary(value: bytes) -> None:
    assert written("binary", "application/octet-stream", base64.b64encode(value).decode())[1] == value


# An empty list or object has no form of its own in a form: there is nothing to repeat or to name.
FORM_VALUES = st.recursive(
    TEXT | st.booleans() | st.integers(),
    lambda inner: (
        st.lists(inner, min_size=1, max_size=3) | st.dictionaries(NAMES, inner, min_size=1, max_size=3)
    ),
    max_leaves=8,
)  # fmt: skip


@given(st.dictionaries(NAMES, FORM_VALUES, min_size=1, max_size=4))
def test_form_with_nested_values(value: dict[str, Any]) -> None:
    _, content = written("form", "application/x-www-form-urlencoded", value)
    read: dict[str, Any] = {}
    for key, text in parse_qsl(content.decode(), keep_blank_values=True):
        steps = key.replace("]", "").split("[")
        read = put(read, steps, text)
    assert as_lists(read) == as_lists(value)


def put(node: Any, steps: list[str], text: str) -> Any:
    """The way servers read brackets: names make objects, `[]` and a repeated name append."""
    if not steps:
        return text if node is None else [*node, text] if isinstance(node, list) else [node, text]
    first, *rest = steps
    node = {} if node is None else node
    if first == "":
        return [*(node or []), text]
    return {**node, first: put(node.get(first), rest, text)}


def as_lists(value: Any) -> Any:
    """Lists of one, lists, and numbered entries look alike to such a server."""
    if isinstance(value, list):
        value = {str(index): item for index, item in enumerate(value)}
        return as_lists(value)
    if isinstance(value, dict):
        inner = {key: as_lists(item) for key, item in value.items()}
        return inner["0"] if list(inner) == ["0"] else inner
    return value if isinstance(value, str) else json.dumps(value)


@given(st.dictionaries(NAMES, st.binary(max_size=50) | JSON.filter(lambda value: not isinstance(value, list)),
                       min_size=1, max_size=4))  # fmt: skip
def test_multipart_with_files(value: dict[str, Any]) -> None:
    arguments = {
        name: {"filename": f"{name}.bin", "data": base64.b64encode(item).decode()}
        if isinstance(item, bytes)
        else item
        for name, item in value.items()
    }
    media_type, content = written("multipart", "multipart/form-data", arguments)
    head = f"MIME-Version: 1.0\r\nContent-Type: {media_type}\r\n\r\n".encode()
    message = email.message_from_bytes(head + content, policy=email.policy.HTTP)
    names = [part.get_param("name", header="content-disposition") for part in message.iter_parts()]
    assert names == list(value)
    boundary = f"--{media_type.partition('boundary=')[2]}".encode()
    pieces = content.split(boundary)[1:-1]
    for piece, item in zip(pieces, value.values(), strict=True):
        headers, _, data = piece.partition(b"\r\n\r\n")
        data = data.removesuffix(b"\r\n")
        if isinstance(item, bytes):
            assert data == item
        elif b"application/json" in headers:
            assert json.loads(data) == item
        elif isinstance(item, str):
            assert data.decode() == item
        else:
            assert (
                data.decode() == ("" if item is None else json.dumps(item).replace(" ", ""))
                or float(data) == item
            )


PART = TEXT | st.dictionaries(NAMES, JSON, min_size=1, max_size=2)


@given(st.dictionaries(NAMES, st.lists(PART, min_size=1, max_size=3), min_size=1, max_size=3))
def test_multipart_with_lists(value: dict[str, Any]) -> None:
    media_type, content = written("multipart", "multipart/form-data", value)
    boundary = f"--{media_type.partition('boundary=')[2]}".encode()
    read: dict[str, list[Any]] = {}
    for piece in content.split(boundary)[1:-1]:
        headers, _, data = piece.partition(b"\r\n\r\n")
        [name] = re.findall(rb'name="([^"]*)"', headers)
        text = data.removesuffix(b"\r\n").decode()
        item = json.loads(text) if b"application/json" in headers else text
        read.setdefault(name.decode(), []).append(item)
    assert read == value


@given(st.dictionaries(NAMES, JSON, min_size=1, max_size=4), st.dictionaries(NAMES, JSON, max_size=2))
def test_a_body_in_fields_is_put_together_again(value: dict[str, Any], elsewhere: dict[str, Any]) -> None:
    """Fields under other names, beside arguments that went elsewhere."""
    described = {"kind": "json", "media_type": "application/json",
                 "fields": {f"{name}_body": name for name in value}}  # fmt: skip
    arguments = {f"{name}_body": item for name, item in value.items()} | elsewhere
    body = encode_body(described, arguments, set(elsewhere), {"properties": {}})
    assert body is not None
    assert json.loads(body.content) == value


XML_SCHEMA = {
    "type": "object",
    "properties": {
        "id": {"type": "string", "xml": {"attribute": True}},
        "name": {"type": "string"},
        "tags": {
            "type": "array",
            "items": {"type": "string", "xml": {"name": "tag"}},
            "xml": {"wrapped": True},
        },
        "more": {"type": "array", "items": {"type": "string"}},
    },
}


@given(st.fixed_dictionaries(
    {"id": XML_TEXT, "name": XML_TEXT, "tags": st.lists(XML_TEXT, max_size=3),
     "more": st.lists(XML_TEXT, max_size=3)}))  # fmt: skip
def test_xml(value: dict[str, Any]) -> None:
    _, content = written("xml", "application/xml", value, XML_SCHEMA, root="pet")
    root = ElementTree.fromstring(content)
    tags = root.find("tags")
    assert tags is not None
    assert value == {
        "id": root.get("id"),
        "name": root.findtext("name"),
        "tags": [tag.text or "" for tag in tags],
        "more": [item.text or "" for item in root.findall("more")],
    }


TREE = {
    "type": "object",
    "properties": {
        "label": {"type": "string", "xml": {"attribute": True}},
        "count": {"type": "integer"},
        "open": {"type": "boolean"},
        "inner": {"type": "array", "items": {"$ref": "#/$defs/Tree"}, "xml": {"wrapped": True}},
    },
}
TREES = st.recursive(
    st.fixed_dictionaries({"label": XML_TEXT, "count": st.integers(), "open": st.booleans()}),
    lambda inner: st.fixed_dictionaries(
        {
            "label": XML_TEXT,
            "count": st.integers(),
            "open": st.booleans(),
            "inner": st.lists(inner, max_size=3),
        }
    ),
    max_leaves=8,
)


@given(TREES)
def test_xml_with_nested_values(value: dict[str, Any]) -> None:
    described = {"kind": "xml", "media_type": "application/xml", "argument": "body", "root": "tree"}
    schema = {"properties": {"body": {"$ref": "#/$defs/Tree"}}, "$defs": {"Tree": TREE}}
    body = encode_body(described, {"body": value}, set(), schema)
    assert body is not None

    def read(node: ElementTree.Element) -> dict[str, Any]:
        found: dict[str, Any] = {
            "label": node.get("label"),
            "count": int(node.findtext("count", "")),
            "open": node.findtext("open") == "true",
        }
        inner = node.find("inner")
        return found if inner is None else {**found, "inner": [read(item) for item in inner]}

    assert read(ElementTree.fromstring(body.content)) == value
