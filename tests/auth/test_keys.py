from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import keyring
import keyring.backend
import keyring.backends.fail
import pytest

from auth.conftest import Bench
from spindle.auth.access import SourceAccess
from spindle.auth.encryption import Sealer
from spindle.auth.keys import Keys, new_key
from spindle.domain.identity import Secret
from spindle.errors import ConfigurationError, StoreError
from spindle.settings.auth import AuthSettings


def keys_in(folder: Path, environ: dict[str, str] | None = None, **settings: Any) -> Keys:
    return Keys(AuthSettings(**settings), environ or {}, folder)


@pytest.mark.parametrize("seal", [Sealer.seal, Sealer.seal_often])
def test_the_first_key_seals_and_all_open(seal: Callable[[Sealer, Any, str], bytes]) -> None:
    old, new = new_key(), new_key()
    sealed = seal(Sealer(lambda: [old]), {"a": 1}, "here")
    both = Sealer(lambda: [new, old])
    assert both.open(sealed, "here") == {"a": 1}
    assert b'"a":1' in both.peek(sealed)
    assert b'"a":1' not in sealed
    with pytest.raises(StoreError, match="another key"):
        Sealer(lambda: [new]).open(sealed, "here")
    assert Sealer(lambda: [new]).open(both.reseal(sealed), "here") == {"a": 1}
    with pytest.raises(StoreError, match="was moved from its place"):
        both.open(sealed, "there")


@pytest.mark.parametrize("seal", [Sealer.seal, Sealer.seal_often])
def test_the_key_of_another_home_gets_a_hint_that_names_the_one_in_use(
    seal: Callable[[Sealer, Any, str], bytes], tmp_path: Path
) -> None:
    sealed = seal(Sealer(keys_in(tmp_path / "ann")), {"a": 1}, "here")
    with pytest.raises(StoreError) as caught:
        Sealer(keys_in(tmp_path / "bob")).open(sealed, "here")
    assert caught.value.hint == (
        f"the key here is that of {tmp_path / 'bob' / 'key'}; if another user or HOME sealed it, "
        "use the key file of theirs, or put the one that it was sealed with into SPINDLE_KEY"
    )
    theirs = (tmp_path / "ann" / "key").read_text().strip()
    with pytest.raises(StoreError) as caught:
        Sealer(keys_in(tmp_path / "bob", {"SPINDLE_KEY": new_key()})).open(sealed, "here")
    assert caught.value.hint == (
        "the key in SPINDLE_KEY is another: give the one that it was as well, after a comma"
    )
    both = keys_in(tmp_path / "bob", {"SPINDLE_KEY": f"{new_key()},{theirs}"})
    assert Sealer(both).open(sealed, "here") == {"a": 1}, "what it says helps"


def test_keys_come_from_the_environment_before_anything_else(tmp_path: Path) -> None:
    keys = keys_in(tmp_path, {"SPINDLE_KEY": " one, two "}, key="keyring")
    assert list(keys()) == ["one", "two"]
    assert not keys.is_ours_to_change
    assert not any(tmp_path.iterdir())


def test_a_key_that_is_none_is_told_without_repeating_it(tmp_path: Path) -> None:
    sealer = Sealer(keys_in(tmp_path, {"SPINDLE_KEY": "hunter2"}))
    with pytest.raises(StoreError, match="not one that Spindle made") as error:
        sealer.seal(1, "x")
    assert "hunter2" not in f"{error.value} {error.value.hint}"
    with pytest.raises(StoreError, match="not one that Spindle made") as error:
        sealer.seal_often(1, "x")
    assert "hunter2" not in f"{error.value} {error.value.hint}"


def test_a_key_file_is_made_when_first_needed_and_only_for_its_owner(tmp_path: Path) -> None:
    folder = tmp_path / "data" / "spindle"
    keys = keys_in(folder)
    found = keys()
    assert keys() == found
    assert keys.file.stat().st_mode & 0o777 == 0o600
    assert [file.name for file in folder.iterdir()] == ["key"]
    assert Sealer(keys).open(Sealer(keys).seal("v", "p"), "p") == "v"


def test_a_key_file_that_others_can_read_is_refused_with_the_way_out(tmp_path: Path) -> None:
    keys = keys_in(tmp_path)
    keys()
    keys.file.chmod(0o640)
    with pytest.raises(ConfigurationError, match="others can read") as error:
        keys()
    assert f"chmod 600 {keys.file}" in (error.value.hint or "")


def test_a_key_file_that_the_settings_name_must_be_there(tmp_path: Path) -> None:
    keys = keys_in(tmp_path, key_file=tmp_path / "mine")
    with pytest.raises(ConfigurationError, match="no key file") as error:
        keys()
    assert "spindle auth new-key" in (error.value.hint or "")
    keys.file.touch(mode=0o600)
    with pytest.raises(StoreError, match="there is no key in"):
        keys()


