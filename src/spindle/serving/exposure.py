"""The lists of exposed and excluded tools, for everybody and for each group."""

from __future__ import annotations

import fnmatch
import re
from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import TYPE_CHECKING

from spindle.domain.names import may_name
from spindle.domain.serve import Exposure
from spindle.errors import did_you_mean, suggest

if TYPE_CHECKING:
    from spindle.domain.access_entry import AccessEntry
    from spindle.domain.identity import Principal
    from spindle.domain.serve import ServeConfig

_SIGNS = re.compile(r"[*?\[]")


def is_pattern(name: str) -> bool:
    """True if a name in a list may stand for several tools."""
    return _SIGNS.search(name) is not None


class NamePatterns:
    """A set of exact names and patterns."""

    def __init__(self, written: Iterable[str]) -> None:
        self._written = tuple(written)
        patterns = {name for name in self._written if is_pattern(name)}
        self._exact = frozenset(self._written) - patterns
        joined = "|".join(fnmatch.translate(pattern) for pattern in sorted(patterns))
        self._pattern = re.compile(joined) if patterns else None

    def __contains__(self, name: str) -> bool:
        return name in self._exact or (self._pattern is not None and bool(self._pattern.match(name)))

    def among(self, names: list[str]) -> list[str]:
        """Returns those of these names that it has: for long lists, without a call for each."""
        exact, pattern = self._exact, self._pattern
        if pattern is None:
            return [name for name in names if name in exact] if exact else []
        match = pattern.match
        return [name for name in names if name in exact or match(name)]

    def may_name(self, source: str) -> bool:
        """True if one of them may be a tool of this source."""
        return any(may_name(name, source) for name in self._written)


class Lists:
    """`exposed_tools`, then `excluded_tools`."""

    def __init__(self, config: Exposure) -> None:
        self._exposed = None if config.exposed_tools is None else NamePatterns(config.exposed_tools)
        self._excluded = NamePatterns(config.excluded_tools)

    def admit(self, name: str) -> bool:
        return (self._exposed is None or name in self._exposed) and name not in self._excluded

    def admitted(self, names: list[str]) -> list[str]:
        """Returns those of these names that are admitted."""
        shown = names if self._exposed is None else self._exposed.among(names)
        hidden = frozenset(self._excluded.among(shown))
        return [name for name in shown if name not in hidden] if hidden else shown

    def connect(self, source: str, name: str) -> bool:
        """True if some tool of a source may be admitted, and the one of this name, which connects to it. A
        source whose tools have plain names has to be connected to by name."""
        exposed = self._exposed is None or self._exposed.may_name(source) or name in self._exposed
        return exposed and f"{source}." not in self._excluded and name not in self._excluded


class Exposed:
    """Decides which tools a principal sees: those admitted by the server's lists and by the lists of any
    of the principal's groups."""

    def __init__(self, config: ServeConfig) -> None:
        self._all = Lists(config)
        self._groups = {name: Lists(group) for name, group in config.groups.items()}
        self._default = config.default_agent_group
        self._is_open = not config.excluded_tools and config.exposed_tools is None and not self._groups
        """True if the settings limit nobody."""

    @property
    def groups(self) -> list[str]:
        """The groups that have lists of their own, by name."""
        return sorted(self._groups)

    def shows(self, principal: Principal, name: str) -> bool:
        return self._is_open or (self._all.admit(name) and self.group_shows(principal.groups, name))

    def seen_by(self, group: str, names: list[str]) -> list[str]:
        """Returns those of these tools that somebody in this group alone sees, for long lists."""
        return self._shown(self._lists_of((group,)), names)

    def seen_of(self, principal: Principal, names: list[str]) -> list[str]:
        """Returns those of these tools that a principal sees: what `shows` says of each."""
        return names if self._is_open else self._shown(self._lists_of(principal.groups), names)

    def _shown(self, known: list[Lists], names: list[str]) -> list[str]:
        shown = self._all.admitted(names)
        if len(known) < 2:
            return known[0].admitted(shown) if known else shown
        seen = {name for lists in known for name in lists.admitted(shown)}
        return [name for name in shown if name in seen]

    def connects(self, principal: Principal, source: str, name: str) -> bool:
        """True if the tool of this name, which connects to a source, is visible."""
        known = self._lists_of(principal.groups)
        return self._all.connect(source, name) and (
            not known or any(lists.connect(source, name) for lists in known)
        )

    def group_shows(self, groups: Collection[str], name: str) -> bool:
        known = self._lists_of(groups)
        return not known or any(lists.admit(name) for lists in known)

    def _lists_of(self, groups: Collection[str]) -> list[Lists]:
        # Who is in no group that is configured counts as one of the default group: a group of which
        # nobody has written anything must not see more than one that is limited.
        known = [self._groups[group] for group in groups if group in self._groups]
        if not known and self._default in self._groups:
            known = [self._groups[self._default]]
        return known

    def offers(self, principal: Principal, source: str) -> bool:
        """True if the resources and prompts of a source are visible: only if all its tools may be, since
        no list can name them."""
        return self.shows(principal, f"{source}.")


def with_groups(config: ServeConfig, entries: Iterable[AccessEntry]) -> ServeConfig:
    """The settings with the groups of administrators; what the file says goes first."""
    made = {
        entry.name: Exposure.model_validate(entry.body)
        for entry in entries
        if entry.kind == "group" and entry.name not in config.groups
    }
    return config.model_copy(update={"groups": {**config.groups, **made}}) if made else config


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
        if is_pattern(name) or name in known or name.partition(".")[0] in unread:
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
