"""The `[search]` table: the model by which tools are found by meaning."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast
from urllib.parse import urlsplit

from spindle.errors import ConfigurationError, suggest
from spindle.ports.embedder import MAX_DIMENSIONS
from spindle.settings.expand import expand_table, has_reference

if TYPE_CHECKING:
    from spindle.settings import Settings

EMBEDDERS = ("light", "openai", "folder")
_HERE = ("localhost", "127.0.0.1", "::1")


@dataclass(frozen=True)
class SearchSettings:
    """The `[search]` table after validation."""

    embedder: str | None = None
    """`light`: small, comes with the extra `search`; `openai`: an endpoint that speaks as OpenAI's;
    `folder`: a model of sentence-transformers on this machine. None: tools are found by their words alone."""
    base_url: str = "https://api.openai.com/v1"
    model: str | None = None
    api_key: str | None = field(default=None, repr=False)
    dimensions: int | None = None
    """Numbers of a vector that the endpoint is asked for; None: as many as the model gives."""
    folder: Path | None = None
    timeout: float = 2.0
    """Seconds that a search waits for the model, before it answers by words alone."""


_KNOWN = tuple(field.name for field in fields(SearchSettings))
_NEEDS = {"openai": "model", "folder": "folder"}


def search_settings(settings: Settings, environ: Mapping[str, str]) -> SearchSettings:
    """Reads the `[search]` table, with every `${VAR}` replaced. Raises ConfigurationError for a mistake."""
    table = settings.raw.get("search")
    if table is None:
        return SearchSettings()
    where = str(settings.root / "spindle.toml")
    if not isinstance(table, dict):
        raise ConfigurationError(f"{where}: `search` must be a table: [search]")
    written = cast("dict[str, Any]", table)
    key = written.get("api_key")
    if isinstance(key, str) and not has_reference(key):
        # The value is not shown: it is the key itself.
        raise ConfigurationError(
            f"{where}: search.api_key must refer to a variable, such as ${{OPENAI_API_KEY}}",
            hint="a key does not belong in a file that is shared",
        )
    settings.require_trust()
    given = expand_table(written, environ, "search")
    for name, value in given.items():
        _check(where, name, value)
    kind = given.get("embedder")
    if (needed := _NEEDS.get(kind or "")) is not None and needed not in given:
        raise ConfigurationError(f'{where}: search.embedder = "{kind}" needs search.{needed}')
    made = SearchSettings(**{name: _typed(settings.root, name, value) for name, value in given.items()})
    if made.api_key and not made.base_url.startswith("https:") and _host(made.base_url) not in _HERE:
        raise ConfigurationError(f"{where}: search.api_key would be sent in the clear: use https")
    return made


def _check(where: str, name: str, value: Any) -> None:
    if name not in _KNOWN:
        meant = suggest(name, _KNOWN)
        hint = f"did you mean `{meant}`?" if meant else f"known are: {', '.join(_KNOWN)}"
        raise ConfigurationError(f"{where}: search.{name} is not a setting", hint=hint)
    if name == "timeout":
        if _seconds(value) is None:
            raise ConfigurationError(f"{where}: search.timeout must be a number of seconds, up to 60")
    elif name == "dimensions":
        if not isinstance(value, int) or isinstance(value, bool) or not 0 < value <= MAX_DIMENSIONS:
            raise ConfigurationError(f"{where}: search.dimensions must be a number up to {MAX_DIMENSIONS}")
    elif not isinstance(value, str) or not value:
        raise ConfigurationError(f"{where}: search.{name} must be text")
    elif name == "embedder" and value not in EMBEDDERS:
        raise ConfigurationError(f"{where}: search.embedder must be one of {', '.join(EMBEDDERS)}")
    elif name == "base_url" and (urlsplit(value).scheme not in ("http", "https") or not _host(value)):
        raise ConfigurationError(
            f"{where}: search.base_url must be an address such as https://example.com/v1"
        )


def _typed(root: Path, name: str, value: Any) -> Any:
    if name == "timeout":
        return _seconds(value)
    if name == "folder":
        return root / Path(value).expanduser()
    return value.rstrip("/") if name == "base_url" else value


def _seconds(value: Any) -> float | None:
    try:
        seconds = float(value)
    except (TypeError, ValueError):
        return None
    return seconds if 0 < seconds <= 60 and not isinstance(value, bool) else None


def _host(url: str) -> str:
    try:
        return urlsplit(url).hostname or ""
    except ValueError:
        return ""
