"""The keys that stored secrets are sealed with: from the environment, a file, or the system's keyring.

The first key seals, all of them open. That is how keys are changed: a new one is put in front, what is
stored is sealed again, and the old one can go.
"""

from __future__ import annotations

import contextlib
import os
import secrets
from base64 import urlsafe_b64encode
from collections.abc import Generator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from spindle.errors import ConfigurationError, StoreError
from spindle.owner_only import make_folder, open_file

if TYPE_CHECKING:
    from spindle.settings.auth import AuthSettings

VARIABLE = "SPINDLE_KEY"
KEYRING_SERVICE = "spindle"
KEYRING_NAME = "key"
MAX_FILE = 64 * 1024


def new_key() -> str:
    """Makes a random key."""
    return urlsafe_b64encode(secrets.token_bytes(32)).decode()


class Keys:
    """The keys, from the first of these places: SPINDLE_KEY; `[auth] key_file`; the keyring, if `[auth]
    key` says so; a file of the user's own, which is made when first needed."""

    def __init__(self, settings: AuthSettings, environ: Mapping[str, str], folder: Path) -> None:
        self._settings = settings
        self._environ = environ
        self._folder = folder

    def __call__(self) -> Sequence[str]:
        given = self._environ.get(VARIABLE, "")
        if given.strip():
            return _parse(given)
        if self._settings.key == "keyring":
            return self._from_keyring()
        return self._from_file()

    @property
    def place(self) -> str:
        """The place of the keys, as text."""
        if self._environ.get(VARIABLE, "").strip():
            return f"the environment variable {VARIABLE}"
        return "the system's keyring" if self._settings.key == "keyring" else str(self.file)

    @property
    def other_key(self) -> str:
        """The way to what was sealed with a key that is not among these, as text."""
        if self._environ.get(VARIABLE, "").strip():
            return f"the key in {VARIABLE} is another: give the one that it was as well, after a comma"
        other = f"put the one that it was sealed with into {VARIABLE}"
        if self._settings.key == "keyring":
            return f"the key in the system's keyring is another: {other}"
        return (
            f"the key here is that of {self.file}; if another user or HOME sealed it, "
            f"use the key file of theirs, or {other}"
        )

    @property
    def is_ours_to_change(self) -> bool:
        return not self._environ.get(VARIABLE, "").strip()

    @property
    def file(self) -> Path:
        return self._settings.key_file or self._folder / "key"

    def add(self) -> None:
        """Put a new key in front of the others."""
        with self._locked():
            self._write([new_key(), *self()])

    def keep_first(self) -> int:
        """Forget all keys but the first; how many that were."""
        with self._locked():
            keys = self()
            self._write(keys[:1])
            return len(keys) - 1

    # --- a file

    def _from_file(self) -> Sequence[str]:
        file = self.file
        try:
            return self._read(file)
        except FileNotFoundError:
            pass
        if self._settings.key_file is not None:
            raise ConfigurationError(
                f"there is no key file {file}, which [auth] key_file names",
                hint=f"make one: `spindle auth new-key > {file} && chmod 600 {file}`",
            )
        try:
            make_folder(file.parent)
            partial = _written(file, [new_key()])
            try:
                # A link is made whole or not at all, and never in place of another's: of two processes
                # that come here at once, both go on with the same key.
                with contextlib.suppress(FileExistsError):
                    os.link(partial, file)
            finally:
                partial.unlink()
            return self._read(file)
        except OSError as error:
            raise StoreError(
                f"the key for stored secrets cannot be written: {error}",
                hint=f"set {VARIABLE}, or [auth] key_file; `spindle auth new-key` prints a key",
            ) from None

    def _read(self, file: Path) -> Sequence[str]:
        try:
            with file.open("rb") as handle:
                status = os.fstat(handle.fileno())
                if status.st_mode & 0o077:
                    raise ConfigurationError(
                        f"others can read the key file {file} (mode {status.st_mode & 0o777:o})",
                        hint=f"run `chmod 600 {file}`; `spindle auth rotate` if somebody may have read it",
                    )
                text = handle.read(MAX_FILE).decode("ascii", "replace")
        except FileNotFoundError:
            raise
        except OSError as error:
            raise StoreError(f"the key file {file} cannot be read: {error.strerror}") from None
        return _parse(text, str(file))

    def _write(self, keys: Sequence[str]) -> None:
        if self._settings.key == "keyring":
            self._keyring().set_password(KEYRING_SERVICE, KEYRING_NAME, ",".join(keys))
            return
        try:
            _written(self.file, keys).replace(self.file)
        except OSError as error:
            raise StoreError(f"the key file {self.file} cannot be changed: {error.strerror}") from None

    # --- the keyring

    def _from_keyring(self) -> Sequence[str]:
        ring = self._keyring()
        found = self._ask(ring)
        if not found:
            with self._locked():
                found = self._ask(ring)
                if not found:
                    ring.set_password(KEYRING_SERVICE, KEYRING_NAME, new_key())
                    found = self._ask(ring)
        return _parse(found or "", "the system's keyring")

    def _ask(self, ring: Any) -> str | None:
        try:
            return ring.get_password(KEYRING_SERVICE, KEYRING_NAME)
        except Exception as error:  # noqa: BLE001 - each backend has exceptions of its own
            raise StoreError(
                f"the system's keyring does not give the key: {error}", hint=_WITHOUT_KEYRING
            ) from None

    def _keyring(self) -> Any:
        try:
            import keyring
        except ImportError:
            raise ConfigurationError(
                '[auth] key = "keyring" needs the package `keyring`',
                hint="pip install 'spindle-tools[keyring]'",
            ) from None
        ring: Any = keyring.get_keyring()
        if getattr(ring, "priority", 0) <= 0:
            raise ConfigurationError("this machine has no usable keyring", hint=_WITHOUT_KEYRING)
        return ring

    @contextlib.contextmanager
    def _locked(self) -> Generator[None]:
        import fcntl

        make_folder(self._folder)
        with open_file(self._folder / "key.lock") as handle:
            fcntl.flock(handle, fcntl.LOCK_EX)
            yield


_WITHOUT_KEYRING = f"leave out [auth] key to use a file, or set {VARIABLE}"


def _parse(text: str, place: str = VARIABLE) -> Sequence[str]:
    keys = text.replace(",", " ").split()
    if not keys:
        raise StoreError(f"there is no key in {place}", hint="`spindle auth new-key` prints one")
    return keys


def _written(file: Path, keys: Sequence[str]) -> Path:
    """A file beside it with these keys, which no other user can read at any moment."""
    partial = file.with_name(f".{file.name}.{secrets.token_hex(4)}")
    descriptor = os.open(partial, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(descriptor, "w") as handle:
        handle.write("\n".join(keys) + "\n")
        handle.flush()
        os.fsync(handle.fileno())
    return partial
