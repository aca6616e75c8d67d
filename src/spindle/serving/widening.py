"""Settings by which clients without a token could do more than before: only a start puts them in force."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from spindle.domain.source import DESTRUCTIVE
from spindle.listening.addressing import Addressing
from spindle.serving.exposure import Lists, is_pattern

if TYPE_CHECKING:
    from spindle.domain.serve import Exposure, ServeConfig


def widened(before: ServeConfig, after: ServeConfig) -> list[str]:
    """Names each setting by which requests without a token could do more under `after` than under `before`.
    What cannot be shown to be narrower counts as wider."""
    found: list[str] = []
    if before.wants_token and not after.wants_token:
        found.append("no token would be needed (serve.auth_token_env, serve.tokens, serve.jwt)")
    if after.registry == "open" and before.registry != "open":
        found.append('serve.registry would be "open"')
    if not after.wants_token and before.registry is False and after.registry:
        found.append("serve.registry would publish the sources")
    if not set(after.trusted_proxies) <= set(before.trusted_proxies):
        found.append("serve.trusted_proxies would leave further addresses uncounted")
    if after.wants_token and after.registry != "open":
        return found  # nothing but pages is there without a token
    known, wanted = Addressing.of(before), Addressing.of(after)
    if not wanted.names <= known.names:
        found.append("serve.allowed_hosts or serve.url would name further hosts")
    if not wanted.origins <= known.origins:
        found.append("serve.allowed_origins would name further pages")
    if not _within(list(_lists(after)), list(_lists(before))):
        found.append("serve.exposed_tools, excluded_tools, groups or default_agent_group would show more")
    return found


def loosened(before: Mapping[str, Mapping[str, Any]], after: Mapping[str, Mapping[str, Any]]) -> list[str]:
    """Names each source whose settings would let calls through that a person had to approve before, or others
    approve them."""
    found: list[str] = []
    for name, table in after.items():
        known = before.get(name)
        if known is None:
            continue
        asked = _words(table, "approve")
        if not _words(known, "approve") <= asked:
            found.append(f"sources.{name}.approve would ask for fewer calls")
        if not _words(table, "approvers") <= _words(known, "approvers"):
            found.append(f"sources.{name}.approvers would let more people approve")
        if DESTRUCTIVE in asked and _believes(table) and not _believes(known):
            found.append(f"sources.{name} would be believed that its tools do no harm")
    return found


def _words(table: Mapping[str, Any], key: str) -> frozenset[str]:
    written: Any = table.get(key, ())
    return frozenset({written} if isinstance(written, str) else written)


def _believes(table: Mapping[str, Any]) -> bool:
    return table.get("trust_hints") is True or table.get("pinned") is True


def _lists(config: ServeConfig) -> Iterator[Exposure]:
    """The lists that a tool must pass to exist for somebody without a token."""
    yield config
    if config.default_agent_group in config.groups:
        yield config.groups[config.default_agent_group]


def _within(inner: list[Exposure], outer: list[Exposure]) -> bool:
    """True if every name that passes all of `inner` passes all of `outer`."""
    passing = [Lists(exposure) for exposure in inner]
    limits = [Lists(exposure) for exposure in outer]
    for exposure in inner:
        names = exposure.exposed_tools
        if names is not None and not any(is_pattern(name) for name in names):
            # Few enough to try each.
            left = [name for name in names if all(lists.admit(name) for lists in passing)]
            return all(lists.admit(name) for name in left for lists in limits)
    return all(_passes(inner, passing, exposure) for exposure in outer)


def _passes(inner: list[Exposure], passing: list[Lists], limit: Exposure) -> bool:
    excluded = {name for exposure in inner for name in exposure.excluded_tools}
    for name in set(limit.excluded_tools) - excluded:
        if is_pattern(name) or all(lists.admit(name) for lists in passing):
            return False
    if limit.exposed_tools is None:
        return True
    own = Lists(limit.model_copy(update={"excluded_tools": ()}))
    exposed = (exposure.exposed_tools for exposure in inner)
    return any(
        names is not None
        and all(own.admit(name) if not is_pattern(name) else name in limit.exposed_tools for name in names)
        for names in exposed
    )
