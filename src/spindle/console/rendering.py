"""Templates into pages. A text of somebody else stays text, whatever is in it, and is no longer than a page
bears."""

from __future__ import annotations

import hashlib
import json
import re
import secrets
import time
from collections.abc import Mapping
from datetime import UTC, datetime
from functools import cache
from pathlib import Path
from typing import Any, Final, cast
from urllib.parse import quote, urlencode

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup, escape

from spindle.console import charts
from spindle.console.icons import icon
from spindle.domain.visible import visible, visible_json
from spindle.listening.response import Response

FOLDER: Final = Path(__file__).parent
LONGEST: Final = 50_000
"""Characters of one text on a page."""


def text(value: Any) -> Any:
    """Returns what a template shows of a value: nothing of it turns the order of words around or stays
    unseen. Called for every `{{ … }}`."""
    if isinstance(value, Markup) or not isinstance(value, str):
        return value
    if len(value) > LONGEST:
        value = f"{value[:LONGEST]} … ({len(value):,} characters)"
    return visible(value)


def cut(value: str, length: int = 160) -> str:
    """Returns the beginning of a text, on one line."""
    line = " ".join(value[: length * 4].split())
    return line if len(line) <= length else f"{line[: length - 1]}…"


def seconds(value: float | None) -> str:
    """Returns a time span as a person says it."""
    if value is None:
        return "none"
    if value < 0.0005:
        return "<1 ms"
    if value < 1:
        return f"{value * 1000:.0f} ms"
    if value < 60:
        return f"{value:.1f} s"
    minutes, rest = divmod(round(value), 60)
    if minutes < 60:
        return f"{minutes} min {rest} s"
    hours, minutes = divmod(minutes, 60)
    return f"{hours} h {minutes} min" if hours < 48 else f"{hours // 24} days"


def in_bytes(value: float) -> str:
    """Returns a size as a person says it."""
    for unit in ("bytes", "KB", "MB"):
        if value < 1000:
            return f"{value:.0f} {unit}" if unit == "bytes" or value >= 100 else f"{value:.1f} {unit}"
        value /= 1000
    return f"{value:,.1f} GB"


_STEPS: Final = ((60, 1, "s"), (3600, 60, "min"), (86400, 3600, "h"), (86400 * 30, 86400, "days"))


def ago(seconds: float) -> str | None:
    """Returns the words for a time so long ago, or None if its date says more. The page's script has the
    same words, so that nothing moves when it goes on with them."""
    if abs(seconds) < 5:
        return "just now"
    for below, size, unit in _STEPS:
        if abs(seconds) < below:
            count = int(abs(seconds) / size)
            said = f"{count} {'day' if unit == 'days' and count == 1 else unit}"
            return f"in {said}" if seconds < 0 else f"{said} ago"
    return None


def when(value: float | None) -> Markup:
    """Returns a time as "3 min ago". The page's script goes on with it, and shows the reader's own time on
    hover."""
    if value is None:
        return Markup('<span class="muted">never</span>')
    try:
        at = datetime.fromtimestamp(value, UTC)
    except (ValueError, OverflowError, OSError):
        return Markup('<span class="muted">unknown</span>')
    shown = Markup('<time datetime="{}Z" title="{:%Y-%m-%d %H:%M:%S} UTC" data-ago>{}</time>')
    words = ago(time.time() - value) or f"{at.day} {at:%b %Y}"
    return shown.format(at.isoformat().removesuffix("+00:00"), at, words)


def in_path(name: str) -> str:
    """Returns a name as one part of a path."""
    return quote(name, safe="")


def in_path_below(name: str) -> str:
    """Returns a name with folders as parts of a path."""
    return quote(name, safe="/")


def broken_name(value: str) -> Markup:
    """Returns a name that may go on in the next line after a dot, a dash or an underscore."""
    parts = re.split(r"(?<=[._/-])(?=.)", visible(value[:LONGEST]))
    return Markup("<wbr>").join(parts)


def whole_text(value: str) -> Markup:
    """Returns a text for a field in which it is edited: whole, and as it is."""
    return escape(value)


def json_text(value: Any) -> str:
    """Returns a value as JSON that a person reads: nothing of it is unseen."""
    return visible_json(json.dumps(value, ensure_ascii=False, indent=2, default=str))


def json_data(value: Any) -> Markup:
    """Returns a value as JSON that a script of the page reads, whole."""
    return escape(json.dumps(value, default=str))