def test_processes_that_make_the_key_at_once_agree_on_one(tmp_path: Path) -> None:
    script = (
        "import sys; from pathlib import Path\n"
        "from spindle.auth.keys import Keys; from spindle.settings.auth import AuthSettings\n"
        "print('ready', flush=True); sys.stdin.readline()\n"
        "print(*Keys(AuthSettings(), {}, Path(sys.argv[1]))())"
    )
    command = [sys.executable, "-c", script, str(tmp_path / "new")]
    workers = [
        subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) for _ in range(4)
    ]
    for worker in workers:
        assert worker.stdout is not None
        assert worker.stdout.readline() == "ready\n"
    for worker in workers:
        assert worker.stdin is not None
        worker.stdin.write("go\n")
        worker.stdin.flush()
    found = {worker.communicate(timeout=300)[0] for worker in workers}
    assert len(found) == 1
    assert found.pop().strip()


class Ring(keyring.backend.KeyringBackend):
    """A keyring backend, as an operating system's would be plugged in."""

    priority = 5  # pyright: ignore

    def __init__(self) -> None:
        self.kept: dict[tuple[str, str], str] = {}

    def get_password(self, service: str, username: str) -> str | None:
        return self.kept.get((service, username))

    def set_password(self, service: str, username: str, password: str) -> None:
        self.kept[service, username] = password


@pytest.fixture
def ring() -> Any:
    before = keyring.get_keyring()
    ring = Ring()
    keyring.set_keyring(ring)
    yield ring
    keyring.set_keyring(before)


def test_a_key_can_live_in_the_system_s_keyring(tmp_path: Path, ring: Ring) -> None:
    keys = keys_in(tmp_path, key="keyring")
    found = keys()
    assert list(keys()) == list(found) == [ring.kept["spindle", "key"]]
    keys.add()
    assert len(keys()) == 2
    assert list(keys())[1] == found[0]
    assert not (tmp_path / "key").exists()


def test_a_machine_without_a_keyring_says_so(tmp_path: Path, ring: Ring) -> None:
    keyring.set_keyring(keyring.backends.fail.Keyring())
    with pytest.raises(ConfigurationError, match="no usable keyring") as error:
        keys_in(tmp_path, key="keyring")()
    assert "SPINDLE_KEY" in (error.value.hint or "")


def test_without_the_package_the_extra_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "keyring", None)
    with pytest.raises(ConfigurationError, match="needs the package") as error:
        keys_in(tmp_path, key="keyring")()
    assert "spindle-tools[keyring]" in (error.value.hint or "")


def an_access(bench: Bench, keys: Keys, sealer: Sealer) -> SourceAccess:
    def no_config(source: str) -> Any:
        raise AssertionError(source)

    return SourceAccess(bench.store, sealer, keys, AuthSettings(), no_config)


async def test_rotation_seals_everything_anew_and_a_process_that_runs_notices(
    bench: Bench, tmp_path: Path
) -> None:
    keys = keys_in(tmp_path / "keys")
    running = Sealer(keys)  # that of another process, which has read the old key
    old = list(keys())
    for kind in ("token", "pending", "client"):
        await bench.store.save_secret(Secret(kind, "k", running.seal(kind, "p")))
    await bench.store.save_secret(Secret("token", "lost", Sealer(lambda: [new_key()]).seal("x", "p")))

    done = await an_access(bench, keys, Sealer(keys)).rotate()

    assert (done.sealed, done.unreadable, done.old_keys) == (3, 1, 1)
    new = keys()
    assert list(new)[1:] == old
    for kind in ("token", "pending", "client"):
        secret = await bench.store.secret(kind, "k")
        assert secret is not None
        assert Sealer(lambda: list(new)[:1]).open(secret.sealed, "p") == kind
        assert running.open(secret.sealed, "p") == kind

    done = await an_access(bench, keys, Sealer(keys)).rotate(drop_old=True)
    assert done.old_keys == 0
    assert len(keys()) == 1
    assert keys.file.stat().st_mode & 0o777 == 0o600


async def test_keys_of_the_environment_are_changed_there_and_rotation_seals_with_the_first(
    bench: Bench, tmp_path: Path
) -> None:
    old, new = new_key(), new_key()
    await bench.store.save_secret(Secret("token", "k", Sealer(lambda: [old]).seal("v", "p")))
    keys = keys_in(tmp_path, {"SPINDLE_KEY": f"{new},{old}"})
    done = await an_access(bench, keys, Sealer(keys)).rotate(drop_old=True)
    assert (done.sealed, done.old_keys) == (1, 1)
    secret = await bench.store.secret("token", "k")
    assert secret is not None
    assert Sealer(lambda: [new]).open(secret.sealed, "p") == "v"
    assert not keys.file.exists()
