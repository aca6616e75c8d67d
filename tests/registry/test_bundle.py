"""Downloads that a registry leads to."""

from __future__ import annotations

from pathlib import Path

import pytest

from servers.registry import answer, running_registry
from spindle.errors import ConfigurationError, NotFoundError, ServerError
from spindle.http.client import HttpClient
from spindle.registry import bundle


async def test_a_registry_outside_cannot_make_us_fetch_from_inside(tmp_path: Path) -> None:
    http = HttpClient(5.0)
    with running_registry() as registry:
        registry.instead["/x.mcpb"] = answer(b"x")
        with pytest.raises(ConfigurationError, match="this machine or a private network"):
            await bundle.download(http, f"{registry.url}/x.mcpb", "0" * 64, tmp_path, may_be_inside=False)
        assert registry.seen == []
        with pytest.raises(NotFoundError):
            await bundle.download(http, f"{registry.url}/none", "0" * 64, tmp_path, may_be_inside=True)
    await http.aclose()
    assert list(tmp_path.iterdir()) == []


async def test_a_file_that_is_too_large_is_given_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bundle, "MAX_BUNDLE", 1000)
    http = HttpClient(5.0)
    with running_registry() as registry:
        registry.instead["/x.mcpb"] = answer(b"x" * 1001)
        with pytest.raises(ServerError, match="is larger than 1000 bytes"):
            await bundle.download(http, f"{registry.url}/x.mcpb", "0" * 64, tmp_path, may_be_inside=True)
    await http.aclose()
    assert list(tmp_path.iterdir()) == []


def test_a_zip_that_unpacks_to_too_much_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import zipfile

    monkeypatch.setattr(bundle, "MAX_UNPACKED", 1000)
    with zipfile.ZipFile(tmp_path / "x.zip", "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("manifest.json", "{}")
        archive.writestr("zeros", b"\0" * 2000)
    with pytest.raises(ServerError, match="too many files or bytes"):
        bundle.unpack(tmp_path / "x.zip", tmp_path / "out")
    assert [path.name for path in tmp_path.iterdir()] == ["x.zip"]
