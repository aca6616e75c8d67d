"""Another number of examples for a property than the profile's."""

from __future__ import annotations

from hypothesis import settings

USUAL = settings.get_profile("tests").max_examples


def examples(count: int) -> settings:
    """A decorator: so many examples, and in `make fuzz` as many times more as it takes of every property."""
    return settings(max_examples=count * settings.default.max_examples // USUAL)
