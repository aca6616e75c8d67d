"""Turns tables as written into typed settings, and names every mistake by its path in the file."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeVar, cast, get_args

from pydantic import BaseModel, ValidationError

from spindle.domain.source import SOURCE_NAME, SourceConfig
from spindle.errors import ConfigurationError, suggest
from spindle.settings.expand import expand_table, expand_text, has_reference

if TYPE_CHECKING:
    from pydantic_core import ErrorDetails

Step = int | str
M = TypeVar("M", bound=BaseModel)

# Values below these keys may be secrets, so messages do not show them.
_SECRET_TABLES = frozenset({"auth", "auth_token", "env", "headers", "tokens"})

# Pydantic names what Python makes of a value; a settings file has text, numbers, lists and tables.
_PLAIN = {
    "bool_parsing": "should be true or false",
    "bool_type": "should be true or false",
    "dict_type": "should be a table",
    "float_parsing": "should be a number",
    "float_type": "should be a number",
    "int_parsing": "should be a whole number",
    "int_type": "should be a whole number",
    "list_type": "should be a list",
    "model_attributes_type": "should be a table",
    "model_type": "should be a table",
    "string_type": "should be text",
    "tuple_type": "should be a list",
}


def validate_sources(
    tables: Mapping[str, dict[str, Any]],
    origin: Callable[[str], str],
    models: Mapping[str, type[SourceConfig]],
    environ: Mapping[str, str],
) -> dict[str, SourceConfig]:
    """Validates the tables of all sources, or raises one error that lists every mistake."""
    problems: list[str] = []
    valid: dict[str, SourceConfig] = {}
    for name, table in tables.items():
        where = f"{origin(name)}: sources.{name}"
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
            valid[name] = _validate(name, table, model, environ)
        except ValidationError as error:
            found = [_describe(where, problem, table, model) for problem in error.errors()]
            problems += dict.fromkeys(found)
        except ConfigurationError as error:
            problems.append(f"{where}: {error.message}" + (f"; {error.hint}" if error.hint else ""))
    _refuse(problems)
    return valid


def validate_table(
    model: type[M], name: str, table: dict[str, Any], file: str, environ: Mapping[str, str]
) -> M:
    """Validates a table at the top of the file, with every `${VAR}` replaced."""
    expanded = expand_table(table, environ, name)
    try:
        return model.model_validate(expanded)
    except ValidationError as error:
        found = [_describe(f"{file}: {name}", problem, expanded, model) for problem in error.errors()]
        _refuse(list(dict.fromkeys(found)))
        raise


def own_mistakes(error: ConfigurationError, place: str) -> ConfigurationError:
    """The part of an error about all sources that is about the one at a place, if there is any."""
    details: list[str] = error.details or []
    own = [problem for problem in details if problem.startswith((f"{place}.", f"{place}:"))]
    return _as_one(own) if own else error


def _refuse(problems: Sequence[str]) -> None:
    """Raises one error that lists every problem, if there are any."""
    if problems:
        raise _as_one(problems)


def _as_one(problems: Sequence[str]) -> ConfigurationError:
    listed = "\n".join(f"  {problem}" for problem in problems)
    message = (
        problems[0] if len(problems) == 1 else f"the configuration has {len(problems)} mistakes:\n{listed}"
    )
    return ConfigurationError(message, details=list(problems))


def _validate(
    name: str, table: dict[str, Any], model: type[SourceConfig], environ: Mapping[str, str]
) -> SourceConfig:
    """Validates one source. Text keeps its `${VAR}` until the source is used; where another type is
    wanted, such as a number, it is replaced now."""
    try:
        return model.model_validate(table)
    except ValidationError as error:
        filled = copy.deepcopy(table)
        for problem in error.errors():
            path = _path(problem["loc"], table)
            given = _at(table, path)
            if isinstance(given, str) and has_reference(given):
                holder = _at(filled, path[:-1])
                holder[path[-1]] = expand_text(given, environ, f"sources.{name}.{_dotted(path)}", name)
        if filled == table:
            raise
        return model.model_validate(filled)


def _unknown_kind(kind: Any, models: Mapping[str, Any]) -> str:
    meant = suggest(str(kind), models)
    return f"there is no kind {kind!r}" + (
        f"; did you mean {meant!r}?" if meant else f"; known are {', '.join(sorted(models))}"
    )


def _describe(where: str, problem: ErrorDetails, table: dict[str, Any], model: type[BaseModel]) -> str:
    path = _path(problem["loc"], table)
    place = f"{where}.{_dotted(path)}" if path else where
    place = place.replace(": sources.agents.agents.", ": agents.")  # as it is written in the file
    if problem["type"] == "extra_forbidden":
        meant = suggest(str(path[-1]), _known_keys(model, path[:-1]))
        what = "not a setting of this source" if issubclass(model, SourceConfig) else "not a setting"
        return f"{place}: {what}" + (f"; did you mean `{meant}`?" if meant else "")
    message = _PLAIN.get(problem["type"]) or problem["msg"].removeprefix("Value error, ")
    message = message[0].lower() + message[1:]
    given = _at(table, path)
    if given is None or isinstance(given, (dict, list, tuple)) or (path and path[0] in _SECRET_TABLES):
        return f"{place}: {message}"
    return f"{place}: {message} (got {given!r})"


def _path(location: Sequence[Step], table: Any) -> list[Step]:
    """Returns the location in the file, without the branches of unions that Pydantic adds to it."""
    path: list[Step] = []
    node = table
    for position, step in enumerate(location):
        if isinstance(node, dict):
            items = cast("dict[Step, Any]", node)
            if step not in items and position < len(location) - 1:
                continue
            node = items.get(step)
        elif isinstance(node, list) and isinstance(step, int):
            node = cast("list[Any]", node)[step]
        else:
            continue
        path.append(step)
    return path


def _at(table: Any, path: Sequence[Step]) -> Any:
    for step in path:
        if isinstance(table, dict):
            table = cast("dict[Step, Any]", table).get(step)
        elif isinstance(table, list):
            table = cast("list[Any]", table)[cast(int, step)]
    return table


def _dotted(path: Sequence[Step]) -> str:
    return "".join(f"[{step}]" if isinstance(step, int) else f".{step}" for step in path).removeprefix(".")


def _known_keys(model: type[BaseModel], path: Sequence[Step]) -> list[str]:
    models = [model]
    for step in path:
        inside = [
            inner
            for outer in models
            if str(step) in outer.model_fields
            for inner in _models_in(outer.model_fields[str(step)].annotation)
        ]
        # Otherwise it is a name that the user gave, such as that of a command in a table of them.
        models = inside or models
    return [field.alias or name for outer in models for name, field in outer.model_fields.items()]


def _models_in(annotation: Any) -> Iterator[type[BaseModel]]:
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        yield annotation
    for part in get_args(annotation):
        yield from _models_in(part)
