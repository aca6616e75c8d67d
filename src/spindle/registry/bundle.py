"""Bundles (`.mcpb`): a zip with a program and a manifest. Checked by its hash before it is opened, unpacked
within bounds, and started as its manifest says."""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import stat
import sys
import tempfile
import zipfile
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any, Final

from spindle.documents.bounds import Bounds
from spindle.documents.places import TextError
from spindle.documents.text import read_any
from spindle.domain.json_schema import JsonObject, is_array, is_object
from spindle.errors import ConfigurationError, ConnectionFailedError, ServerError, from_status
from spindle.http.client import HttpClient
from spindle.http.exchange import RedirectPolicy, exchange
from spindle.http.failures import HttpFailure, InsideError, TooLargeError
from spindle.http.request import Prepared
from spindle.owner_only import make_folder
from spindle.registry import names
from spindle.registry.entry import EntryInput
from spindle.registry.inputs import Filler, InputQuestion, key_of, refuse_reference

MAX_BUNDLE: Final = 512 * 1024 * 1024
MAX_UNPACKED: Final = 2 * 1024 * 1024 * 1024
MAX_FILES: Final = 50_000
MANIFEST: Final = "manifest.json"
_PLATFORMS: Final = {"darwin": "darwin", "win32": "win32"}
_REFERENCE = re.compile(r"\$\{([^{}]*)\}")


async def download(
    http: HttpClient, url: str, sha256: str, folder: Path, *, may_be_inside: bool, timeout: float = 60.0
) -> Path:
    """Returns the file at a URL once its SHA-256 is the one that the entry gives."""
    digest, size = hashlib.sha256(), 0
    policy = RedirectPolicy(may_lead_inside=may_be_inside)
    request = Prepared("GET", url, {"accept": "application/octet-stream, */*;q=0.5"})
    make_folder(folder)
    descriptor, name = tempfile.mkstemp(prefix=".bundle-", dir=folder)
    path = Path(name)
    try:
        with os.fdopen(descriptor, "wb") as file:
            async with exchange(
                http, request, policy, public_only=not may_be_inside, timeout=timeout
            ) as answer:
                if answer.status >= 300:
                    raise from_status(answer.status, f"{url} answered with HTTP status {answer.status}")
                async for chunk in answer.chunks(MAX_BUNDLE):
                    digest.update(chunk)
                    size += len(chunk)
                    file.write(chunk)
    except BaseException as error:
        path.unlink(missing_ok=True)
        if isinstance(error, HttpFailure):
            raise _failed(url, error) from error
        raise
    if digest.hexdigest() != sha256:
        path.unlink(missing_ok=True)
        raise ServerError(
            f"{url} is not the file that the entry describes: its SHA-256 is {digest.hexdigest()}, and"
            f" should be {sha256}",
            hint="nothing was unpacked or run; tell those who publish it",
        )
    return path


def _failed(url: str, failure: HttpFailure) -> Exception:
    if isinstance(failure, InsideError):
        return ConfigurationError(
            f"{url} leads to {failure.host}, which is on this machine or a private network",
            hint="a registry on the outside may not name it",
        )
    if isinstance(failure, TooLargeError):
        return ServerError(f"{url} is larger than {MAX_BUNDLE} bytes")
    return ConnectionFailedError(f"cannot get {url}: {failure}")


def unpack(file: Path, target: Path) -> Bundle:
    """Unpacks a bundle into a folder, all of it or nothing, and returns it."""
    make_folder(target.parent)
    partial = Path(tempfile.mkdtemp(prefix=".unpacking-", dir=target.parent))
    try:
        _extract(file, partial)
        bundle = read_bundle(partial, target)
        if target.exists():
            shutil.rmtree(target)
        partial.rename(target)
        return bundle
    except (zipfile.BadZipFile, NotImplementedError, EOFError) as error:
        raise ServerError(f"the bundle is not a zip that can be unpacked: {error}") from None
    finally:
        shutil.rmtree(partial, ignore_errors=True)


def _extract(file: Path, folder: Path) -> None:
    with zipfile.ZipFile(file) as archive:
        members = archive.infolist()
        if len(members) > MAX_FILES or sum(member.file_size for member in members) > MAX_UNPACKED:
            raise ServerError("the bundle unpacks to too many files or bytes")
        left = MAX_UNPACKED
        for member in members:
            parts = PurePosixPath(member.filename.replace("\\", "/")).parts
            mode = member.external_attr >> 16
            if not parts or ".." in parts or parts[0].startswith("/") or ":" in parts[0]:
                raise ServerError(
                    f"the bundle has a file outside of itself: {names.shown(member.filename)!r}"
                )
            if stat.S_ISLNK(mode):
                raise ServerError(f"the bundle has a link: {names.shown(member.filename)!r}")
            place = folder.joinpath(*parts)
            if member.is_dir():
                make_folder(place)
                continue
            make_folder(place.parent)
            with archive.open(member) as packed, place.open("xb") as out:
                # A zip may say less of a member's size than there is in it.
                while chunk := packed.read(1 << 20):
                    left -= len(chunk)
                    if left < 0:
                        raise ServerError("the bundle unpacks to too many bytes")
                    out.write(chunk)
            place.chmod(0o700 if mode & 0o111 else 0o600)


