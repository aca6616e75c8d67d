"""From tables as written to typed settings, with every mistake named by its path in the file."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from pydantic import BaseModel, ValidationError

from spindle.domain.source import SOURCE_NAME, SourceConfig
from spindle.errors import ConfigurationError, suggest

if TYPE_CHECKING:
    from pydantic_core import ErrorDetails


def validate_sources(
    tables: Mapping[str, dict[str, Any]],
    origins: Mapping[str, str],
    models: Mapping[str, type[SourceConfig]],
) -> dict[str, SourceConfig]:
    problems: list[str] = []
    valid: dict[str, SourceConfig] = {}
    for name, table in tables.items():
        where = f"{origins.get(name, 'spindle.toml')}: sources.{name}"
        if not SOURCE_NAME.fullmatch(name):
            problems.append(
                f"{where}: a source's name begins with a letter and has only letters, digits, `_` and `-`"
            )
            continue
        model = models.get(str(table["kind"]))
        if model is None:
            problems.append(f"{where}.kind: {_unknown_kind(table['kind'], models)}")
            continue
        try:
            valid[name] = model.model_validate(table)
        except ValidationError as error:
            problems += [_describe(where, problem, model) for problem in error.errors()]
    if problems:
        count = "a mistake" if len(problems) == 1 else f"{len(problems)} mistakes"
        raise ConfigurationError(
            f"the configuration has {count}:\n" + "\n".join(f"  {problem}" for problem in problems)
            if len(problems) > 1
            else problems[0],
            details=problems,
        )
    return valid


def _unknown_kind(kind: Any, models: Mapping[str, Any]) -> str:
    meant = suggest(str(kind), models)
    return f"there is no kind {kind!r}" + (
        f"; did you mean {meant!r}?" if meant else f"; known are {', '.join(sorted(models))}"
    )


def _describe(where: str, problem: ErrorDetails, model: type[SourceConfig]) -> str:
    path = ".".join(str(step) for step in problem["loc"])
    place = f"{where}.{path}" if path else where
    if problem["type"] == "extra_forbidden":
        key = str(problem["loc"][-1])
        meant = suggest(key, _known_keys(model, problem["loc"][:-1]))
        return f"{place}: not a setting of this source" + (f"; did you mean `{meant}`?" if meant else "")
    message = problem["msg"].removeprefix("Value error, ")
    message = message[0].lower() + message[1:]
    given = problem.get("input")
    if problem["type"] == "missing" or isinstance(given, (dict, list, tuple)):
        return f"{place}: {message}"
    return f"{place}: {message} (got {given!r})"


def _known_keys(model: type[BaseModel], path: tuple[int | str, ...]) -> list[str]:
    for step in path:
        field = model.model_fields.get(str(step))
        annotation = field.annotation if field else None
        if not (isinstance(annotation, type) and issubclass(annotation, BaseModel)):
            return []
        model = annotation
    return list(model.model_fields)
