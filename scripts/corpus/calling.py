"""One operation, chosen at random, called through a workspace; what arrives is checked by openapi-core."""

from __future__ import annotations

import asyncio
import json
import random
import re
import tempfile
import warnings
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, quote, unquote, urlsplit

from importing import LIMITS, MAX_SECONDS, arguments_for, time_limit
from jsonschema_path import SchemaPath
from openapi_core.datatypes import RequestParameters
from openapi_core.exceptions import OpenAPIError
from openapi_core.validation.request import validators
from openapi_core.validation.request.exceptions import (
    InvalidParameter,
    MissingRequestBody,
    ParameterValidationError,
    RequestBodyValidationError,
)
from values import NoValueError
from werkzeug.datastructures import Headers, ImmutableMultiDict

import spindle
from spindle.calls.validate import Validation
from spindle.domain.tool import Tool
from spindle.errors import InvalidArgumentsError, SpindleError

VALIDATORS = {
    "3.0": (validators.V30RequestParametersValidator, validators.V30RequestBodyValidator),
    "3.1": (validators.V31RequestParametersValidator, validators.V31RequestBodyValidator),
}


@dataclass
class CalledOperation:
    """The outcome for one call."""

    name: str
    tool: str = ""
    fault: str | None = None
    passed_over: str | None = None
    """Why no call was made, if none was."""


@dataclass
class Arrived:
    """A request as it arrived, in the form that openapi-core reads."""

    method: str
    host_url: str
    path: str
    content_type: str
    body: bytes | None
    parameters: RequestParameters = field(default_factory=RequestParameters)
    raw_path: str = ""
    """The path with its escapes; `path` has only those of slashes."""


def call_operation(folder: Path, name: str, seed: int) -> CalledOperation:
    """Calls one operation of a document, and checks what arrived."""
    outcome = CalledOperation(name)
    document = json.loads((folder / name).read_bytes())
    if str(document.get("openapi", ""))[:3] not in VALIDATORS:
        outcome.passed_over = (
            f"openapi-core does not read {document.get('openapi') or document.get('swagger')}"
        )
        return outcome
    try:
        with time_limit(MAX_SECONDS), tempfile.TemporaryDirectory() as workspace:
            asyncio.run(_call(folder / name, Path(workspace), document, seed, outcome))
    except TimeoutError:
        outcome.fault = f"longer than {MAX_SECONDS} s"
    except SpindleError as error:
        outcome.fault = f"{error.category}: {error.message}"
    except Exception as error:  # noqa: BLE001 - a crash is what the corpus is there to find
        outcome.fault = f"crashed: {error!r}"
    return outcome


async def _call(
    file: Path, workspace: Path, document: dict[str, Any], seed: int, outcome: CalledOperation
) -> None:
    async with _server() as (url, arrived):
        limits = "\n".join(f"{key} = {json.dumps(value)}" for key, value in LIMITS.items())
        (workspace / "spindle.toml").write_text(
            f'[sources.api]\nkind = "openapi"\ndocument = {json.dumps(str(file))}\nbase_url = "{url}/base"\n'
            f"check_results = false\ntimeout = {MAX_SECONDS}\n{limits}\n"
        )
        environ = {"SPINDLE_HOME": str(workspace / "home"), "SPINDLE_TRUST": "1"}
        async with spindle.open(workspace, environ=environ, note=lambda _line: None) as app:
            [report] = await app.sync("api")
            if report.error:
                raise AssertionError(report.error["message"])
            names = sorted(tool.name for tool in await app.tools())
            if not names:
                outcome.passed_over = "it has no operations"
                return
            outcome.tool = random.Random(seed).choice(names)  # noqa: S311 - repeatable on purpose
            tool = await app.show(outcome.tool)
            try:
                arguments = arguments_for(tool, seed, Validation())
            except NoValueError:
                outcome.passed_over = "no arguments were found that fit its schema"
                return
            try:
                await app.call(tool.name, arguments)
            except InvalidArgumentsError as error:
                if error.sent is not False:
                    raise
                outcome.passed_over = f"the arguments have no form in a request: {error.message}"
                return
        if len(arrived) != 1:
            outcome.fault = f"{len(arrived)} requests arrived"
            return
        outcome.fault = _fault_in(arrived[0], tool, arguments, document)


def _fault_in(
    request: Arrived, tool: Tool, arguments: dict[str, Any], document: dict[str, Any]
) -> str | None:
    """Why a request is not what the document describes, in the words of openapi-core; None if it is."""
    path = tool.spec.metadata["path"]
    template = path.partition("#")[0].partition("?")[0]
    # The one path that was called, at the server that it was called at, and without what follows a `#` or a
    # `?`, which openapi-core takes for a part of the path. All else is as it was.
    whole = {
        **document,
        "servers": [{"url": f"{request.host_url}/base"}],
        "paths": {template: _without_servers(document["paths"][path])},
    }
    if '"#/paths/' in json.dumps(document):
        whole["paths"] = document["paths"] | whole["paths"]  # something refers into other paths
    request.parameters.path = _variables(f"/base{template}", request.raw_path)
    spec = SchemaPath.from_dict(whole)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for kind in VALIDATORS[str(document["openapi"])[:3]]:
            try:
                errors = list(kind(spec).iter_errors(request))
            except re.error as error:
                return f"openapi-core cannot read a pattern: {error}"
            except Exception as error:  # noqa: BLE001 - for known.toml to judge
                return f"openapi-core ended with {error!r}"[:1500]
            for error in errors:
                if not isinstance(error, MissingRequestBody):  # one that may be missing
                    remarks = _remarks(error, tool, arguments, template, str(document["openapi"]))
                    return " | ".join([_words(error), *remarks])
    return None


