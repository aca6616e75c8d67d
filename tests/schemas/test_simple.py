"""What is seen at a glance to fit a simple schema, the library finds to fit too."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import jsonschema_rs
import pytest
from hypothesis import given
from hypothesis import strategies as st

from servers.examples import examples
from spindle.calls.validate import is_surely_json
from spindle.schemas.compiled import CompiledSchema
from spindle.schemas.simple import SimpleSchema

TEXT = {"type": "string"}
NAMES = st.sampled_from(["a", "b", "c"])
ODD = st.sampled_from([None, 5, "x", [], {}, True, ["x"]])
PARTS = st.fixed_dictionaries(
    {"type": st.sampled_from(["string", "integer", "number", "boolean", "array", "null", ["string"], 5])},
    optional={
        "title": st.just("a") | ODD,
        "description": st.just("a") | ODD,
        "default": ODD,
        "examples": st.just(["x"]) | ODD,
        "deprecated": st.just(True) | ODD,
        "minLength": st.just(1),
        "enum": st.just(["x"]),
    },
)
SCHEMAS = st.fixed_dictionaries(
    {"type": st.sampled_from(["object", "object", "object", "string"])},
    optional={
        "properties": st.dictionaries(NAMES, PARTS) | ODD,
        "required": st.lists(NAMES) | ODD,
        "additionalProperties": st.booleans() | ODD,
        "title": st.just("a") | ODD,
        "$schema": st.sampled_from(
            ["https://json-schema.org/draft/2020-12/schema", "http://json-schema.org/draft-04/schema#", 5]
        ),
    },
)
SCALARS = st.sampled_from([None, True, False, 0, 1, -1, 1.0, 1.5, "", "x", [], {}, 10**30, float("inf")])
VALUES = st.dictionaries(NAMES, SCALARS) | SCALARS


@examples(1000)
@given(SCHEMAS, VALUES)
def test_what_plainly_fits_fits(schema: dict[str, Any], value: Any) -> None:
    simple = SimpleSchema.of(schema)
    if simple is not None:
        assert jsonschema_rs.validator_for(schema).is_valid(value) or not simple.plainly_accepts(value)


@examples(1000)
@given(
    SCHEMAS, st.dictionaries(NAMES, SCALARS | st.text() | st.floats() | st.integers() | st.just("x" * 20_000))
)
def test_what_surely_fits_fits_and_is_json(schema: dict[str, Any], value: dict[str, Any]) -> None:
    simple = SimpleSchema.of(schema)
    if simple is not None and simple.surely_fits(value):
        assert jsonschema_rs.validator_for(schema).is_valid(value)
        assert is_surely_json(value)


@pytest.mark.parametrize(
    ("value", "sure"),
    [
        ({"t": "hi", "i": 5, "n": 1.5, "b": True}, True),
        ({"t": "hé", "i": 5, "n": 1.5, "b": True}, False),
        ({"t": "\ud800", "i": 5, "n": 1.5, "b": True}, False),
        ({"t": "x" * 2000, "i": 5, "n": 1.5, "b": True}, False),
        ({"t": "hi", "i": 2**60, "n": 1.5, "b": True}, False),
        ({"t": "hi", "i": True, "n": 1.5, "b": True}, False),
        ({"t": "hi", "i": 5, "n": float("nan"), "b": True}, False),
        ({"t": "hi", "i": 5, "n": float("-inf"), "b": True}, False),
        ({"t": "hi", "i": 5, "n": 1, "b": True}, False),
        ({"t": "hi", "i": 5, "n": 1.5}, False),
        ({"t": "hi", "i": 5, "n": 1.5, "b": True, "more": "x"}, False),
    ],
)
def test_what_is_sure_at_a_glance(value: dict[str, Any], sure: bool) -> None:
    kinds = {"t": "string", "i": "integer", "n": "number", "b": "boolean"}
    properties = {name: {"type": kind} for name, kind in kinds.items()}
    simple = SimpleSchema.of({"type": "object", "properties": properties, "required": list(kinds)})
    assert simple is not None
    assert simple.surely_fits(value) is sure


@pytest.mark.parametrize(
    ("value", "fits"),
    [
        ({"text": "hi"}, True),
        ({"text": "hi", "count": 1}, True),
        ({"text": "hi", "count": 1.0}, True),
        ({"text": "hi", "count": True}, False),
        ({"text": 5}, False),
        ({"count": 1}, False),
        ({"text": "hi", "more": 1}, False),
        ("hi", False),
    ],
)
def test_a_simple_schema_says_what_does_not_fit(value: Any, fits: bool) -> None:
    schema = {
        "type": "object",
        "properties": {"text": TEXT, "count": {"type": "integer", "description": "how often"}},
        "required": ["text"],
        "additionalProperties": False,
    }
    assert SimpleSchema.of(schema) is not None
    compiled = CompiledSchema(schema)
    assert compiled.accepts(value) is fits
    assert bool(compiled.mistakes(value)) is not fits


def test_the_library_is_loaded_for_what_needs_it() -> None:
    text = (
        "import sys\nfrom spindle.schemas.compiled import CompiledSchema\n"
        "schema = CompiledSchema({'type': 'object', 'properties': {'a': {'type': 'string'}}})\n"
        "print(schema.accepts({'a': 'x'}), 'jsonschema_rs' in sys.modules, schema.accepts({'a': 1}))"
    )
    done = subprocess.run([sys.executable, "-c", text], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["True", "False", "False"]
