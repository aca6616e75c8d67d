"""Byte for byte: what is sent for every style, body kind and security scheme."""

import re

import pytest
from wire_table import ROWS, SCHEMES, Row

from servers.echo_server import EchoServer, OpenApi, a_document
from spindle.calls.validate import Validation

DOCUMENT = a_document(
    {f"/{row.name}{row.path}": {row.method: row.operation()} for row in ROWS},
    components={
        "securitySchemes": SCHEMES,
        "schemas": {"Note": {"type": "object", "properties": {"text": {"type": "string"}}}},
    },
)


def test_the_table_is_as_large_as_it_should_be() -> None:
    assert len(ROWS) == len({row.name for row in ROWS}) >= 60


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.name)
async def test_a_request_is_byte_for_byte_what_the_document_says(
    row: Row, echo: EchoServer, open_api: OpenApi
) -> None:
    async with open_api(DOCUMENT, row.credential, base_url=echo.url + "/v1/") as api:
        validated = Validation()
        validated.check_arguments(api.tools[row.name], row.arguments)
        await api.call(row.name, row.arguments)
    sent = echo.last
    headers, body = sent.own_headers, sent.body
    # The boundary follows from the content; here it is as good as any.
    boundary = re.search("boundary=(.*)", headers.get("content-type", ""))
    if boundary:
        headers["content-type"] = headers["content-type"].replace(boundary[1], "B")
        body = body.replace(boundary[1].encode(), b"B")
    assert sent.line == f"{row.method.upper()} /v1/{row.name}{row.target} HTTP/1.1"
    assert body == row.content
    assert headers == {"accept": "*/*", **row.headers}
