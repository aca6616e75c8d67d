"""Tools as calls need them: all that is the same for every call, found once."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from spindle.calls.doubt import leaves_doubt
from spindle.calls.taint import acts, brings_untrusted
from spindle.domain.bounded import BoundedMap

if TYPE_CHECKING:
    from spindle.auth.credentials import Credentials
    from spindle.calls.guards import Guards, SourceGuards
    from spindle.catalog.sources import SourceSet
    from spindle.domain.call import KeyPlace
    from spindle.domain.identity import Credential
    from spindle.domain.source import FormatCheck, SourceConfig
    from spindle.domain.tool import Tool
    from spindle.ports.source import Source

MAX_PREPARED = 10_000


@dataclass(slots=True)
class PreparedTool:
    """A tool with its source, the settings and guards of that, and what they say about calls of the tool."""

    tool: Tool
    config: SourceConfig
    guards: Guards
    source: Source[Any]
    server: str | None
    """The server that its calls reach; see `Source.server_of`."""
    key_place: tuple[KeyPlace, str] | None
    """The place in which the source looks for an idempotency key, if it honours one."""
    leaves_doubt: bool
    """True if calls must be noted before they are sent, where somebody could make them again."""
    checks_results: bool
    """True if what the tool promises of its results is to be checked."""
    asks_model: bool
    """True if its source may ask for a model during calls."""
    acts: bool
    """True unless its calls are known to send, write and spend nothing."""
    is_untrusted: bool
    """True if its results may be words of anybody."""
    credential: Credential | None
    """The credential that everybody has here; None if it depends on who calls."""
    # Of the settings, since asking a model of Pydantic takes as long as all else that is asked here.
    timeout: float
    check_formats: FormatCheck
    has_approvals: bool
    """True if calls of some tools of the source need approval."""
    cache_ttl: float | None


class PreparedTools:
    """The tools that were called, each prepared anew when it or the settings of its source are others."""

    def __init__(self, guards: SourceGuards, credentials: Credentials) -> None:
        self._guards = guards
        self._credentials = credentials
        self._known: BoundedMap[str, PreparedTool] = BoundedMap(MAX_PREPARED)

    def of(self, tool: Tool, sources: SourceSet) -> PreparedTool:
        """Returns the tool as calls need it. Raises ConfigurationError if its source cannot be made."""
        config = sources.config(tool.source)
        found = self._known.get(tool.name)
        if found is None or found.tool is not tool or found.config is not config:
            source = sources.get(tool.source)
            found = self._known[tool.name] = PreparedTool(
                tool,
                config,
                self._guards.of(tool.source, config, sources),
                source,
                source.server_of(tool),
                config.key_place(tool.local_name, tool.spec),
                leaves_doubt(tool, config),
                bool(config.check_results) and tool.output_schema is not None,
                # As a field, since asking a model of Pydantic for one that it has not costs more.
                "sampling" in vars(config).get("answers", ()),
                acts(tool, config),
                brings_untrusted(tool, config),
                self._credentials.shared(tool.source, config),
                config.timeout,
                config.check_formats,
                bool(config.approve),
                config.cache.ttl if config.cache is not None else None,
            )
        return found
