"""The ways out of an error that depend on the reader: a person at a shell, a Python program, a model, an
HTTP client.

An error carries a `Remedy`, which says as data what to do. The surface that shows the error puts it into its
own words: a model cannot run `spindle sync`, and a shell has no method `sync`.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from shlex import quote
from typing import Any, Literal, overload

Surface = Literal["shell", "python", "model", "http"]
"""The reader of an error. Models and HTTP clients are remote: they can change nothing where Spindle runs."""

REMOTE: frozenset[Surface] = frozenset({"model", "http"})

REPORTED: Mapping[str, str] = {
    "auth": "check the source's `auth` setting and that its credential is still valid",
    "permission": "the credential lacks a permission that the source requires",
    "rate_limited": "wait, or lower the source's `rate_limit`",
}
"""The hints for errors that a source reports, by category, for whoever configured it."""


@dataclass(frozen=True, slots=True)
class _Words:
    """One way out in the words of each surface, with `{0}` for the target, `{1}` for the source and `{2}` for
    the target as a word of a shell; None where it can do nothing."""

    shell: str
    python: str
    model: str | None = None
    http: str | None = None


_OWNER = "whoever runs this Spindle has to"

_WORDS: Mapping[str, _Words] = {
    "accept": _Words(
        "`spindle sync {1} --accept {0}`, once you trust it",
        '`sync("{1}", accept=["{0}"])`, once you trust it',
        f"{_OWNER} accept it first",
        f"{_OWNER} accept it first",
    ),
    "answer": _Words(
        "to answer it, run it at a terminal",
        "to answer it, give a function: `spindle.open(on_question=…)`",
        *["use a client that can be asked (elicitation)"] * 2,
    ),
    "ask_approver": _Words(
        "`spindle resume {0} --approve` on the machine of the workspace, or `approvers` of the source",
        'without a `principal`, `resume("{0}", True)` answers as the owner; `approvers` names others',
        "somebody else has to approve it",
        "ask whoever runs this workspace, or somebody that `approvers` of the source names",
    ),
    "allow_secret": _Words(
        *["its owner allows it: `spindle secret set {2} --for USER`"] * 2, *[f"{_OWNER} allow it"] * 2
    ),
    "ask_owner": _Words(*["ask whoever runs this workspace"] * 4),
    "changed_tool": _Words(
        "`spindle show {0}` shows it as it is now; save the flow again when it is right",
        '`show("{0}")` is the tool as it is now; save the flow again when it is right',
        "write the flow for the tool as it is now",
    ),
    "doctor": _Words(
        "see `spindle doctor {0}`; the first call after that tries again",
        "see `spindle doctor {0}`; the first call after that tries again",
        "call it again later",
        "call it again after `retry_after` seconds",
    ),
    "examine": _Words(
        "see `spindle doctor {0}`",
        "see `spindle doctor {0}`",
        f"{_OWNER} repair the source {{0!r}}",
        f"{_OWNER} repair the source {{0!r}}",
    ),
    "list_pauses": _Words("`spindle pauses` lists what waits", "`pauses()` lists what waits"),
    "list_runs": _Words("`spindle runs` lists them", "`spindle runs` lists them"),
    "list_sources": _Words("`spindle sources` lists them", "`spindle sources` lists them"),
    "list_tools": _Words(
        "`spindle tools` lists what there is",
        "`tools()` lists what there is",
        "use one of the tools that you were given",
        "GET /openapi.json describes what there is",
    ),
    "login": _Words(
        "run `spindle auth login {0}`",
        "log in with `spindle auth login {0}`, or let your program ask for consent with `auth.begin`",
        f"{_OWNER} log in to {{0!r}} first",
        f"{_OWNER} log in to {{0!r}} first",
    ),
    "name_model": _Words(
        *['to give it one, add "sampling" to `answers` of the source, and set `model` in [sampling]'] * 2,
        *["use a client with a model of its own (sampling), or have whoever runs this name one"] * 2,
    ),
    "no_approval": _Words(
        *["only calls of tools wait for an approval; without `approve` in [sampling] none is needed"] * 2,
        *["only calls of tools wait for an approval"] * 2,
    ),
    "other_pause": _Words(
        "its run waits for something else now: see `spindle pauses`",
        "its run waits for something else now: see `pauses()`",
        "its run waits for something else now",
        "its run waits for something else now",
    ),
    "parameters": _Words(
        "`spindle call {0} --help` shows its parameters",
        '`show("{0}").input_schema` has its parameters',
        "its input schema says what it takes",
        "GET /openapi.json has its parameters",
    ),
    "resume_expired": _Words("`spindle resume {0}` asks again", '`resume("{0}")` asks again'),
    "resume_done": _Words(
        "its run is done; `spindle resume {0}` shows the result",
        'its run is done; `resume("{0}")` returns the result',
        "its run is done",
        "its run is done",
    ),
    "resume_failed": _Words(
        "its run failed; `spindle resume {0}` shows why",
        'its run failed; `resume("{0}")` raises why',
        "its run failed",
        "its run failed",
    ),
    "resume_lost": _Words(
        "`spindle resume {0}` shows how it ends",
        '`resume("{0}")` returns how it ends',
        "its run goes on elsewhere",
        "its run goes on elsewhere",
    ),
    "resume_running": _Words(
        "if its process died meanwhile, `spindle resume {0}` takes it over",
        'if its process died meanwhile, `resume("{0}")` takes it over',
        "its run goes on elsewhere",
        "its run goes on elsewhere",
    ),
    "search": _Words(
        "try `spindle search {0}`",
        'try `search("{0}")`',
        "use one of the tools that you were given",
        "GET /openapi.json describes what there is",
    ),
    "trust": _Words(
        "`spindle trust {2}` shows what it would run and asks; --trust is for one run",
        "run `spindle trust {2}` in a shell, or name it: `spindle.open({0!r})`",
        f"{_OWNER} trust the workspace first",
        f"{_OWNER} trust the workspace first",
    ),
    "sync": _Words("run `spindle sync`", "run `sync()`", f"{_OWNER} sync it", f"{_OWNER} sync it"),
}


@dataclass(frozen=True, slots=True)
class Remedy:
    """A way out of an error, as data: `act` is what to do, `target` the tool, source or run to do it with."""

    act: str
    target: str = ""
    source: str = ""

    def __post_init__(self) -> None:
        if self.act not in _WORDS:
            raise ValueError(f"there is no remedy {self.act!r}")

    @classmethod
    def from_dict(cls, data: Mapping[str, str] | None) -> Remedy | None:
        """Returns the remedy that was written as JSON; None for one that only another version knows."""
        return cls(**data) if data and data.get("act") in _WORDS else None

    def words(self, surface: Surface) -> str | None:
        """Returns what to do in the words of a surface; None if nothing can be done from there."""
        text: str | None = getattr(_WORDS[self.act], surface)
        return None if text is None else text.format(self.target, self.source, quote(self.target))

    def to_dict(self) -> dict[str, str]:
        """Returns the remedy as JSON, without empty fields."""
        fields = {"act": self.act, "target": self.target, "source": self.source}
        return {key: value for key, value in fields.items() if value}


def reworded(described: Mapping[str, Any], surface: Surface) -> dict[str, Any]:
    """Returns an error that was described as JSON with its hint in the words of a surface."""
    remedy = Remedy.from_dict(described.get("remedy"))
    if remedy is None:
        return dict(described)
    hint = remedy.words(surface)
    kept = {key: value for key, value in described.items() if key != "hint"}
    return kept if hint is None else {**kept, "hint": hint}


# Both are others' to choose, and comparing two texts takes the product of their lengths.
_MAX_SUGGESTED_LENGTH = 200
_MAX_SUGGESTED = 5000


def suggest(wrong: str, known: Iterable[str]) -> str | None:
    """The known name that was probably meant, or None."""
    if len(wrong) > _MAX_SUGGESTED_LENGTH:
        return None
    near = [name for name in itertools.islice(known, _MAX_SUGGESTED) if len(name) <= _MAX_SUGGESTED_LENGTH]
    import difflib

    close = difflib.get_close_matches(wrong, near, n=1, cutoff=0.6)
    return close[0] if close else None


@overload
def did_you_mean(wrong: str, known: Iterable[str], otherwise: str) -> str: ...
@overload
def did_you_mean(wrong: str, known: Iterable[str], otherwise: str | None = None) -> str | None: ...
def did_you_mean(wrong: str, known: Iterable[str], otherwise: str | None = None) -> str | None:
    """The hint for a name that is not known: the one that was probably meant, else `otherwise`."""
    meant = suggest(wrong, known)
    return f"did you mean {meant!r}?" if meant else otherwise
