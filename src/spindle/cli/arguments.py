"""The words after `spindle call TOOL`, with the options of `call` among them."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from typing import TYPE_CHECKING

from spindle.calls import words as call_words
from spindle.calls.words import Given
from spindle.cli.later_options import options_of, take_option

if TYPE_CHECKING:
    import click

    from spindle.domain.json_schema import JsonObject


def parse(tool: str, schema: JsonObject, words: Sequence[str], command: click.Command) -> Given:
    """Reads the words with the types of the tool's schema."""
    options = options_of(command)

    def take(word: str, waiting: deque[str]) -> list[str] | None:
        option = options.get(word.partition("=")[0])
        return None if option is None else take_option(option, word, waiting, "the tool")

    return call_words.parse(tool, schema, words, take)