@dataclass(frozen=True, slots=True)
class Bundle:
    """An unpacked bundle and the part of its manifest that says how it is started."""

    folder: Path
    program: str
    arguments: tuple[str, ...]
    variables: tuple[tuple[str, str], ...]
    settings: tuple[EntryInput, ...]
    """The `user_config` of the manifest."""

    def questions(self) -> list[InputQuestion]:
        """Returns the values that its manifest asks for."""
        return [InputQuestion(key_of(about), about, about.required, about.secret) for about in self.settings]

    def command(self, filler: Filler) -> list[str]:
        """Returns the command line."""
        words = [self.program, *self.arguments]
        return [word for text in words for word in self._filled(text, filler, in_argv=True)]

    def environment(self, filler: Filler) -> list[tuple[str, str]]:
        """Returns the variables that it is started with. Those without a value are left out."""
        return [(name, text) for name, value in self.variables for text in self._filled(value, filler)[:1]]

    def _filled(self, text: str, filler: Filler, *, in_argv: bool = False) -> list[str]:
        whole = _REFERENCE.fullmatch(text)
        setting = self._setting(whole[1]) if whole else None
        if setting is not None:
            return filler.texts(setting, in_argv=in_argv)
        missing = False
        values: dict[str, str] = {"HOME": str(Path.home()), "__dirname": str(self.folder), "/": os.sep}
        values["pathSeparator"] = os.sep
        probe = dict(values)
        for name in {match[1] for match in _REFERENCE.finditer(text)} - values.keys():
            setting = self._setting(name)
            if setting is None:
                raise ServerError(
                    f"the bundle's manifest uses ${{{names.shown(name)}}}, which it does not declare"
                )
            found = filler.texts(setting, in_argv=in_argv)
            missing = missing or not found
            values[name] = found[0] if found else ""
            probe[name] = "x" if setting.secret or filler.is_given(setting) else values[name]
        refuse_reference(_REFERENCE.sub(lambda match: probe[match[1]], text))
        return [] if missing else [_REFERENCE.sub(lambda match: values[match[1]], text)]

    def _setting(self, name: str) -> EntryInput | None:
        prefix, dot, key = name.partition(".")
        if prefix != "user_config" or not dot:
            return None
        return next((about for about in self.settings if about.name == key), None)


def read_bundle(folder: Path, target: Path) -> Bundle:
    """Reads the manifest of a bundle that is, or will be, in the folder `target`."""
    try:
        data = (folder / MANIFEST).read_bytes()
    except OSError:
        raise ServerError(f"the bundle has no {MANIFEST}") from None
    try:
        manifest = read_any(data, Bounds(size=1024 * 1024, depth=40))
    except TextError as error:
        raise ServerError(f"the bundle's {MANIFEST} cannot be read: {error.problem}") from None
    server = manifest.get("server") if is_object(manifest) else None
    config = server.get("mcp_config") if is_object(server) else None
    if not is_object(manifest) or not is_object(server) or not is_object(config):
        raise ServerError(f"the bundle's {MANIFEST} does not say how it is started")
    platform = _PLATFORMS.get(sys.platform, "linux")
    _check_platform(manifest, platform)
    overrides = config.get("platform_overrides")
    if is_object(overrides) and is_object(overrides.get(platform)):
        config = {**config, **overrides[platform]}
    arguments = config.get("args", [])
    environment = config.get("env", {})
    if not is_array(arguments) or not is_object(environment):
        raise ServerError(f"the bundle's {MANIFEST} does not say how it is started")
    texts = [str(config.get("command", "")), *(str(word) for word in arguments), *environment.values()]
    for text in texts:
        if not isinstance(text, str) or len(text) > names.MAX_TEXT or not text.isprintable():
            raise ServerError(f"the bundle's {MANIFEST} has a text that cannot be part of a command")
    for name in environment:
        if not names.is_variable(name) or names.steers(name, "mcpb"):
            raise ServerError(f"the bundle sets {names.shown(name)!r}, which it may not")
    program = texts[0]
    if not program or program.startswith("-"):
        raise ServerError(f"the bundle's {MANIFEST} names no program")
    return Bundle(
        target,
        program,
        tuple(texts[1 : 1 + len(arguments)]),
        tuple((name, str(value)) for name, value in environment.items()),
        _settings(manifest),
    )


def _check_platform(manifest: JsonObject, platform: str) -> None:
    compatibility = manifest.get("compatibility")
    known: Any = compatibility.get("platforms") if is_object(compatibility) else None
    if is_array(known) and known and platform not in known:
        listed = ", ".join(names.shown(str(name), 20) for name in known[:5])
        raise ConfigurationError(f"the bundle is for {listed}, and this machine is {platform}")


def _settings(manifest: JsonObject) -> tuple[EntryInput, ...]:
    declared = manifest.get("user_config")
    found: list[EntryInput] = []
    for name, table in declared.items() if is_object(declared) else ():
        if not is_object(table) or not re.fullmatch(r"[A-Za-z0-9_.-]{1,100}", name):
            continue
        default = table.get("default")
        first = default[0] if is_array(default) and default else default
        text = str(first).lower() if isinstance(first, bool) else str(first or "")
        kind = str(table.get("type", "string"))
        found.append(
            EntryInput(
                name,
                description=names.shown(str(table.get("title") or table.get("description") or "")),
                default=text.replace("${HOME}", str(Path.home())) if text and _is_plain(text) else None,
                format=kind if kind in ("number", "boolean") else "string",
                required=table.get("required") is True,
                secret=table.get("sensitive") is True,
                repeated=table.get("multiple") is True,
            )
        )
    return tuple(found)


def _is_plain(text: str) -> bool:
    return names.is_plain(text.replace("${HOME}", ""))