def _variables(template: str, path: str) -> dict[str, str]:
    """The variables of a path without their escapes. openapi-core leaves that to web frameworks, which undo
    them too early: a slash in a value would become one of the path."""
    parts = re.split(r"\{([^{}]+)\}", template)
    names = parts[1::2]
    literal = [quote(part, safe="/:@!$&'()*+,;=~%") for part in parts[0::2]]
    match = re.fullmatch("([^/]*)".join(map(re.escape, literal)), path)
    return {name: unquote(value) for name, value in zip(names, match.groups(), strict=True)} if match else {}


def _remarks(
    error: BaseException, tool: Tool, arguments: dict[str, Any], template: str, version: str
) -> Iterator[str]:
    """What the message leaves out, for known.toml to go by."""
    wrong = [found.schema for found in _schema_errors(error) if isinstance(found.schema, dict)]
    if version.startswith("3.0") and any("$ref" in schema for schema in wrong):
        yield "it stands beside a `$ref`"
    body = tool.spec.metadata.get("body")
    if isinstance(error, RequestBodyValidationError) and body:
        is_empty = not any(name in arguments for name in body.get("fields", [body.get("argument")]))
        yield f"the body is {body['kind']}" + (", and empty" if is_empty else "")
    if isinstance(error, ParameterValidationError):
        described = tool.spec.metadata["parameters"]
        key = (error.name, error.location)
        argument = next((how["argument"] for how in described if (how["name"], how["in"]) == key), None)
        if error.location == "path" and f"{{{error.name}}}" not in template:
            yield "the path has no place for it"
        elif error.location == "path" and "}{" in template:
            yield "two variables stand side by side"
        elif argument in arguments and _is_nested(arguments[argument]):
            yield "it is nested"
        elif argument not in arguments and isinstance(error, InvalidParameter):
            yield "it was not sent, and its default is what is wrong"


def _is_nested(value: Any) -> bool:
    inner = value.values() if isinstance(value, dict) else value if isinstance(value, list) else []
    return any(isinstance(item, (dict, list)) for item in inner)


def _without_servers(item: Any) -> Any:
    if not isinstance(item, dict):
        return item
    return {
        key: _without_servers(value)
        if key in ("get", "put", "post", "delete", "patch", "head", "options")
        else value
        for key, value in item.items()
        if key not in ("servers", "security")
    }


def _causes(error: BaseException) -> list[BaseException]:
    found = [error]
    while len(found) < 6:
        last = found[-1]
        cause = last.__cause__ or (last.__context__ if isinstance(last, OpenAPIError) else None)
        if cause is None:
            break
        found.append(cause)
    return found


def _schema_errors(error: BaseException) -> list[Any]:
    return [wrong for cause in _causes(error) for wrong in getattr(cause, "schema_errors", ())]


def _words(error: BaseException) -> str:
    """An error with those that caused it."""
    said = [f"{type(cause).__name__}: {cause}" for cause in _causes(error)]
    said += [f"{wrong.message} at {list(wrong.absolute_path)}" for wrong in _schema_errors(error)]
    return " | ".join(dict.fromkeys(said))[:1500]


# --- the server


@asynccontextmanager
async def _server() -> AsyncIterator[tuple[str, list[Arrived]]]:
    """A real HTTP server that keeps what it is sent."""
    arrived: list[Arrived] = []

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while True:
                arrived.append(await _read(reader, url))
                writer.write(b"HTTP/1.1 204 No Content\r\n\r\n")
                await writer.drain()
        except (asyncio.IncompleteReadError, ConnectionError):
            pass
        finally:
            writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0, limit=2**24)
    url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    try:
        yield url, arrived
    finally:
        server.close()


async def _read(reader: asyncio.StreamReader, url: str) -> Arrived:
    head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
    line, *rest = head.rstrip("\r\n").split("\r\n")
    method, target, _ = line.split(" ")
    pairs = [(name.lower(), value.strip()) for name, _, value in (entry.partition(":") for entry in rest)]
    headers = Headers(pairs)
    body = await reader.readexactly(int(headers.get("content-length", 0)))
    parts = urlsplit(target)
    cookies = [
        entry.strip().partition("=") for entry in headers.get("cookie", "").split(";") if entry.strip()
    ]
    return Arrived(
        method=method.lower(),
        host_url=url,
        path="/".join(unquote(step).replace("/", "%2F") for step in parts.path.split("/")),
        raw_path=parts.path,
        content_type=headers.get("content-type", ""),
        body=body or None,
        parameters=RequestParameters(
            query=ImmutableMultiDict(parse_qsl(parts.query, keep_blank_values=True)),
            header=headers,
            cookie=ImmutableMultiDict((name, unquote(value)) for name, _, value in cookies),
        ),
    )
