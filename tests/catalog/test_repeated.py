"""Credentials that a source repeats in the texts of its tools."""

from __future__ import annotations

from spindle.catalog.repeated import RepeatedSecrets
from spindle.domain.definitions import Definitions
from spindle.domain.tool import ToolSpec
from spindle.settings.expand import named_secrets

TOKEN = 't0ken "of" the-bank'
LONGER = f"{TOKEN}-and-more"


def test_texts_and_schemas_are_hidden_and_names_stay() -> None:
    shared = Definitions({"Who": {"type": "object", "description": f"Is {TOKEN}."}})
    schema = {"type": "object", "properties": {"a": {"enum": ["x", TOKEN], "default": [TOKEN]}}}
    plain = ToolSpec("plain", description="Says nothing.", definitions=shared)
    spec = ToolSpec(
        "say", f"Wants {LONGER}.", schema, schema, f"Say {TOKEN}", tags=(TOKEN,), definitions=shared
    )
    hidden, other = RepeatedSecrets({TOKEN, LONGER}).without([spec, plain])
    assert (hidden.remote_name, hidden.description, hidden.title) == ("say", "Wants •••.", "Say •••")
    assert hidden.tags == ("•••",)
    expected = {"type": "object", "properties": {"a": {"enum": ["x", "•••"], "default": ["•••"]}}}
    assert hidden.input_schema == hidden.output_schema == expected
    assert hidden.definitions is other.definitions
    assert hidden.definitions is not None
    assert hidden.definitions.schemas["Who"]["description"] == "Is •••."
    assert TOKEN in str(schema), "what the source gave is not changed"


def test_what_repeats_nothing_is_the_same_object() -> None:
    spec = ToolSpec("say", description="Says it.", definitions=Definitions({"Who": {"type": "object"}}))
    (same,) = RepeatedSecrets({TOKEN}).without([spec])
    assert same is spec
    assert not RepeatedSecrets({"short"}).are_known


def test_only_what_is_named_like_a_secret_is_one() -> None:
    table = {
        "url": "${ADDRESS}",
        "headers": {"Authorization": "Bearer ${TOKEN}", "X-Place": "${ADDRESS}"},
        "env": {"API_KEY": "written-down"},
    }
    environ = {"ADDRESS": "https://api.example.com", "TOKEN": "t0ken-7"}
    assert named_secrets(table, environ) == {"Bearer t0ken-7", "t0ken-7", "written-down"}
