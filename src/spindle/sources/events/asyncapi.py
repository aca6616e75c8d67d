"""AsyncAPI documents, each read by the rules of its version."""

from __future__ import annotations

from collections.abc import Callable

from spindle.documents.refs import Documents, shown
from spindle.errors import ConfigurationError
from spindle.sources.events.operations import EventOperation
from spindle.sources.events.version2 import Version2
from spindle.sources.events.version3 import Version3


def operations(documents: Documents, note: Callable[[str], None]) -> list[EventOperation]:
    """All operations of a document, including those that are no tools."""
    version = documents.main.root.get("asyncapi")
    place = shown(documents.main.address)
    if isinstance(version, str) and version.startswith("3."):
        return list(Version3(documents, note).operations())
    if isinstance(version, str) and version.startswith("2."):
        return list(Version2(documents, note).operations())
    if version is None:
        raise ConfigurationError(
            f"{place} does not say which version of AsyncAPI it is", hint="begin it with `asyncapi: 3.0.0`"
        )
    raise ConfigurationError(f"{place}: AsyncAPI {version} is not known", hint="write it as 3.0.0 or 2.6.0")
