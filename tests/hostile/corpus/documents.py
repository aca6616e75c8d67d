"""Documents that attack whoever reads them.

`DOCUMENTS` has a `HostileDocument` for each: its `name`, the `kind` of text that it pretends to be (as the
end of a file name: "json" or "yaml"), its `data()`, made anew for each call, and `ends`:

- "refused": reading it is a mistake that is told, whatever it was to be;
- "useless": it can be read, and is no description of an API, which is told;
- "usable":  a description of an API with one tool `ping` and something hostile beside it, which does no harm.

Served at an address or written to a file, each one ends in a clear error that names its place, or in a tool.
"""

from __future__ import annotations

import codecs
import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

SIZE = 120_000
"""Bytes that nobody would think large."""

Ends = Literal["refused", "useless", "usable"]


@dataclass(frozen=True)
class HostileDocument:
    name: str
    kind: Literal["json", "yaml"]
    ends: Ends
    make: Callable[[], str | bytes]

    def data(self) -> bytes:
        made = self.make()
        return made if isinstance(made, bytes) else made.encode()

    def __str__(self) -> str:
        return f"{self.kind}: {self.name}"


DOCUMENTS: list[HostileDocument] = []


def _add(kind: Literal["json", "yaml"], ends: Ends, cases: dict[str, Callable[[], str | bytes]]) -> None:
    DOCUMENTS.extend(HostileDocument(name, kind, ends, make) for name, make in cases.items())


def chain(first: str, line: str, count: int) -> str:
    """Lines of which each holds the one before, where it says `{b}`."""
    lines = [f"a0: &a0 {first}"]
    lines += [
        f"a{n}: &a{n} " + line.replace("{b}", f"*a{n - 1}").replace("{n}", str(n)) for n in range(1, count)
    ]
    return "\n".join(lines)


def openapi(**more: Any) -> dict[str, Any]:
    """A description of an API with one tool, `ping`, and something beside it."""
    return {
        "openapi": "3.1.0",
        "info": {"title": "Ping", "version": "1"},
        "servers": [{"url": "https://api.example.com"}],
        "paths": {"/ping": {"get": {"operationId": "ping", "responses": {"200": {"description": "pong"}}}}},
        **more,
    }


def _api(**more: Any) -> Callable[[], str]:
    return lambda: json.dumps(openapi(**more))


def _nested(opening: str, closing: str, count: int, inner: str = "") -> str:
    return opening * count + inner + closing * count


