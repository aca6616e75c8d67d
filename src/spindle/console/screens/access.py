"""Access: the groups, the tokens by which clients come in, and which group sees which tool."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from spindle.console.access_rules import AccessRules, access_rules
from spindle.console.choices import Choice, counted
from spindle.console.paging import Page, page_of
from spindle.console.screen import Look, Screen
from spindle.errors import NotFoundError

if TYPE_CHECKING:
    from spindle.domain.serve import Exposure

GROUPS: Final = 20
COLUMNS: Final = 8
"""Groups of the matrix that stand beside each other."""
STATES: Final = {"good": "good", "expired": "warn", "revoked": "muted"}


@dataclass(frozen=True, slots=True)
class GroupLine:
    """One group."""

    name: str
    lists: Exposure
    written: bool
    """True if the settings name it; then it is changed there."""
    sees: int
    tokens: int
    is_default: bool


@dataclass(frozen=True, slots=True)
class GroupPage:
    """The groups, and how many tools each of them sees."""

    page: Page[GroupLine]
    tools: int
    default: str
    default_sees: int
    is_open: bool
    """True if no token is wanted yet."""
    is_owners: bool
    """True on the console of one machine, whose owner sees everything."""


async def groups(look: Look) -> GroupPage:
    """Returns the groups by name."""
    rules = await access_rules(look)
    names = list(await _tools(look))
    used = Counter(group for token in _good(look, rules) for group in token)
    page = page_of(list(rules.groups), look.query, GROUPS)
    default = rules.config.default_agent_group
    lines = [
        GroupLine(
            name,
            rules.groups[name],
            name in rules.written,
            len(rules.exposed.seen_by(name, names)),
            used[name],
            name == default,
        )
        for name in page.items
    ]
    return GroupPage(
        Page(lines, page.number, page.total, page.size),
        len(names),
        default,
        len(rules.exposed.seen_by(default, names)),
        not rules.config.wants_token and not rules.tokens,
        _is_owners(look),
    )


def _good(look: Look, rules: AccessRules) -> list[tuple[str, ...]]:
    """The groups of each token that is good."""
    written = [token.groups for token in rules.config.tokens.values()]
    return [*written, *(token.groups for token in rules.tokens if token.state(look.now) == "good")]


def _is_owners(look: Look) -> bool:
    return look.access.sessions is not None and look.access.sessions.alone


async def _tools(look: Look) -> dict[str, str]:
    """The names of the tools that this principal sees, sorted, each with its source."""
    every = (await look.app.catalog.names_by_source()).items()
    # The owner made the groups, and is in none of them.
    seen = {
        name: source for source, names in every for name in (names if look.is_owner else look.seen(names))
    }
    return dict(sorted(seen.items()))


@dataclass(frozen=True, slots=True)
class GroupForm:
    """A group that is made or changed."""

    name: str
    lists: Exposure | None
    """None for a new one."""
    others: Sequence[str]


async def group(look: Look) -> GroupForm:
    """Returns the group that the address names with `name`, for its lists to be changed."""
    rules = await access_rules(look)
    name = look.query.get("name", "")
    if name and name in rules.written:
        raise NotFoundError(f"the group {name!r} is in the settings", hint="change it there")
    if name and name not in rules.groups:
        raise NotFoundError(f"there is no group {name!r}")
    return GroupForm(name, rules.groups.get(name), [other for other in rules.groups if other != name])


@dataclass(frozen=True, slots=True)
class TokenLine:
    """One token, without its text."""

    name: str
    user: str
    groups: Sequence[str]
    admin: bool
    state: str
    written: bool
    made_at: float | None = None
    made_by: str = ""
    expires_at: float | None = None

    @property
    def colour(self) -> str:
        """The colour of its state."""
        return STATES[self.state]


@dataclass(frozen=True, slots=True)
class TokenPage:
    """The tokens, the good ones first and the newest before others."""

    page: Page[TokenLine]
    total: int
    groups: Sequence[str]
    states: Sequence[Choice]
    is_open: bool
    is_owners: bool


async def tokens(look: Look) -> TokenPage:
    """Returns the tokens that fit the address: `q`, in their name or user, and `state`."""
    rules = await access_rules(look)
    lines = [
        TokenLine(name, token.user or name, token.groups, token.admin, "good", written=True)
        for name, token in rules.config.tokens.items()
    ]
    made = [
        TokenLine(
            token.name, token.user, token.groups, token.admin, token.state(look.now), written=False,
            made_at=token.created_at, made_by=token.created_by, expires_at=token.expires_at,
        )
        for token in rules.tokens
    ]  # fmt: skip
    order = list(STATES)
    lines += sorted(made, key=lambda line: (order.index(line.state), -(line.made_at or 0)))
    words, state = look.query.get("q", "").strip().lower(), look.query.get("state")
    found = [
        line
        for line in lines
        if (words in line.name.lower() or words in line.user.lower()) and state in (None, "", line.state)
    ]
    return TokenPage(
        page_of(found, look.query),
        len(lines),
        list(rules.groups),
        counted(line.state for line in lines),
        not rules.config.wants_token and not rules.tokens,
        _is_owners(look),
    )


@dataclass(frozen=True, slots=True)
class MatrixRow:
    """One tool, and for each shown group if it sees it."""

    tool: str
    source: str
    seen: Sequence[bool]


@dataclass(frozen=True, slots=True)
class Matrix:
    """A part of all tools and groups."""

    page: Page[MatrixRow]
    total: int
    columns: Page[str]
    sources: Sequence[Choice]
    default: str


async def matrix(look: Look) -> Matrix:
    """Returns the tools that fit the address (`q`, in the name, and `source`) with the groups that see them;
    `columns` is the page of groups. Only what is shown is worked out."""
    rules = await access_rules(look)
    seen = await _tools(look)
    words, source = look.query.get("q", "").strip().lower(), look.query.get("source")
    found = [name for name, of in seen.items() if words in name.lower() and (not source or of == source)]
    columns = page_of(list(rules.groups), {"page": look.query.get("columns", "")}, COLUMNS)
    page = page_of(found, look.query)
    rows = [
        MatrixRow(tool, seen[tool], [rules.group_shows(name, tool) for name in columns.items])
        for tool in page.items
    ]
    return Matrix(
        Page(rows, page.number, page.total, page.size),
        len(seen),
        columns,
        counted(seen.values()),
        rules.config.default_agent_group,
    )


SCREENS: Final = (
    Screen("/access", "access_groups.html", groups, "access", admin=True),
    Screen("/access/group", "access_group.html", group, "access", admin=True),
    Screen("/access/tokens", "access_tokens.html", tokens, "access", admin=True),
    Screen("/access/matrix", "access_matrix.html", matrix, "access", admin=True),
)
