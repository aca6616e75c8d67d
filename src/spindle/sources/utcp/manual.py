"""Makes tools from a manual. A tool that cannot be called is left out with a note."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Final
from urllib.parse import urlsplit

from pydantic import ValidationError

from spindle.domain import trail
from spindle.domain.json_schema import JsonObject, is_array, is_object
from spindle.domain.tool import Hints, Repaired, ToolSpec
from spindle.errors import ConfigurationError, suggest
from spindle.http.addresses import host_of, is_loopback, is_written_inside
from spindle.http.origins import CredentialOrigins
from spindle.schemas.repair import read_schemas
from spindle.sources.method_hints import METHOD_HINTS
from spindle.sources.utcp.commands import NeedsShellError, check_steps
from spindle.sources.utcp.config import FROM_FILE, FROM_URL, PROTOCOLS, UtcpConfig
from spindle.sources.utcp.programs import unshared_variables
from spindle.sources.utcp.requests import host_problem
from spindle.sources.utcp.schemas import input_schema, output_schema
from spindle.sources.utcp.templates import (
    TEMPLATE,
    AnyTemplate,
    CliTemplate,
    HttpLike,
    ManualTool,
    SseTemplate,
    StreamableHttpTemplate,
    TextTemplate,
    WebSocketTemplate,
    problem_in,
)
from spindle.sources.utcp.variables import Variables, filled, withheld

TYPE: Final = "call_template_type"
_ELSEWHERE = {
    "mcp": "add the server as a source of kind mcp",
    "openapi": "add it as a source of kind openapi",
}


@dataclass(frozen=True, slots=True)
class Origin:
    """The place that a manual came from, which decides what its tools may do."""

    place: str
    """For messages."""
    manuals: tuple[str, ...]
    """The names that its variables go by."""
    address: str | None = None
    """Its URL; None for a file."""
    remote: bool = False
    """It came from elsewhere than this machine and its networks."""

    @property
    def protocols(self) -> tuple[str, ...]:
        return FROM_URL if self.address is not None else FROM_FILE


@dataclass(slots=True)
class Imported:
    """The tools of one or several manuals, with notes and with secrets that are not stored."""

    specs: list[ToolSpec] = field(default_factory=list[ToolSpec])
    notes: list[str] = field(default_factory=list[str])
    secrets: dict[str, dict[str, str]] = field(default_factory=dict[str, dict[str, str]])
    """By tool: what the manual itself holds and the store must not."""


def is_manual(root: JsonObject) -> bool:
    """Returns True for a document with the tools of a manual."""
    return is_array(root.get("tools")) and not ({"openapi", "swagger", "paths"} & root.keys())


def check_version(root: JsonObject, place: str) -> None:
    """Raises ConfigurationError for a manual of a version that is not understood."""
    tools = root["tools"]
    if any(is_object(tool) and "tool_provider" in tool for tool in tools):
        raise ConfigurationError(
            f"{place} is a manual of UTCP 0.x, which has `tool_provider` where 1.x has `tool_call_template`",
            hint="ask for a manual of UTCP 1.x",
        )
    version = root.get("utcp_version")
    if version is not None and (not isinstance(version, str) or version.partition(".")[0] not in ("1", "v1")):
        raise ConfigurationError(
            f"{place}: utcp_version is {version!r}, but only 1.x is supported",
            hint="ask for a manual of UTCP 1.x",
        )


class Importer:
    """Makes tools of manuals."""

    def __init__(
        self, name: str, config: UtcpConfig, variables: Variables, origins: CredentialOrigins
    ) -> None:
        self._name = name
        self._config = config
        self._variables = variables
        self._origins = origins

    def take(self, root: JsonObject, origin: Origin, into: Imported, prefix: str = "") -> None:
        """Adds the tools of a manual to those that were found."""
        check_version(root, origin.place)
        for index, entry in enumerate(root["tools"]):
            place = f"{origin.place}#/tools/{index}"
            try:
                tool = ManualTool.model_validate(entry)
            except ValidationError as error:
                name = entry.get("name") if is_object(entry) else None
                shown = f"{self._name}.{prefix}{name} ({place})" if isinstance(name, str) and name else place
                into.notes.append(f"{shown} was left out: {problem_in(error)}")
                continue
            try:
                self._add(tool, origin, place, into, prefix)
            except _LeftOutError as reason:
                into.notes.append(f"{self._name}.{prefix}{tool.name} was left out: {reason}")

    def _add(self, tool: ManualTool, origin: Origin, place: str, into: Imported, prefix: str) -> None:
        template = self._template(tool.tool_call_template, origin)
        self._check(template, origin)
        refused = self._check_variables(tool, origin)
        if refused is not None:
            into.notes.append(
                f"{self._name}.{prefix}{tool.name} cannot be called yet: its variables would go to"
                f" another server; {self._origins.way_out(refused)}"
            )
        stored, secrets = withheld(tool.tool_call_template)
        name = f"{prefix}{tool.name}"
        metadata: JsonObject = {
            TYPE: template.call_template_type,
            "template": stored,
            "manuals": list(origin.manuals),
            "remote": origin.remote,
            "address": origin.address,
        }
        if way := trail.in_description(tool.x_spindle_trail):
            metadata[trail.FIELD] = way
        if secrets:
            metadata["withheld"] = sorted(secrets)
            into.secrets[name] = secrets
        given, returned, faults = read_schemas(tool.inputs, tool.outputs)
        arguments = input_schema(given)
        result = output_schema(
            returned or {}, many=isinstance(template, (SseTemplate, StreamableHttpTemplate))
        )
        into.specs.append(
            ToolSpec(
                remote_name=name,
                description=tool.description,
                input_schema=arguments,
                output_schema=result,
                hints=_hints(template),
                tags=tool.tags,
                place=place,
                metadata=metadata,
                repaired=Repaired(arguments, result, faults) if faults else None,
            )
        )

    def _template(self, node: JsonObject, origin: Origin) -> AnyTemplate:
        kind = node.get(TYPE)
        if not isinstance(kind, str):
            raise _LeftOutError(f"its tool_call_template has no `{TYPE}`")
        if kind not in PROTOCOLS:
            way = _ELSEWHERE.get(kind)
            meant = suggest(kind, PROTOCOLS)
            hint = f"; {way}" if way else f"; is {meant!r} meant?" if meant else ""
            raise _LeftOutError(f"call templates of type {kind!r} are not supported{hint}")
        allowed = self._config.allowed_protocols or origin.protocols
        if kind not in allowed:
            raise _LeftOutError(
                f"{kind} is not among the protocols that this manual may use; add it to "
                f"sources.{self._name}.allowed_protocols to allow it"
            )
        try:
            return TEMPLATE.validate_python(node)
        except ValidationError as error:
            raise _LeftOutError(f"tool_call_template.{problem_in(error)}") from None

    def _check(self, template: AnyTemplate, origin: Origin) -> None:
        match template:
            case HttpLike() | WebSocketTemplate():
                problem = host_problem(template.url) or self._place_problem(template.url, origin)
                if problem:
                    raise _LeftOutError(problem)
            case CliTemplate():
                try:
                    check_steps([step.command for step in template.commands])
                except NeedsShellError as problem:
                    raise _LeftOutError(f"its commands need a shell, which is not used: {problem}") from None
                asked = unshared_variables(template) if origin.address is not None else []
                if asked:
                    raise _LeftOutError(
                        f"a manual from a URL may not read {', '.join(asked)} from your environment; "
                        f"give it in sources.{self._name}.env and as `env_vars`"
                    )
            case TextTemplate():
                if template.file_path is not None and origin.address is not None:
                    raise _LeftOutError("a manual from a URL may not name a file here")

    def _place_problem(self, url: str, origin: Origin) -> str | None:
        """Checks what can be told without asking anybody; the rest is checked when it is called."""
        try:
            parts = urlsplit(url)
            host = parts.hostname or ""
        except ValueError:
            return f"{url[:80]!r} is not a URL"
        if "$" in url.partition("://")[2].partition("/")[0] or parts.scheme not in (
            "http",
            "https",
            "ws",
            "wss",
        ):
            return None
        if parts.scheme in ("http", "ws") and not is_loopback(host) and not self._config.allow_insecure:
            return (
                f"others can listen to {parts.scheme}://{host}; sources.{self._name}.allow_insecure allows it"
            )
        if origin.remote and not self._config.allow_private and is_written_inside(host):
            where = f"{host}, which is on this machine or a private network"
            return f"it leads to {where}; sources.{self._name}.allow_private allows it"
        return None

    def _check_variables(self, tool: ManualTool, origin: Origin) -> str | None:
        """Returns an address that the tool's variables may not go to, if there is one."""

        def fill(text: str, place: str, strict: bool) -> str:
            return self._variables.fill(text, origin.manuals, place, strict=strict)

        try:
            complete = filled(tool.tool_call_template, fill)
        except ConfigurationError as error:
            raise _LeftOutError(f"{error.message}; {error.hint}") from None
        if complete == tool.tool_call_template:
            return None
        auth = complete.get("auth")
        urls = [complete.get("url"), auth.get("token_url") if is_object(auth) else None]
        # A host that an argument completes is known when the tool is called.
        known = [url for url in urls if isinstance(url, str) and host_of(url) and "{" not in host_of(url)]
        return next((url for url in known if not self._origins.admit(url)), None)


class _LeftOutError(Exception):
    """A tool of a manual cannot be one of ours; says why."""


def _hints(template: AnyTemplate) -> Hints:
    match template:
        case HttpLike():
            return METHOD_HINTS[template.method.lower()]
        case TextTemplate():
            return Hints(read_only=True, idempotent=True)
        case _:
            return Hints()


def describe(root: Any) -> str:
    """Returns a word for a document that is none of ours."""
    keys = ", ".join(list(root)[:6])
    return f"it holds {keys}" if keys else "it is empty"
