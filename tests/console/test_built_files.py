"""The scripts and styles that the package ships: small, harmless, and what the sources in console/ give."""

from __future__ import annotations

import gzip
import importlib.util
import json
import shutil
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest

from servers.running import missing
from spindle.console.rendering import FOLDER
from spindle.console.static_files import files

ROOT = Path(__file__).parents[2]
SCRIPT = ROOT / "scripts" / "build_console.py"
SHIPPED = FOLDER / "static"


@pytest.fixture
def build() -> ModuleType:
    spec = importlib.util.spec_from_file_location("build_console", SCRIPT)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_scripts_and_styles_together_take_less_than_60_kb() -> None:
    sizes = {
        name: len(gzip.compress(data, 9)) for name, data in files().items() if name.endswith((".js", ".css"))
    }
    assert {"console.css", "console.js", "vendor/htmx.min.js", "vendor/hx-csp.min.js"} <= sizes.keys()
    assert sum(sizes.values()) < 60_000, sizes


def test_own_scripts_make_no_markup_out_of_texts() -> None:
    own = {name: data.decode() for name, data in files().items() if not name.startswith("vendor/")}
    own |= {path.as_posix(): path.read_text("utf-8") for path in (ROOT / "console").glob("*.js")}
    words = ("innerHTML", "outerHTML", "insertAdjacentHTML", "document.write", "eval(", "new Function")
    for name, script in own.items():
        assert [word for word in words if word in script] == [], name


def test_what_is_shipped_was_built_from_the_sources() -> None:
    done = subprocess.run([sys.executable, SCRIPT, "--check"], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert (SHIPPED / "vendor" / "LICENSE-htmx.txt").read_text("utf-8").startswith("Zero-Clause BSD")


def test_a_source_that_was_changed_and_not_built_is_found(
    build: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sources, shipped = tmp_path / "sources", tmp_path / "shipped"
    shutil.copytree(ROOT / "console", sources)
    shutil.copytree(SHIPPED, shipped)
    monkeypatch.setattr(build, "SOURCES", sources)
    assert build.check(shipped) == len(build.files(shipped))
    with (sources / "theme.js").open("a") as file:
        file.write("// more\n")
    (shipped / "console.css").write_text("body {}")
    (shipped / "vendor" / "other.js").write_text("")
    (sources / "try.js").unlink()
    with pytest.raises(build.NotBuiltError) as found:
        build.check(shipped)
    assert str(found.value).splitlines() == [
        f"{sources}/theme.js has changed since the console was built",
        f"{sources}/try.js is missing",
        f"{shipped}/console.css has changed since the console was built",
        f"{shipped}/vendor/other.js was not there when the console was built",
        build.WAY_OUT,
    ]
    assert "make console" in build.WAY_OUT
    (shipped / build.NOTE).unlink()
    with pytest.raises(build.NotBuiltError, match="make console"):
        build.check(shipped)


def test_every_package_that_builds_is_pinned_with_its_hash() -> None:
    lock = json.loads((ROOT / "console" / "package-lock.json").read_text("utf-8"))["packages"]
    wanted = json.loads((ROOT / "console" / "package.json").read_text("utf-8"))
    for name, version in {**wanted["dependencies"], **wanted["devDependencies"]}.items():
        assert lock[f"node_modules/{name}"]["version"] == version
    assert all(entry["integrity"].startswith("sha512-") for name, entry in lock.items() if name)
    assert not any("resolved" in entry for entry in lock.values()), "a lock names no index"


@pytest.mark.npm
def test_building_again_gives_every_byte_that_is_shipped(build: ModuleType, tmp_path: Path) -> None:
    if not build.PACKAGES.is_dir():
        missing("what builds the console is not here: `make console` installs it")
    for name in ("one", "two"):
        build.built(tmp_path / name)
        made = build.files(tmp_path / name)
        shipped = build.files(SHIPPED)
        assert sorted(made) == sorted(shipped)
        assert [file for file in made if made[file] != shipped[file]] == [], build.WAY_OUT
        assert (tmp_path / name / build.NOTE).read_bytes() == (SHIPPED / build.NOTE).read_bytes()
