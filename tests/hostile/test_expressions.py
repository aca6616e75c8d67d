"""Regular expressions on texts of others take time in proportion to the text. Each of these took its square
or cube, which for a text of this length is minutes."""

from __future__ import annotations

from pathlib import Path

import pytest

from spindle.cli.client_secrets import _QUERY as QUERY_OF_CLIENTS
from spindle.cli.documents import document_in
from spindle.cli.program_help.text import clean, described, options
from spindle.documents.json_text import line_below
from spindle.drafting.dialogue import UnusableError
from spindle.drafting.fitting import _VALUE as VALUES
from spindle.drafting.prompt import json_in
from spindle.settings.expand import has_reference
from spindle.sources.utcp.commands import NeedsShellError, words_of

LENGTH = 200_000


def test_json_in_the_answer_of_a_model() -> None:
    for text in ("```" + "\n" * LENGTH, "```json\n" + " \n" * LENGTH, "```\n" * LENGTH):
        with pytest.raises(UnusableError):
            json_in(text)
    assert json_in('Here:\n```json\n{"a": 1}\n```\nand `{}`') == '{"a": 1}'
    assert json_in('```\n{"a": 1}\n```\n```json\n{"a": {"b": 2}}\n```') == '{"a": {"b": 2}}'


def test_the_help_of_a_program() -> None:
    for text in (" " * LENGTH + "x", "-a" + " " * LENGTH + "-", "usage: " + "[" * LENGTH, "\n" * LENGTH):
        cleaned = clean(text)
        assert isinstance(described(cleaned), str)
        assert options(cleaned) is not None


def test_a_document_that_is_looked_into(tmp_path: Path) -> None:
    file = tmp_path / "api.json"
    file.write_bytes(b'"utcp_version":' + b"\n" * LENGTH)
    assert document_in(["api", str(file)], openapi=False) == ("utcp", str(file))
    file.write_bytes(b'{\n\n  "openapi" : "3.1.0", "utcp_version": 1}')
    assert document_in(["api", str(file)], openapi=False) == ("openapi", str(file))


def test_references_to_variables() -> None:
    assert not has_reference("${a:-" * (LENGTH // 40))
    assert has_reference("${a:-b}")


def test_commands_of_a_manual() -> None:
    for command in ("run " + "[" * LENGTH, "run {" + "," * LENGTH, "run " + "UTCP_ARG_" * LENGTH):
        with pytest.raises(NeedsShellError, match="characters"):
            words_of(command)
    assert len(words_of("run " + "UTCP_ARG_" * 1000)) == 2


def test_secrets_in_addresses_and_values_in_words() -> None:
    assert QUERY_OF_CLIENTS.search("?" + "token" * LENGTH) is None
    assert QUERY_OF_CLIENTS.search("https://a.example/?my_api_key_id=1")
    assert VALUES.sub("", "a" * LENGTH + " 12/3 b.c d") == "a" * LENGTH + "   d"


def test_json_with_a_quote_that_is_not_closed() -> None:
    assert line_below('"' + '\\"' * LENGTH, 5) is None
