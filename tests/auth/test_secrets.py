"""Sealed values: what settings refer to as `${secret:NAME}`."""

from __future__ import annotations

from pathlib import Path

import pytest

import spindle
from spindle.auth.encryption import Sealer
from spindle.auth.secrets import Secrets
from spindle.errors import ConfigurationError
from spindle.settings import load
from spindle.settings.expand import expand_table, expand_text, uses_secrets


def write(root: Path, key: str) -> None:
    (root / "spindle.toml").write_text(f'[sources.x]\ncommand = ["x"]\nenv = {{ KEY = "Bearer {key}" }}\n')


async def test_a_sealed_value_reaches_the_source_and_is_masked(tmp_path: Path) -> None:
    write(tmp_path, "${secret:x.KEY}")
    async with spindle.open(tmp_path) as app:
        with pytest.raises(ConfigurationError, match=r"the secret x\.KEY is not in the store"):
            app.catalog.sources.config("x")
        await app.auth.secrets.save("x", {"KEY": "very-secret"})
    async with spindle.open(tmp_path) as app:
        assert app.catalog.sources.config("x").env == {"KEY": "Bearer very-secret"}
        assert app.catalog.sources.secrets("x") == {"very-secret"}
        # It is sealed again with a new key, and forgotten with its source.
        await app.auth.rotate()
        assert await app.auth.secrets.load() == {"secret:x.KEY": "very-secret"}
        assert await app.auth.secrets.forget("x") == 1
        assert await app.auth.secrets.load() == {}
    assert b"very-secret" not in b"".join(file.read_bytes() for file in tmp_path.rglob("*") if file.is_file())


async def test_settings_that_change_see_the_values_of_then(tmp_path: Path) -> None:
    write(tmp_path, "none")
    async with spindle.open(tmp_path) as app:
        await app.auth.secrets.save("x", {"KEY": "later"})
        write(tmp_path, "${secret:x.KEY}")
        await app.reload()
        assert app.catalog.sources.config("x").env == {"KEY": "Bearer later"}


async def test_without_a_reference_no_key_is_needed(tmp_path: Path) -> None:
    def no_keys() -> list[str]:
        raise AssertionError("a key was asked for")

    write(tmp_path, "none")
    async with spindle.open(tmp_path) as app:
        values = Secrets(app.store, Sealer(no_keys))
        environ = {"A": "b"}
        assert await values.environment(load(tmp_path), environ) is environ


async def test_no_source_gets_the_secret_of_another(tmp_path: Path) -> None:
    write(tmp_path, "${secret:github.KEY}")
    async with spindle.open(tmp_path) as app:
        await app.auth.secrets.save("github", {"KEY": "very-secret"})
    async with spindle.open(tmp_path) as app:
        with pytest.raises(
            ConfigurationError, match=r"the secret github\.KEY, which is not this source's own"
        ):
            app.catalog.sources.config("x")
    with pytest.raises(ConfigurationError, match="not this source's own"):
        expand_table({"token": "${secret:github.KEY}"}, {"secret:github.KEY": "1"}, "serve")


def test_a_reference_stands_beside_variables_with_defaults() -> None:
    environ = {"secret:a.B-c": "1", "secret": "2"}
    text = "${secret:a.B-c} ${secret} ${secret:-d} ${none:-d} ${secret:}"
    assert expand_text(text, environ, "t", "a") == "1 2 2 d ${secret:}"
    assert uses_secrets({"a": [{"b": "${secret:x.Y}"}]})
    assert not uses_secrets({"a": ["${secret}"]})
