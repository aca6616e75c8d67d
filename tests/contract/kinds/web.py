"""Kinds that speak HTTP: a document, a manual or nothing but an address."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any, Self

import pytest

from contract.kinds.kind import Kind, Request
from contract.web_service import WebService
from servers.running import PATIENCE
from spindle.domain.call import Result
from spindle.errors import ClientError


class Web(Kind):
    """All of them: the same service behind each."""

    failure = ClientError

    def __init__(self, request: pytest.FixtureRequest, root: Path) -> None:
        super().__init__(request, root)
        self.service = WebService()

    async def __aenter__(self) -> Self:
        await self.service.start()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.service.stop()

    def said(self, result: Result) -> str:
        return result.structured["text"]

    async def begun(self) -> None:
        async with asyncio.timeout(PATIENCE):
            await self.service.begun.wait()

    async def over(self) -> None:
        async with asyncio.timeout(PATIENCE):
            await self.service.over.wait()

    async def lose(self) -> None:
        await self.service.stop()

    async def restore(self) -> None:
        await self.service.start()

    def shuffle(self, count: int) -> None:
        self.service.meeting.expect(count)


def api(url: str) -> dict[str, Any]:
    """The OpenAPI document of the service."""
    text = {"name": "text", "in": "query", "required": True, "schema": {"type": "string"}}
    paths = {
        f"/{name}": {
            "post" if name == "hang" else "get": {
                "operationId": name,
                "parameters": [text] if name == "echo" else [],
                "security": [{"token": []}],
                "responses": {"200": {"description": "done"}},
            }
        }
        for name in Kind.tools
    }
    return {
        "openapi": "3.1.0",
        "info": {"title": "Service", "version": "1"},
        "servers": [{"url": url}],
        "paths": paths,
        "components": {"securitySchemes": {"token": {"type": "http", "scheme": "bearer"}}},
    }


class OpenApi(Web):
    @property
    def settings(self) -> dict[str, Any]:
        self.service.pages["/openapi.json"] = api(self.service.url)
        return {"kind": "openapi", "document": f"{self.service.url}/openapi.json", "allow_private": True}


class PlainHttp(Web):
    """One tool that makes any request."""

    tools = frozenset({"request"})

    @property
    def settings(self) -> dict[str, Any]:
        return {"kind": "http", "url": self.service.url, "discover": False}

    def echo(self, text: str) -> Request:
        return Request("request", {"path": "/echo", "query": {"text": text}})

    def fail(self) -> Request:
        return Request("request", {"path": "/fail"})

    def hang(self) -> Request:
        return Request("request", {"path": "/hang", "method": "POST"})

    def whoami(self) -> Request:
        return Request("request", {"path": "/whoami"})


class DescribedHttp(Web):
    """Its OpenAPI document is found at one of the usual places."""

    @property
    def settings(self) -> dict[str, Any]:
        self.service.pages["/openapi.json"] = api(self.service.url)
        return {"kind": "http", "url": self.service.url}


class UtcpHttp(Web):
    @property
    def settings(self) -> dict[str, Any]:
        templates = {
            name: {
                "call_template_type": "http",
                "http_method": "POST" if name == "hang" else "GET",
                "url": f"{self.service.url}/{name}",
            }
            for name in self.tools
        }
        tools = [manual_tool(name, template) for name, template in templates.items()]
        return manual(self.root, tools, auth_hosts=[self.service.url])


def manual_tool(name: str, template: dict[str, Any]) -> dict[str, Any]:
    """A tool of a UTCP manual."""
    properties = {"text": {"type": "string"}} if name == "echo" else {}
    inputs = {"type": "object", "properties": properties}
    return {"name": name, "description": name, "inputs": inputs, "tool_call_template": template}


def manual(root: Path, tools: list[dict[str, Any]], **more: Any) -> dict[str, Any]:
    """The settings of a source for a manual, written to a file."""
    document = {"utcp_version": "1.0.1", "manual_version": "1.0.0", "tools": tools}
    (root / "manual.json").write_text(json.dumps(document))
    return {"kind": "utcp", "document": "manual.json", **more}
