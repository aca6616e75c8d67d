"""The words of each reader of an error: a shell, Python, a model, an HTTP client."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any, get_args

import pytest

from spindle import errors, remedies
from spindle.errors import (
    AuthError,
    ConfigurationError,
    InvalidArgumentsError,
    NotFoundError,
    from_description,
)
from spindle.remedies import Remedy, Surface, reworded
from spindle.runs.outcomes import read, written

ACTS = sorted(remedies._WORDS)
SOURCE = Path(errors.__file__).parent


def remedy(act: str) -> Remedy:
    return Remedy(act, "the_target", "the_source")


@pytest.mark.parametrize("act", ACTS)
def test_each_surface_has_words_of_its_own(act: str) -> None:
    said = {surface: remedy(act).words(surface) for surface in get_args(Surface)}
    assert said["shell"]
    assert said["python"]
    for surface in ("model", "http"):
        assert "spindle " not in (said[surface] or "")
        assert "()" not in (said[surface] or "")
    assert not any("{" in (words or "") for words in said.values())


def test_the_words_are_those_of_the_reader() -> None:
    error = InvalidArgumentsError("wrong", remedy=Remedy("parameters", "fs.read"))
    assert error.hint == '`show("fs.read").input_schema` has its parameters'
    assert error.hint_for("shell") == "`spindle call fs.read --help` shows its parameters"
    assert error.hint_for("model") == "its input schema says what it takes"
    assert error.hint_for("http") == "GET /openapi.json has its parameters"


def test_remote_readers_are_not_told_what_only_the_owner_can_do() -> None:
    error = ConfigurationError("no base URL", hint="set sources.api.base_url")
    assert error.to_dict()["hint"] == error.to_dict("shell")["hint"] == "set sources.api.base_url"
    assert "hint" not in error.to_dict("model")
    assert "hint" not in error.to_dict("http")
    meant = NotFoundError("no tool 'reed'", hint="did you mean 'read'?")
    assert meant.hint_for("model") == meant.hint_for("http") == "did you mean 'read'?"


def test_a_hint_takes_the_place_of_a_remedy() -> None:
    error = AuthError("no", remedy=Remedy("login", "crm"))
    error.hint = "another way"
    assert error.remedy is None
    assert error.hint_for("shell") == "another way"


@pytest.mark.parametrize("act", ACTS)
def test_a_remedy_survives_being_written_down(act: str) -> None:
    error = NotFoundError("gone", remedy=remedy(act))
    told = error.to_dict()
    assert from_description(told).remedy == remedy(act)
    with pytest.raises(NotFoundError) as caught:
        read(written(error))
    assert caught.value.remedy == remedy(act)
    assert reworded(told, "shell")["hint"] == error.hint_for("shell")
    assert reworded(told, "model").get("hint") == error.hint_for("model")
    assert "remedy" not in error.to_dict("http")


def test_a_remedy_that_another_version_knows_leaves_the_hint_as_it_was() -> None:
    told: dict[str, Any] = {
        "category": "not_found",
        "message": "gone",
        "hint": "do it",
        "remedy": {"act": "new"},
    }
    assert reworded(told, "shell")["hint"] == "do it"
    assert from_description(told).hint == "do it"
    with pytest.raises(ValueError, match="there is no remedy 'new'"):
        Remedy("new")


def test_no_hint_for_callers_tells_of_a_command() -> None:
    """Errors about a call reach models and HTTP clients: what they say about commands must be a remedy."""
    raised = re.compile(
        r"(?:NotFound|InvalidArguments|Client|PermissionDenied)Error\((?:[^()]|\([^()]*\))*\)"
    )
    found = [
        f"{path.relative_to(SOURCE)}: {match[0]}"
        for path in SOURCE.rglob("*.py")
        if path.relative_to(SOURCE).parts[0] not in ("cli", "registry")  # which the shell alone uses
        for match in raised.finditer(path.read_text())
        if "spindle " in match[0]
    ]
    assert found == []
