"""The lists of exposed and excluded tools, for everybody and for each group."""

from __future__ import annotations

import fnmatch
import re
from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import TYPE_CHECKING

from spindle.errors import did_you_mean, suggest

if TYPE_CHECKING:
    from spindle.domain.identity import Principal
    from spindle.domain.serve import Exposure, ServeConfig

_SIGNS = re.compile(r"[*?\[]")


class NamePatterns:
    """A set of exact names and patterns."""

    def __init__(self, written: Iterable[str]) -> None:
        patterns = {name for name in written if _SIGNS.search(name)}
        self._exact = frozenset(written) - patterns
        joined = "|".join(fnmatch.translate(pattern) for pattern in sorted(patterns))
        self._pattern = re.compile(joined) if patterns else None

    def __contains__(self, name: str) -> bool:
        return name in self._exact or (self._pattern is not None and bool(self._pattern.match(name)))


class Lists:
    """`exposed_tools`, then `excluded_tools`."""

    def __init__(self, config: Exposure) -> None:
        self._exposed = None if config.exposed_tools is None else NamePatterns(config.exposed_tools)
        self._excluded = NamePatterns(config.excluded_tools)

    def admit(self, name: str) -> bool:
        return (self._exposed is None or name in self._exposed) and name not in self._excluded


class Exposed:
    """Decides which tools a principal sees: those admitted by the server's lists and by the lists of any
    of the principal's groups."""

    def __init__(self, config: ServeConfig) -> None:
        self._all = Lists(config)
        self._groups = {name: Lists(group) for name, group in config.groups.items()}
        self._default = config.default_agent_group

    def shows(self, principal: Principal, name: str) -> bool:
        return self._all.admit(name) and self.group_shows(principal.groups, name)

    def group_shows(self, groups: Collection[str], name: str) -> bool:
        # Who is in no group that is configured counts as one of the default group: a group of which
        # nobody has written anything must not see more than one that is limited.
        known = [self._groups[group] for group in groups if group in self._groups]
        if not known and self._default in self._groups:
            known = [self._groups[self._default]]
        return not known or any(lists.admit(name) for lists in known)

    def offers(self, principal: Principal, source: str) -> bool:
        """True if the resources and prompts of a source are visible: only if all its tools may be, since
        no list can name them."""
        return self.shows(principal, f"{source}.")


def lists_in(config: ServeConfig) -> Iterator[tuple[str, str]]:
    """(place, name) for every name in every list."""
    places: Mapping[str, Exposure] = {"serve": config} | {
        f"serve.groups.{name}": group for name, group in config.groups.items()
    }
    for place, lists in places.items():
        for name in lists.exposed_tools or ():
            yield f"{place}.exposed_tools", name
        for name in lists.excluded_tools:
            yield f"{place}.excluded_tools", name


def doubts(config: ServeConfig, tools: Collection[str], unread: Collection[str] = ()) -> list[str]:
    """Warnings about probable mistakes: unknown tools and groups in the settings. `unread` are sources
    whose tools are not known yet."""
    known = frozenset(tools)
    found: list[str] = []
    for place, name in lists_in(config):
        if _SIGNS.search(name) or name in known or name.partition(".")[0] in unread:
            continue
        if any(tool.startswith(f"{name}.") for tool in known):
            hint = f"; for all tools of that source write '{name}.*'"
        else:
            meant = suggest(name, known)
            hint = f"; did you mean {meant!r}?" if meant else ""
        found.append(f"{place} names {name!r}, which is not a tool{hint}")
    for name, entry in config.tokens.items() if config.groups else ():
        for group in entry.groups:
            if group not in config.groups:
                hint = did_you_mean(group, config.groups, f"it counts as {config.default_agent_group!r}")
                found.append(
                    f"serve.tokens.{name}.groups names {group!r}, which is not in serve.groups; {hint}"
                )
    return found
