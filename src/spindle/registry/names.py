"""The names that an entry of a registry may hold. What is not of these forms is refused, not repaired: a
package called `--call` must never become an option of the program that starts packages."""

from __future__ import annotations

import re
from typing import Final

MAX_TEXT: Final = 4096

_SERVER = re.compile(r"[A-Za-z0-9][A-Za-z0-9.-]*/[A-Za-z0-9][A-Za-z0-9._-]*")
_VERSION = re.compile(r"[A-Za-z0-9][A-Za-z0-9.+_-]{0,127}")
_RANGE = re.compile(r"(?:^|\.)[xX*](?:\.|$)")
_IDENTIFIERS: Final = {
    "npm": re.compile(r"(?:@[A-Za-z0-9][A-Za-z0-9._~-]*/)?[A-Za-z0-9][A-Za-z0-9._~-]*"),
    "pypi": re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9._-]*[A-Za-z0-9])?"),
    "nuget": re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]*"),
    "cargo": re.compile(r"[A-Za-z][A-Za-z0-9_-]*"),
    "oci": re.compile(
        r"[a-z0-9]+(?:[._-]+[a-z0-9]+)*(?::[0-9]{1,5}(?=/))?(?:/[a-z0-9]+(?:[._-]+[a-z0-9]+)*)*"
        r"(?::[A-Za-z0-9_][A-Za-z0-9_.-]{0,127})?(?:@sha256:[a-f0-9]{64})?"
    ),
}
_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,127}")
_HEADER = re.compile(r"[A-Za-z0-9!#$%&'*+.^_`|~-]{1,128}")
_FLAG = re.compile(r"-{0,2}[A-Za-z0-9][A-Za-z0-9_.-]{0,127}")
_SHA256 = re.compile(r"[a-f0-9]{64}")
# With these an entry could choose another package, or another program, than the one that is shown.
_STEERING = re.compile(
    r"path|shell|env|bash_env|ifs|node_options|node_path|python(?:path|home|startup)|perl5?(?:lib|opt)"
    r"|(?:ld|dyld|npm|uv|pip|pipx|dotnet|nuget|git)_.*",
    re.IGNORECASE,
)
_DOCKER = re.compile(r"(?:docker|container|podman)_.*", re.IGNORECASE)


def is_server_name(text: str) -> bool:
    """True for the name of a server, such as `io.github.owner/name`."""
    return len(text) <= 200 and _SERVER.fullmatch(text) is not None


def is_version(text: str) -> bool:
    """True for one exact version: no range, and not `latest`."""
    return _VERSION.fullmatch(text) is not None and text != "latest" and not _RANGE.search(text)


def is_identifier(kind: str, text: str) -> bool:
    """True for the name of a package of this type."""
    pattern = _IDENTIFIERS.get(kind)
    return pattern is not None and len(text) <= 300 and pattern.fullmatch(text) is not None


def is_variable(text: str) -> bool:
    """True for the name of an environment variable."""
    return _VARIABLE.fullmatch(text) is not None


def steers(variable: str, kind: str) -> bool:
    """True for a variable that tells the program that starts a package what to run."""
    if kind == "oci" and _DOCKER.fullmatch(variable):
        return True
    return _STEERING.fullmatch(variable) is not None


def is_header(text: str) -> bool:
    """True for the name of an HTTP header."""
    return _HEADER.fullmatch(text) is not None


def is_flag(text: str) -> bool:
    """True for the name of a command-line option."""
    return _FLAG.fullmatch(text) is not None


def is_sha256(text: str) -> bool:
    """True for a SHA-256 in hexadecimal digits."""
    return _SHA256.fullmatch(text) is not None


def is_plain(text: str) -> bool:
    """True for a text without control characters, invisible marks and references to our settings, which
    would be replaced by values of the user's environment."""
    return len(text) <= MAX_TEXT and text.isprintable() and "${" not in text


def shown(text: str, limit: int = 200) -> str:
    """Returns a text of somebody else as it may be shown in one line."""
    cut = text if len(text) <= limit else f"{text[: limit - 1]}…"
    return "".join(sign if sign.isprintable() else "\ufffd" for sign in cut)
