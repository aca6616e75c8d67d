"""Shapes of JSON. Each takes a value and returns it as the protocol has it, without unknown fields and nulls.
It raises Misfit for what is not plainly of it. That need not be wrong: the SDK's models are asked then."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from spindle.domain.json_schema import is_array, is_object

Shape = Callable[[Any], Any]


class Misfit(Exception):  # noqa: N818 - not a mistake of anybody, as far as is known
    """A value is not plainly of the shape that was expected."""


def text(value: Any) -> str:
    """Any text."""
    if type(value) is not str:
        raise Misfit
    return value


def flag(value: Any) -> bool:
    """True or false."""
    if value is not True and value is not False:
        raise Misfit
    return value


def whole(value: Any) -> int:
    """An integer."""
    if type(value) is not int:
        raise Misfit
    return value


def counted(value: Any) -> int:
    """An integer that is not negative."""
    if whole(value) < 0:
        raise Misfit
    return value


def share(value: Any) -> float:
    """A number from 0 to 1."""
    if type(value) not in (int, float) or not 0 <= value <= 1:
        raise Misfit
    return value


def mark(value: Any) -> str | int:
    """A mark that stands for a request: text or an integer."""
    if type(value) is not str and type(value) is not int:
        raise Misfit
    return value


def plain(value: Any) -> Any:
    """A value of a form: no object, and no list but of texts."""
    if is_object(value) or (is_array(value) and any(type(item) is not str for item in value)):
        raise Misfit
    return value


def anything(value: Any) -> Any:
    """Any value, as it is."""
    return value


def whatever(value: Any) -> dict[str, Any]:
    """An object with whatever is in it."""
    if not is_object(value):
        raise Misfit
    return value


def not_null(value: Any) -> dict[str, Any]:
    """An object with whatever is in it but nulls."""
    if not is_object(value):
        raise Misfit
    if None not in value.values():
        return value
    return {name: item for name, item in value.items() if item is not None}


def one_of(*words: str) -> Shape:
    """One of these texts."""
    known = frozenset(words)

    def shape(value: Any) -> str:
        if text(value) not in known:
            raise Misfit
        return value

    return shape


def list_of(item: Shape, most: int | None = None) -> Shape:
    """A list of values of one shape."""

    def shape(value: Any) -> list[Any]:
        if not is_array(value) or (most is not None and len(value) > most):
            raise Misfit
        return [item(each) for each in value]

    return shape


def map_of(item: Shape) -> Shape:
    """An object whose values are all of one shape."""

    def shape(value: Any) -> dict[str, Any]:
        if not is_object(value):
            raise Misfit
        return {name: item(each) for name, each in value.items()}

    return shape


def either(*shapes: Shape) -> Shape:
    """A value of the first of these shapes that it is of."""

    def shape(value: Any) -> Any:
        for each in shapes:
            try:
                return each(value)
            except Misfit:
                continue
        raise Misfit

    return shape


def by(field: str, shapes: Mapping[str, Shape]) -> Shape:
    """An object of the shape that one of its fields names."""

    def shape(value: Any) -> Any:
        named = value.get(field) if is_object(value) else None
        found = shapes.get(named) if type(named) is str else None
        if found is None:
            raise Misfit
        return found(value)

    return shape


def record(
    needed: Mapping[str, Shape], optional: Mapping[str, Shape] | None = None, rest: Shape | None = None
) -> Shape:
    """An object with these fields. Others are left out; with `rest`, which is their shape, only nulls are."""
    known = {**needed, **(optional or {})}
    names = needed.keys()

    def shape(value: Any) -> dict[str, Any]:
        if not is_object(value) or not names <= value.keys():
            raise Misfit
        made: dict[str, Any] = {}
        for name, item in value.items():
            field = known.get(name, rest)
            if field is None or (item is None and name not in names):
                continue
            made[name] = field(item)
        return made

    return shape