def with_query(query: Mapping[str, str], **changed: str | int | None) -> str:
    """Returns a query with some parameters changed; None takes one out."""
    merged = {**query, **{key: str(value) for key, value in changed.items() if value is not None}}
    kept = {key: value for key, value in merged.items() if value != "" and changed.get(key, "") is not None}
    return f"?{urlencode(kept)}" if kept else "?"


def asset(path: str) -> str:
    """Returns the address of a file, which changes with the file: browsers may keep it for ever."""
    return f"/console/static/{path}?v={_digest(path)}"


_digests: dict[str, str] = {}


def _digest(path: str) -> str:
    if path not in _digests:  # as many as there are files
        _digests[path] = hashlib.sha256((FOLDER / "static" / path).read_bytes()).hexdigest()[:12]
    return _digests[path]


@cache
def environment() -> Environment:
    """Returns what renders templates: everything escaped, and nothing that is missing passed over. One for
    the process: to compile all templates takes as long as some pages."""
    made = Environment(
        loader=FileSystemLoader(FOLDER / "templates"),
        autoescape=True,
        undefined=StrictUndefined,
        finalize=text,
        trim_blocks=True,
        lstrip_blocks=True,
        auto_reload=False,
    )
    filters = cast("dict[str, Any]", made.filters)  # pyright: ignore[reportUnknownMemberType]
    names = cast("dict[str, Any]", made.globals)  # pyright: ignore[reportUnknownMemberType]
    filters |= {
        "cut": cut,
        "seconds": seconds,
        "bytes": in_bytes,
        "when": when,
        "joints": broken_name,
        "path": in_path,
        "path_below": in_path_below,
        "data_text": whole_text,
        "json": json_text,
        "data": json_data,
    }
    names |= {"icon": icon, "chart": charts, "asset": asset, "with_query": with_query}
    # A block that is rendered alone sees no imports of its template.
    names["ui"] = made.get_template("pieces.html").module
    return made


def headers_for(nonce: str) -> dict[str, str]:
    """The headers of a page: it runs the scripts that it names, and sends nothing elsewhere."""
    return {
        "Content-Security-Policy": (
            f"default-src 'none'; script-src 'nonce-{nonce}'; style-src 'self'; connect-src 'self';"
            " img-src 'self' data:; media-src 'self' data:; form-action 'self'; frame-ancestors 'none';"
            " base-uri 'none'; require-trusted-types-for 'script'; trusted-types htmx"
        ),
        "Cache-Control": "no-store",
        "Referrer-Policy": "same-origin",
        "X-Content-Type-Options": "nosniff",
        "Cross-Origin-Opener-Policy": "same-origin",
        "Vary": "HX-Request, HX-Target",
    }


class Pages:
    """Renders templates into responses."""

    def __init__(self) -> None:
        self._environment = environment()
        # Stands in what is rendered for the nonce of each answer; nobody else knows it.
        self._mark = secrets.token_urlsafe(16)

    def templates(self) -> list[str]:
        """Returns the names of all templates."""
        return self._environment.list_templates(extensions=["html"])

    def compile(self, template: str) -> None:
        """Compiles a template, for which the first look at its page waits otherwise."""
        self._environment.get_template(template)

    def has_block(self, template: str, block: str | None) -> bool:
        """True if a template has a part of this name."""
        return block in self._environment.get_template(template).blocks

    def rendered(self, template: str, block: str | None = None, /, **shown: Any) -> str:
        """Returns a page as text, or one block of it, if it has that."""
        found = self._environment.get_template(template)
        given = {**shown, "nonce": self._mark, "hx": Markup('hx-nonce="{}"').format(self._mark)}
        if block in found.blocks:
            return "".join(found.blocks[block](found.new_context(given)))
        return found.render(given)

    def answer(self, rendered: str, status: int = 200) -> Response:
        """Returns the response with what was rendered, which has a nonce of its own."""
        nonce = secrets.token_urlsafe(16)
        body = rendered.replace(self._mark, nonce)
        return Response(body, status, headers_for(nonce), "text/html; charset=utf-8")

    def respond(
        self, template: str, block: str | None = None, /, status: int = 200, **shown: Any
    ) -> Response:
        """Returns a page, or one block of it, if it has that."""
        return self.answer(self.rendered(template, block, **shown), status)
