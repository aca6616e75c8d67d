"""Judges calls by the flow of trust: words of others that entered a run must not decide what it sends.

A model cannot tell an instruction from a text that reads like one, so nothing here asks if a text is harmful.
What counts is where it came from, which the settings and hints say, and what the next call could do with it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import unquote

from spindle.domain.json_schema import is_array, is_object
from spindle.errors import PermissionDeniedError

if TYPE_CHECKING:
    from spindle.domain.flow_of_trust import TrustPolicy
    from spindle.domain.json_schema import JsonObject
    from spindle.domain.source import SourceConfig
    from spindle.domain.tool import Tool

_MADE_OF_STEPS: Final = frozenset({"flows", "agents"})
"""Kinds whose tools do nothing but make calls, each of which is judged itself."""
# Compiled when first used: only a run with a list of places to send to needs them.
_ADDRESS: Final = r"(?i)[a-z][a-z0-9+.-]*:[/\\]{2,}([^/\\?#\s\"'<>]+)|(?<![:/\\\w])//([^/\\?#\s\"'<>]+)"
_MAIL: Final = r"[\w.+%-]+@[\w-]+(?:\.[\w-]+)*"
_HOST: Final = r"(?i)(?:[\w-]+\.)+[\w-]+|\[?[0-9a-f]*:[0-9a-f:]+\]?|localhost"
_NAMES_A_PLACE: Final = (
    r"(?i)(?:^|[_-]|(?<=[a-z])(?=[A-Z]))"
    r"(?:url|uri|host|hostname|domain|endpoint|webhook|link|site|website|server)s?$"
)
"""Arguments whose text may be a host without a scheme before it."""
MAX_SHOWN: Final = 3


def brings_untrusted(tool: Tool, config: SourceConfig) -> bool:
    """True if results of this tool may be words of anybody: its source's settings say so, or the tool says
    that it reaches an open world. MCP's own default for a tool that says nothing is that it does."""
    said = config.untrusted
    if said is not None:
        return said if isinstance(said, bool) else _any(said, tool.local_name)
    is_open = tool.hints.open_world
    if is_open is None or (is_open is False and not config.trusts_hints):
        return config.kind == "mcp"
    return is_open


def acts(tool: Tool, config: SourceConfig) -> bool:
    """True unless it is known that the tool sends, writes and spends nothing."""
    if _any(config.harmless, tool.local_name):
        return False
    if tool.kind in _MADE_OF_STEPS and not tool.hints.destructive:
        return False
    return not (config.trusts_hints and tool.pure)


def reason_to_ask(
    tool: Tool, given: JsonObject, policy: TrustPolicy, origin: str | None, *, may_act: bool
) -> str | None:
    """Returns why a person must allow this call, though nobody else wants that. `origin` is what brought
    untrusted content into the run. Raises PermissionDeniedError if the policy forbids the call."""
    if policy.send_to is not None:
        strange = [place for place in places_in(given) if not _is_listed(place, policy.send_to)]
        if strange:
            raise PermissionDeniedError(
                f"{tool.name} was not called: this run may not send to {_listed(strange)}",
                hint="add the place to `send_to`, or do without it",
                sent=False,
            )
    if policy.taint == "off" or not may_act or origin is None:
        return None
    why = f"{origin} brought words of others into this run, and {tool.name} may act on them"
    if policy.taint == "block":
        raise PermissionDeniedError(
            f"{tool.name} was not called: {why}",
            hint="give the answer without it, or let a person do it",
            sent=False,
        )
    return why


def places_in(arguments: JsonObject) -> list[str]:
    """Returns the hosts and mail addresses that arguments name, in lower case, wherever they stand."""
    found: dict[str, None] = {}
    for name, text in _texts(arguments):
        # Also as it reads once a server has decoded it.
        for written in dict.fromkeys((text, unquote(text))):
            found.update(dict.fromkeys(_places(name, written)))
    return list(found)


def _places(name: str, text: str) -> Iterator[str]:
    for match in re.finditer(_ADDRESS, text):
        yield _host(match[1] or match[2])
    rest = re.sub(_ADDRESS, " ", text)
    for match in re.finditer(_MAIL, rest):
        yield match[0].lower()
    bare = text.strip().split("/", 1)[0].rsplit("@", 1)[-1]
    if (re.search(_NAMES_A_PLACE, name) or text.strip().lower().startswith("www.")) and re.fullmatch(
        _HOST, bare.split(":", 1)[0] if bare.count(":") == 1 else bare
    ):
        yield _host(bare)


def _host(authority: str) -> str:
    """Returns the host of an authority, without the user before it and the port after it."""
    host = authority.rsplit("@", 1)[-1].lower()
    if host.startswith("["):
        return host[1:].split("]", 1)[0]
    return host.split(":", 1)[0].rstrip(".")


def _is_listed(place: str, patterns: tuple[str, ...]) -> bool:
    # A mail address may also be named by its host alone: `*@example.com` and `example.com` are the same.
    host = place.rsplit("@", 1)[-1]
    return any(
        fnmatchcase(place, pattern.lower()) or ("@" not in pattern and fnmatchcase(host, pattern.lower()))
        for pattern in patterns
    )


def _texts(value: Any) -> Iterator[tuple[str, str]]:
    """Yields the texts of a value, each with the name of the argument that it is."""
    waiting: list[tuple[str, Any]] = [("", value)]
    while waiting:
        name, value = waiting.pop()
        if isinstance(value, str):
            yield name, value
        elif is_object(value):
            for key, item in value.items():
                yield "", key
                waiting.append((key, item))
        elif is_array(value):
            waiting += [(name, item) for item in value]


def _listed(places: list[str]) -> str:
    more = f" and {len(places) - MAX_SHOWN} more" if len(places) > MAX_SHOWN else ""
    return ", ".join(place[:100] for place in places[:MAX_SHOWN]) + more


def _any(patterns: tuple[str, ...], name: str) -> bool:
    return any(re.fullmatch(pattern, name) for pattern in patterns)
