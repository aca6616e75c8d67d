"""Operations, arguments, and what must be on the wire for them."""

from dataclasses import dataclass, field
from typing import Any

from spindle.domain.identity import NO_CREDENTIAL, Credential

LIST = ["blue", "black", "br own"]
COLOUR = {"R": 100, "G": 200}
STRINGS = {"type": "array", "items": {"type": "string"}}


@dataclass
class Row:
    name: str
    arguments: dict[str, Any]
    target: str
    """The path and query, after the row's own `/name`."""
    method: str = "get"
    path: str = ""
    parameters: list[dict[str, Any]] = field(default_factory=list[dict[str, Any]])
    body: dict[str, Any] | None = None
    security: list[dict[str, list[str]]] | None = None
    credential: Credential = NO_CREDENTIAL
    headers: dict[str, str] = field(default_factory=dict[str, str])
    content: bytes = b""

    def operation(self) -> dict[str, Any]:
        made: dict[str, Any] = {"operationId": self.name, "parameters": self.parameters, "responses": {}}
        if self.body is not None:
            made["requestBody"] = self.body
        if self.security is not None:
            made["security"] = self.security
        return made


def styled(place: str, style: str, explode: bool, value: Any, target: str, **sent: Any) -> Row:
    kind = "array" if isinstance(value, list) else "object" if isinstance(value, dict) else "text"
    described = {"name": "c", "in": place, "style": style, "explode": explode, "schema": {}}
    name = f"{place}_{style}_{'explode' if explode else 'plain'}_{kind}"
    path = "/{c}" if place == "path" else ""
    return Row(name, {"c": value}, target, path=path, parameters=[described], headers=sent)


def query(name: str, value: Any, target: str, **more: Any) -> Row:
    described = {"name": "q", "in": "query", "schema": {}, **more}
    return Row(name, {"q": value}, target, parameters=[described])


def body(
    name: str, media_type: str, schema: Any, arguments: Any, content: bytes | str, sent_type: str = "",
    encoding: Any = None, required: bool = True,
) -> Row:  # fmt: skip
    media: dict[str, Any] = {"schema": schema}
    if encoding is not None:
        media["encoding"] = encoding
    data = content.encode() if isinstance(content, str) else content
    described = {"required": required, "content": {media_type: media}}
    headers = {"content-type": sent_type or media_type}
    return Row(name, arguments, "", method="post", body=described, headers=headers, content=data)


def secured(name: str, security: Any, credential: Credential, target: str = "", **headers: str) -> Row:
    return Row(name, {}, target, security=security, credential=credential, headers=headers)


def properties(**given: Any) -> dict[str, Any]:
    return {"type": "object", "properties": given}


def parts(*given: tuple[str, str], boundary: str) -> str:
    """A multipart body from (head, content)."""
    inner = "".join(f"--{boundary}\r\n{head}\r\n\r\n{content}\r\n" for head, content in given)
    return f"{inner}--{boundary}--\r\n"


FORM = "application/x-www-form-urlencoded"
MULTIPART = "multipart/form-data"
SENT_PARTS = "multipart/form-data; boundary=B"
BEARER = Credential(headers=(("Authorization", "Bearer tok"),))
BASIC = Credential(headers=(("Authorization", "Basic dTpw"),))
KEY = Credential(headers=(("", "k e y"),))
XML = {
    "type": "object",
    "xml": {"name": "pet"},
    "properties": {
        "id": {"type": "integer", "xml": {"attribute": True}},
        "name": {"type": "string"},
        "tags": {"type": "array", "xml": {"name": "tags", "wrapped": True},
                 "items": {"type": "string", "xml": {"name": "tag"}}},
        "photos": STRINGS,
        "owner": {"type": "object", "xml": {"prefix": "o", "namespace": "http://o.example/"},
                  "properties": {"full": {"type": "string", "xml": {"name": "fullName"}}}},
    },
}  # fmt: skip
XML_HEAD = '<?xml version="1.0" encoding="UTF-8"?>\n'
SCHEMES = {
    "bearer": {"type": "http", "scheme": "bearer"},
    "basic": {"type": "http", "scheme": "basic"},
    "custom": {"type": "http", "scheme": "Token"},
    "in_header": {"type": "apiKey", "in": "header", "name": "X-Key"},
    "in_query": {"type": "apiKey", "in": "query", "name": "key"},
    "in_cookie": {"type": "apiKey", "in": "cookie", "name": "session"},
    "oauth": {"type": "oauth2", "flows": {"implicit": {"authorizationUrl": "https://a/", "scopes": {}}}},
    "tls": {"type": "mutualTLS"},
    "oidc": {"type": "openIdConnect", "openIdConnectUrl": "https://a/"},
}