_add(
    "json",
    "refused",
    {
        "lists that never end": lambda: "[" * SIZE,
        "lists in lists": lambda: _nested("[", "]", SIZE // 2),
        "lists in lists, a thousand": lambda: _nested("[", "]", 1000),
        "lists in lists, one too many": lambda: _nested("[", "]", 151),
        "lists in lists with spaces": lambda: _nested("[ \n", "]", SIZE // 4),
        "lists that never end after spaces": lambda: " " * 5000 + "[" * SIZE,
        "lists that never end after a mark of UTF-8": lambda: "\ufeff" + "[" * SIZE,
        "objects that never end": lambda: '{"a":' * (SIZE // 5),
        "objects in objects": lambda: _nested('{"a":', "}", SIZE // 6, "1"),
        "objects and lists in turn": lambda: _nested('[{"a":', "}]", SIZE // 8, "1"),
        "brackets of the wrong kind": lambda: "[" * 100 + "}" * 100,
        "brackets that only close": lambda: "[" + "]" * SIZE,
        "a deep part of an API": lambda: (
            json.dumps(openapi())[:-1] + ',"x-deep":' + _nested("[", "]", 50_000) + "}"
        ),
        "an object of YAML with a thousand brackets": lambda: "{a: " + "[" * SIZE,
        "JSON with an alias bomb": lambda: '{"a": &a [1], "b": [' + "*a, " * 30_000 + "]}",
        "NaN": lambda: '{"a": NaN}',
        "Infinity": lambda: '{"a": [-Infinity]}',
        "a number beyond all": lambda: '{"a": 1e400}',
        "a number of 100,000 digits": lambda: '{"a": ' + "9" * 100_000 + "}",
        "a fraction of 100,000 digits and a large exponent": lambda: '{"a": 1.' + "9" * 100_000 + "e99999}",
        "10,000 numbers of 5,000 digits": lambda: "[" + ",".join(["1" * 5000] * 1000) + "]",
        "a number with a leading zero": lambda: '{"a": 01}',
        "a comma too many": lambda: '{"a": 1,}',
        "a comment": lambda: '{"a": 1} // no',
        "single quotes": lambda: "{'a': 1}",
        "text after the end": lambda: '{"a": 1} {"a": 2}',
        "a text that is not closed": lambda: '{"a": "' + "x" * SIZE,
        "a hundred thousand backslashes": lambda: '{"a": "' + "\\" * SIZE,
        "a control character in a text": lambda: b'{"a": "\x00"}',
        "half a character": lambda: b'{"a": "\xe2\x82"}',
        "an overlong slash": lambda: b'{"a": "\xc0\xaf"}',
        "a surrogate as bytes": lambda: b'{"a": "\xed\xa0\x80"}',
        "Latin 1": lambda: b'{"a": "\xe9"}',
        "UTF-32": lambda: codecs.BOM_UTF32_LE + '{"a": 1}'.encode("utf-32-le"),
        "UTF-16 without a mark": lambda: '{"a": 1}'.encode("utf-16-le"),
        "half of UTF-16": lambda: codecs.BOM_UTF16_LE + b"{",
        "three million lists": lambda: "[" + "[]," * 3_100_000 + "[]]",
        "only a bracket": lambda: "{",
        "only a mark of UTF-8": lambda: "\ufeff[",
    },
)

_add(
    "yaml",
    "refused",
    {
        "lists in lines": lambda: "- " * (SIZE // 2) + "x",
        "lists in indents": lambda: "\n".join(" " * depth + "-" for depth in range(600)),
        "objects in indents": lambda: "\n".join(" " * depth + "a:" for depth in range(600)),
        "objects in flow": lambda: "a: " + "{a: " * (SIZE // 4),
        "lists in flow": lambda: "a: " + "[" * SIZE,
        "objects in lists in flow": lambda: "a: " + "{[" * (SIZE // 2),
        "names in names": lambda: "? " * (SIZE // 2),
        "names that are lists": lambda: "? [a]\n: 1",
        "a billion laughs": lambda: chain("[x,x,x,x,x,x,x,x,x,x]", "[" + "{b}," * 10 + "]", 9),
        "a billion laughs in objects": lambda: chain("{x: y}", "{p: {b}, q: {b}, r: {b}, s: {b}}", 14),
        "a billion laughs of a long text": lambda: (
            "a: &a " + "x" * 100_000 + "\nb: [" + "*a, " * 100_000 + "]"
        ),
        "a billion laughs of long names": lambda: (
            "a: &a {" + "x" * 900 + ": 1}\nb: [" + "*a, " * 400_000 + "]"
        ),
        "aliases one in the other": lambda: chain("[x]", "[{b}]", 5000),
        "merges one in the other": lambda: chain("{k0: 1}", "{<<: {b}, k{n}: 1}", 3500),
        "merges doubled": lambda: chain("{k0: 1}", "{<<: [{b}, {b}]}", 60),
        "merges of 600 bytes": lambda: chain("{k0: 1}", "{<<: [{b}, {b}, {b}, {b}], k{n}: 1}", 13),
        "merges of one large object": lambda: (
            "a: &a {"
            + ", ".join(f"k{n}: 1" for n in range(5000))
            + "}\n"
            + "\n".join(f"b{n}: {{<<: *a}}" for n in range(4000))
        ),
        "merges without aliases": lambda: (
            "a: " + "{<<: " * 140 + "{" + ", ".join(f"k{n}: 1" for n in range(10_000)) + "}" + "}" * 140
        ),
        "a merge of no object": lambda: "a: {<<: 5}",
        "a list that holds itself": lambda: "a: &a [*a]",
        "an object that holds itself": lambda: "a: &a {b: {c: *a}}",
        "an object merged into itself": lambda: "a: &a {<<: *a}",
        "an alias of nothing": lambda: "a: *b",
        "an alias without end": lambda: "a: *" + "b" * SIZE,
        "a number without end": lambda: "a: " + "9" * SIZE,
        "a number beyond all": lambda: "a: 1e400",
        "a tag without end": lambda: "a: !!" + "x" * SIZE + " 1",
        "a tag of Python": lambda: "a: !!python/object/apply:os.system [ls]",
        "a tag that makes a class": lambda: "!!python/object/new:type {args: [x]}",
        "bytes": lambda: "a: !!binary aGk=",
        "a quote that is not closed": lambda: "'" + "a" * SIZE,
        "twenty thousand tag directives": lambda: (
            "".join(f"%TAG !a{n}! tag:x,{n}:\n" for n in range(20_000)) + "--- a"
        ),
        "ten thousand documents": lambda: "--- a\n" * 10_000,
        "two documents": lambda: "a: 1\n---\nb: 2",
        "a tab": lambda: "a:\n\tb: 1",
        "a control character": lambda: "a: \x01",
        "a bell in a quoted text": lambda: 'a: "\x07"',
        "not UTF-8": lambda: b"a: \xff\xfe\xfd",
        "a name without end": lambda: "? " + "x" * SIZE + "\n: 1\n? " + "x" * SIZE + "\n: *y",
    },
)

_add(
    "yaml",
    "useless",
    {
        "nothing": lambda: "",
        "a million line breaks": lambda: "\n" * 1_000_000,
        "a comment without end": lambda: "# " + "x" * 1_000_000,
        "one word": lambda: "x",
        "a text without end": lambda: "x " * 500_000,
        "lists as deep as allowed": lambda: "- " * 150 + "x",
        "a hundred thousand anchors": lambda: "".join(f"- &k{n} 1\n" for n in range(100_000)),
        "a text of escapes": lambda: '- "' + "\\u0041" * 100_000 + '"',
    },
)

_add(
    "json",
    "useless",
    {
        "a number": lambda: "[1]",
        "a list of lists": lambda: _nested("[", "]", 150),
        "a hundred thousand empty objects": lambda: "[" + "{}," * 100_000 + "{}]",
        "one name a hundred thousand times": lambda: "{" + '"a":1,' * 100_000 + '"a":2}',
        "half a surrogate pair": lambda: '{"a": "\\ud800"}',
        "no version": lambda: '{"openapi": null, "paths": {}}',
        "a version that is a bomb": lambda: json.dumps({"openapi": "3." * 50_000}),
        "paths that are a list": lambda: json.dumps({"openapi": "3.1.0", "info": {}, "paths": []}),
    },
)

_add(
    "json",
    "usable",
    {
        "a title without end": _api(info={"title": "x" * SIZE, "version": "1"}),
        "control characters and directions": _api(
            info={"title": "\x1b]0;x\x07\u202egnp\u202c", "version": "\x9b"}
        ),
        "a definition for each letter that refers to the next": _api(
            components={"schemas": {f"s{n}": {"$ref": f"#/components/schemas/s{n + 1}"} for n in range(5000)}}
        ),
        "definitions that double, which nothing uses": _api(
            components={
                "schemas": {
                    f"s{n}": {"allOf": [{"$ref": f"#/components/schemas/s{n + 1}"}] * 2} for n in range(60)
                }
            }
        ),
        "a circle that nothing uses": _api(
            components={
                "schemas": {"a": {"$ref": "#/components/schemas/b"}, "b": {"$ref": "#/components/schemas/a"}}
            }
        ),
        "a name that is a pointer": _api(components={"schemas": {"~1~0/../..": {"type": "string"}}}),
        "a hundred thousand tags": _api(tags=[{"name": str(n)} for n in range(100_000)]),
        "a large example": _api(**{"x-example": [[n] * 10 for n in range(20_000)]}),
        "numbers of thirty digits": _api(**{"x-number": 10**30}),
    },
)
