"""Random values that fit a JSON Schema: what a caller of a tool might send."""

from __future__ import annotations

import base64
import datetime
import random
import string
import uuid
from typing import Any

from regexes import text_for

MAX_DEPTH = 6
_INT32, _INT64 = 2**31 - 1, 2**53 - 1
# Letters that mean something to a URL, a form, a header or JSON, and some that take several bytes.
_LETTERS = string.ascii_letters + string.digits + " -_.~!*'();:@&=+$,/?#[]%\"<>\\^`{|}éßŽ漢😀"
_PLAIN = string.ascii_letters + string.digits + "-_"
_LOWER_BOUNDS = ("minimum", "exclusiveMinimum", "minLength", "minItems", "minProperties")
_UPPER_BOUNDS = ("maximum", "exclusiveMaximum", "maxLength", "maxItems", "maxProperties")


class NoValueError(Exception):
    """No value was found that fits a schema."""


class Values:
    """Makes values for the parts of one schema. `plain`: texts are of letters and digits alone."""

    def __init__(self, seed: int, root: dict[str, Any], *, plain: bool = False) -> None:
        self._random = random.Random(seed)  # noqa: S311 - repeatable on purpose
        self._root = root
        self._plain = plain

    def of(self, schema: Any, depth: int = 0) -> Any:
        """Returns a value for a schema, one that fits it more often than not."""
        if schema is False:
            raise NoValueError
        whole = self._merged(schema if isinstance(schema, dict) else {}, 0)
        if "const" in whole:
            return whole["const"]
        if whole.get("enum"):
            return self._random.choice(whole["enum"])
        kind = self._kind(whole, depth)
        make = getattr(self, f"_{kind}")
        return make(whole, depth)

    # --- schemas

    def _resolved(self, schema: dict[str, Any]) -> dict[str, Any]:
        for _ in range(40):
            reference = schema.get("$ref")
            if not isinstance(reference, str):
                return schema
            beside = {key: value for key, value in schema.items() if key != "$ref"}
            target = self._root.get("$defs", {}).get(reference.removeprefix("#/$defs/"), {})
            schema = {"allOf": [target, beside]} if beside else target
        raise NoValueError

    def _merged(self, schema: dict[str, Any], hops: int) -> dict[str, Any]:
        """One schema without references and choices: some branch of each union, all parts of `allOf`."""
        if hops > 40:
            raise NoValueError
        schema = self._resolved(schema)
        parts = [part for part in schema.get("allOf", ()) if isinstance(part, dict)]
        for key in ("oneOf", "anyOf"):
            branches = [branch for branch in schema.get(key, ()) if isinstance(branch, dict)]
            if branches:
                usable = [branch for branch in branches if branch.get("type") != "null"] or branches
                parts.append(self._random.choice(usable))
        own = {key: value for key, value in schema.items() if key not in ("allOf", "oneOf", "anyOf")}
        for part in parts:
            own = _both(own, self._merged(part, hops + 1))
        return own

    def _kind(self, schema: dict[str, Any], depth: int) -> str:
        declared = schema.get("type")
        if isinstance(declared, list):
            kinds = [kind for kind in declared if kind != "null"]
            declared = self._random.choice(kinds) if kinds and self._random.random() < 0.9 else "null"
            return declared if "null" in schema["type"] or kinds else "null"
        if isinstance(declared, str):
            return declared
        if "properties" in schema or "required" in schema:
            return "object"
        if "items" in schema:
            return "array"
        if schema.keys() & {"pattern", "minLength", "maxLength", "format"}:
            return "string"
        return self._random.choice(("string", "integer", "boolean")) if depth else "string"

    # --- values

    def _null(self, _schema: dict[str, Any], _depth: int) -> None:
        return None

    def _boolean(self, _schema: dict[str, Any], _depth: int) -> bool:
        return self._random.random() < 0.5

    def _integer(self, schema: dict[str, Any], _depth: int) -> int:
        widest = _INT32 if schema.get("format") == "int32" else _INT64
        low, high = self._range(schema, -widest, widest, 1)
        step = schema.get("multipleOf", 1)
        number = self._random.randint(int(-(-low // 1)), int(high // 1))
        return number // step * step if isinstance(step, int) and step > 1 else number

    def _number(self, schema: dict[str, Any], _depth: int) -> float:
        low, high = self._range(schema, -1e6, 1e6, 0.001)
        step = schema.get("multipleOf")
        number = self._random.choice((self._random.uniform(low, high), float(int(low + (high - low) / 2))))
        return round(number / step) * step if step else round(min(max(number, low), high), 6)

    def _range(self, schema: dict[str, Any], low: float, high: float, step: float) -> tuple[Any, Any]:
        wanted_low = max(
            schema.get("minimum", -(10**30)), _number_or(schema.get("exclusiveMinimum"), -(10**30)) + step
        )
        wanted_high = min(
            schema.get("maximum", 10**30), _number_or(schema.get("exclusiveMaximum"), 10**30) - step
        )
        low = wanted_low if wanted_low > -(10**29) else min(low, wanted_high)
        high = wanted_high if wanted_high < 10**29 else max(high, low)
        if low > high:
            raise NoValueError
        # Small numbers are what people send; the ends are where mistakes are.
        if self._random.random() < 0.8:
            near = max(low, min(0, high))
            return near, max(near, min(high, near + 1000))
        return low, high

    def _string(self, schema: dict[str, Any], depth: int) -> str:
        low = int(schema.get("minLength", 0))
        high = int(schema.get("maxLength", max(low + 12, 12)))
        pattern = schema.get("pattern")
        if isinstance(pattern, str):
            return text_for(pattern, self._random, low, high)
        made = self._formatted(str(schema.get("format", "")))
        if made is not None and low <= len(made) <= schema.get("maxLength", len(made)):
            return made
        if low > high:
            raise NoValueError
        least = low if low or depth > 1 else min(1, high)
        letters = _PLAIN if self._plain else _LETTERS
        size = self._random.randint(least, min(high, max(least, 20)))
        return "".join(self._random.choice(letters) for _ in range(size))

    def _formatted(self, name: str) -> str | None:
        number = self._random.randrange(10**9)
        moment = datetime.datetime.fromtimestamp(number, datetime.UTC)
        match name:
            case "date":
                return moment.date().isoformat()
            case "date-time":
                return moment.isoformat().replace("+00:00", "Z")
            case "time":
                return f"{moment.time().isoformat()}Z"
            case "uuid":
                return str(uuid.UUID(int=self._random.getrandbits(128), version=4))
            case "email" | "idn-email":
                return f"user{number}@example.com"
            case "uri" | "url" | "iri":
                return f"https://example.com/{number}?a=b&c=d"
            case "hostname":
                return f"host{number}.example.com"
            case "ipv4":
                return ".".join(str(self._random.randrange(256)) for _ in range(4))
            case "ipv6":
                return f"2001:db8::{number % 65536:x}"
            case "byte":
                return base64.b64encode(self._random.randbytes(9)).decode()
            case _:
                return None

    def _array(self, schema: dict[str, Any], depth: int) -> list[Any]:
        low = int(schema.get("minItems", 0))
        high = int(schema.get("maxItems", low + 2))
        wanted = (
            low if depth >= MAX_DEPTH else self._random.randint(max(low, min(1, high)), min(high, low + 3))
        )
        items = schema.get("items", {})
        found: list[Any] = []
        for _ in range(wanted * 5):
            if len(found) == wanted:
                break
            item = self.of(items, depth + 1)
            if not schema.get("uniqueItems") or item not in found:
                found.append(item)
        return found

    def _object(self, schema: dict[str, Any], depth: int) -> dict[str, Any]:
        properties: dict[str, Any] = schema.get("properties") or {}
        required = [name for name in schema.get("required", ()) if isinstance(name, str)]
        found = {name: self.of(properties.get(name, {}), depth + 1) for name in required}
        often = 0.6 if depth == 0 else 0.35 if depth < 3 else 0.0
        for name, inner in properties.items():
            if name in found or depth >= MAX_DEPTH or self._random.random() > often:
                continue
            if not (isinstance(inner, dict) and self._is_for_answers(inner)):
                found[name] = self.of(inner, depth + 1)
        more = schema.get("additionalProperties")
        wanted = int(schema.get("minProperties", 0))
        if isinstance(more, dict) and more and depth < MAX_DEPTH and self._random.random() < 0.3:
            wanted = max(wanted, len(found) + 1)
        while len(found) < min(wanted, 50):
            found[f"key{len(found)}"] = self.of(more if isinstance(more, dict) else {}, depth + 1)
        for name, needed in (schema.get("dependentRequired") or {}).items():
            if name in found:
                for other in needed:
                    if other not in found:
                        found[other] = self.of(properties.get(other, {}), depth + 1)
        return found

    def _is_for_answers(self, schema: dict[str, Any]) -> bool:
        """Read-only: OpenAPI says that it is not part of a request, and a model can read that."""
        return bool(self._merged(schema, 0).get("readOnly"))


def _both(one: dict[str, Any], other: dict[str, Any]) -> dict[str, Any]:
    """The schema of what fits both."""
    result = {**other, **one}
    for key in one.keys() & other.keys():
        a, b = one[key], other[key]
        if key == "properties":
            result[key] = {**b, **a}
        elif key == "required":
            result[key] = list(dict.fromkeys([*a, *b]))
        elif key == "enum":
            result[key] = [item for item in a if item in b] or a
        elif key == "type" and a != b:
            kinds = [kind for kind in _listed(a) if kind in _listed(b)]
            if not kinds:
                raise NoValueError
            result[key] = kinds[0] if len(kinds) == 1 else kinds
        elif key in _LOWER_BOUNDS:
            result[key] = max(a, b)
        elif key in _UPPER_BOUNDS:
            result[key] = min(a, b)
    return result


def _listed(kinds: Any) -> list[str]:
    return kinds if isinstance(kinds, list) else [kinds]


def _number_or(value: Any, otherwise: float) -> float:
    return value if isinstance(value, (int, float)) and not isinstance(value, bool) else otherwise