ROWS = [
    # --- path
    styled("path", "simple", False, "a b/c?d", "/a%20b%2Fc%3Fd"),
    styled("path", "simple", False, LIST, "/blue,black,br%20own"),
    styled("path", "simple", True, LIST, "/blue,black,br%20own"),
    styled("path", "simple", False, COLOUR, "/R,100,G,200"),
    styled("path", "simple", True, COLOUR, "/R=100,G=200"),
    styled("path", "label", False, "blue", "/.blue"),
    styled("path", "label", False, LIST, "/.blue,black,br%20own"),
    styled("path", "label", True, LIST, "/.blue.black.br%20own"),
    styled("path", "label", False, COLOUR, "/.R,100,G,200"),
    styled("path", "label", True, COLOUR, "/.R=100.G=200"),
    styled("path", "simple", True, "blue", "/blue"),
    styled("path", "label", True, "blue", "/.blue"),
    styled("path", "matrix", False, "blue", "/;c=blue"),
    styled("path", "matrix", True, "", "/;c"),
    styled("path", "matrix", False, LIST, "/;c=blue,black,br%20own"),
    styled("path", "matrix", True, LIST, "/;c=blue;c=black;c=br%20own"),
    styled("path", "matrix", False, COLOUR, "/;c=R,100,G,200"),
    styled("path", "matrix", True, COLOUR, "/;R=100;G=200"),
    # --- query
    styled("query", "form", True, "a&b=c d", "?c=a%26b%3Dc%20d"),
    styled("query", "form", True, LIST, "?c=blue&c=black&c=br%20own"),
    styled("query", "form", False, LIST, "?c=blue,black,br%20own"),
    styled("query", "form", True, COLOUR, "?R=100&G=200"),
    styled("query", "form", False, COLOUR, "?c=R,100,G,200"),
    styled("query", "spaceDelimited", False, LIST, "?c=blue%20black%20br%20own"),
    styled("query", "spaceDelimited", False, COLOUR, "?c=R%20100%20G%20200"),
    styled("query", "pipeDelimited", False, LIST, "?c=blue%7Cblack%7Cbr%20own"),
    styled("query", "pipeDelimited", False, COLOUR, "?c=R%7C100%7CG%7C200"),
    styled("query", "spaceDelimited", True, LIST, "?c=blue&c=black&c=br%20own"),
    styled("query", "pipeDelimited", True, LIST, "?c=blue&c=black&c=br%20own"),
    styled("query", "form", False, "blue", "?c=blue"),
    styled("query", "deepObject", True, COLOUR, "?c[R]=100&c[G]=200"),
    query("deep_nested", {"a": {"b": [1, {"x": 2}]}}, "?q[a][b][0]=1&q[a][b][1][x]=2", style="deepObject"),
    query("boolean", True, "?q=true"),
    query("number", 1.5, "?q=1.5"),
    query("null", None, "?q="),
    query("unicode", "žluť", "?q=%C5%BElu%C5%A5"),
    query("reserved", "a/b?c,d e", "?q=a/b?c,d%20e", allowReserved=True),
    query("reserved_that_ends_it", "a#b&c=d+[e]", "?q=a%23b%26c=d%2B%5Be%5D", allowReserved=True),
    query("nested_in_form", {"a": {"b": 1}}, "?a=%7B%22b%22%3A1%7D"),
    query("empty_list", [], ""),
    Row("by_content", {"q": {"a": [1]}}, "?q=%7B%22a%22%3A%5B1%5D%7D",
        parameters=[{"name": "q", "in": "query", "content": {"application/json": {"schema": {}}}}]),
    Row("odd_names", {"page[size]": 5, "$filter": "x"}, "?page[size]=5&%24filter=x",
        parameters=[{"name": "page[size]", "in": "query", "schema": {}},
                    {"name": "$filter", "in": "query", "schema": {}}]),
    # --- header and cookie
    # UTF-8, which the echo server shows byte by byte.
    styled("header", "simple", False, "a b,ü", "", c="a b,Ã¼"),
    styled("header", "simple", False, LIST, "", c="blue,black,br own"),
    styled("header", "simple", False, COLOUR, "", c="R,100,G,200"),
    styled("header", "simple", True, COLOUR, "", c="R=100,G=200"),
    styled("cookie", "form", False, "a;b", "", cookie="c=a%3Bb"),
    styled("cookie", "form", False, LIST, "", cookie="c=blue,black,br%20own"),
    styled("cookie", "form", True, COLOUR, "", cookie="R=100; G=200"),
    styled("cookie", "form", True, LIST, "", cookie="c=blue; c=black; c=br%20own"),
    styled("header", "simple", True, LIST, "", c="blue,black,br own"),
    # --- methods
    *(Row(f"by_{method}", {}, "", method=method) for method in ("options", "head", "trace", "delete")),
    Row("delete_with_body", {"a": 1}, "", method="delete", content=b'{"a":1}',
        body={"content": {"application/json": {"schema": properties(a={})}}},
        headers={"content-type": "application/json"}),
    Row("patch_with_body", {"a": None}, "", method="patch", content=b'{"a":null}',
        body={"content": {"application/merge-patch+json": {"schema": properties(a={})}}},
        headers={"content-type": "application/merge-patch+json"}),
    # --- names that clash
    Row("clash", {"id": 1, "id_query": 2, "id_header": 3, "id_cookie": 4, "id_body": 5}, "/1?id=2",
        method="put", path="/{id}",
        parameters=[{"name": "id", "in": place, "required": True, "schema": {}}
                    for place in ("cookie", "header", "query", "path")],
        body={"content": {"application/json": {"schema": properties(id={})}}},
        headers={"id": "3", "cookie": "id=4", "content-type": "application/json"}, content=b'{"id":5}'),
    # --- bodies
    body("json_object", "application/json", properties(a={}, b={}), {"a": [1, None], "b": {"c": "é"}},
         '{"a":[1,null],"b":{"c":"é"}}'),
    body("json_list", "application/json", {"type": "array"}, {"body": [1, 2]}, "[1,2]"),
    body("json_text", "application/json", {"type": "string"}, {"body": "x"}, '"x"'),
    body("json_null", "application/json", {"type": ["string", "null"]}, {"body": None}, "null"),
    body("json_choice", "application/json", {"anyOf": [properties(a={}), properties(b={})]},
         {"body": {"b": 1}}, '{"b":1}'),
    body("json_patch", "application/json-patch+json", {"type": "array"}, {"body": []}, "[]"),
    body("json_parts", "application/json", {"allOf": [properties(a={}), properties(b={})]},
         {"a": 1, "b": 2}, '{"a":1,"b":2}'),
    body("json_more", "application/json", {**properties(a={}), "additionalProperties": True},
         {"a": 1, "z": 2}, '{"a":1,"z":2}'),
    body("json_nothing", "application/json", properties(a={}), {}, "{}"),
    Row("json_left_out", {}, "", method="post",
        body={"content": {"application/json": {"schema": properties(a={})}}}),
    body("form_plain", FORM, properties(a={}, b={}), {"a": "x y&z", "b": True}, "a=x+y%26z&b=true"),
    body("form_list", FORM, properties(a={}), {"a": [1, 2]}, "a=1&a=2"),
    body("form_nested", FORM, properties(a={}), {"a": {"b": {"c": 1}, "d": [1, 2]}},
         "a[b][c]=1&a[d][]=1&a[d][]=2"),
    body("form_deep", FORM, properties(a={}), {"a": [{"b": 1}, {"b": 2}]}, "a[0][b]=1&a[1][b]=2",
         encoding={"a": {"style": "deepObject", "explode": True}}),
    body("form_commas", FORM, properties(a={}), {"a": [1, 2]}, "a=1,2",
         encoding={"a": {"style": "form", "explode": False}}),
    body("form_json", FORM, properties(a={}), {"a": {"b": 1}}, "a=%7B%22b%22%3A1%7D",
         encoding={"a": {"contentType": "application/json"}}),
    body("multipart_fields", MULTIPART, properties(a={}, b={}), {"a": "x", "b": {"c": 1}},
         parts(('Content-Disposition: form-data; name="a"', "x"),
               ('Content-Disposition: form-data; name="b"\r\nContent-Type: application/json', '{"c":1}'),
               boundary="B"), SENT_PARTS),
    body("multipart_file", MULTIPART, properties(f={"type": "string", "format": "binary"}),
         {"f": {"filename": 'a"b.png', "data": "AAEC"}},
         parts(('Content-Disposition: form-data; name="f"; filename="a%22b.png"\r\nContent-Type: image/png',
                "\0\1\2"), boundary="B"), SENT_PARTS),
    body("multipart_files", MULTIPART,
         properties(f={"type": "array", "items": {"type": "string", "format": "binary"}}),
         {"f": [{"filename": "a", "content": "1", "content_type": "text/x"}, "2"]},
         parts(('Content-Disposition: form-data; name="f"; filename="a"\r\nContent-Type: text/x', "1"),
               ('Content-Disposition: form-data; name="f"', "2"), boundary="B"), SENT_PARTS),
    body("multipart_typed", MULTIPART, properties(a={}), {"a": [1]},
         parts(('Content-Disposition: form-data; name="a"\r\nContent-Type: application/json', "[1]"),
               boundary="B"), SENT_PARTS, encoding={"a": {"contentType": "application/json"}}),
    body("any_type", "*/*", properties(a={}), {"a": 1}, '{"a":1}', "application/json"),
    body("text", "text/plain", {"type": "string"}, {"body": "řeč"}, "řeč"),
    body("text_number", "text/plain", {"type": "number"}, {"body": 1.5}, "1.5"),
    body("yaml", "application/yaml", {"type": "string"}, {"body": "a: 1"}, "a: 1"),
    body("binary", "application/octet-stream", {}, {"body": "AAH/"}, b"\x00\x01\xff"),
    body("binary_object", "image/*", {}, {"body": {"content": "<svg/>", "content_type": "image/svg+xml"}},
         "<svg/>", "image/svg+xml"),
    body("xml_object", "application/xml", XML,
         {"id": 1, "name": "a<b&\r", "tags": ["x", "y"], "photos": ["p", "q"], "owner": {"full": "O"}},
         XML_HEAD + '<pet id="1"><name>a&lt;b&amp;&#13;</name><tags><tag>x</tag><tag>y</tag></tags>'
         "<photos>p</photos><photos>q</photos>"
         '<o:owner xmlns:o="http://o.example/"><fullName>O</fullName></o:owner></pet>'),
    body("xml_reference", "text/xml", {"$ref": "#/components/schemas/Note"}, {"text": "x"},
         XML_HEAD + "<Note><text>x</text></Note>"),
    # --- security
    secured("bearer", [{"bearer": []}], BEARER, authorization="Bearer tok"),
    secured("basic", [{"basic": []}], BASIC, authorization="Basic dTpw"),
    secured("oauth", [{"oauth": ["read"]}], BEARER, authorization="Bearer tok"),
    secured("oidc", [{"oidc": []}], BEARER, authorization="Bearer tok"),
    secured("custom", [{"custom": []}], KEY, authorization="Token k e y"),
    secured("key_in_header", [{"in_header": []}], KEY, **{"x-key": "k e y"}),
    secured("key_in_query", [{"in_query": []}], KEY, "?key=k%20e%20y"),
    secured("key_in_cookie", [{"in_cookie": []}], KEY, cookie="session=k e y"),
    secured("key_as_bearer", [{"bearer": []}], KEY, authorization="Bearer k e y"),
    secured("key_as_basic", [{"basic": []}], KEY, authorization="Basic ayBlIHk6"),
    secured("and", [{"in_header": [], "in_query": []}], KEY, "?key=k%20e%20y", **{"x-key": "k e y"}),
    secured("and_of_two_kinds", [{"bearer": [], "in_query": []}],
            Credential(headers=BEARER.headers, query=(("key", "v"),)), "?key=v", authorization="Bearer tok"),
    secured("with_a_certificate", [{"tls": []}], NO_CREDENTIAL),
    secured("or_second", [{"basic": []}, {"bearer": []}], BEARER, authorization="Bearer tok"),
    secured("or_named", [{"basic": []}, {"in_query": []}], Credential(query=(("key", "v"),)), "?key=v"),
    secured("optional_given", [{}, {"bearer": []}], BEARER, authorization="Bearer tok"),
    secured("optional_not_given", [{}, {"bearer": []}], NO_CREDENTIAL),
    secured("none_wanted", [], BEARER),
    secured("named_otherwise", [{"basic": []}], Credential(headers=(("X-Own", "v"),)), **{"x-own": "v"}),
    secured("not_said", None, BEARER),
]  # fmt: skip
