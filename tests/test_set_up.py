"""What the Makefile's commands install: enough for the tests they run, from where pip would take it."""

from __future__ import annotations

import ast
import functools
import importlib.util
import sys
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parent.parent

# By module that tests import: the part of requirements/parts.toml that installs it.
PART_OF = {
    "aio_pika": "events", "anthropic": "agents", "confluent_kafka": "events", "duckdb": "tables",
    "fastapi": "web", "faststream": "events", "keyring": "keyring", "langchain_core": "langchain",
    "langchain_openai": "langchain", "langgraph": "langchain", "nats": "events", "openai": "agents",
    "openapi_spec_validator": "web", "pandas": "tables", "playwright": "browser", "pocketflow": "flows",
    "polars": "tables", "psycopg": "postgres", "pyarrow": "tables", "pydantic_ai": "agents",
    "redis": "events", "zmqtt": "events",
}  # fmt: skip
# By fixture, which is often asked for by its name alone.
PART_OF_FIXTURE = {"postgres_url": "postgres", "postgres_server": "postgres"}
# Of other environments, and run by their Python.
ELSEWHERE = {"fastmcp_client.py", "pydantic_ai_client.py", "utcp_peer.py", "test_knime.py"}


def script(name: str) -> Any:
    sys.path.insert(0, str(ROOT / "scripts"))
    try:
        spec = importlib.util.spec_from_file_location(f"scripts_{name}", ROOT / "scripts" / f"{name}.py")
        assert spec is not None
        assert spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        return module
    finally:
        sys.path.remove(str(ROOT / "scripts"))


prepare, install = script("prepare"), script("install")


@functools.cache
def imported(file: Path, *, in_functions: bool = True) -> set[str]:
    """The modules that a file imports, by their whole names: in functions too, or only as it is imported."""
    found: set[str] = set()
    ahead: list[ast.AST] = [ast.parse(file.read_text())]
    while ahead:
        node = ahead.pop()
        if isinstance(node, ast.Import):
            found |= {name.name for name in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            found |= {node.module, *(f"{node.module}.{name.name}" for name in node.names)}
        if in_functions or not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            ahead += ast.iter_child_nodes(node)
    return found


def reached(file: Path, tests: Path) -> set[Path]:
    """The file, and all files of tests that it imports, directly or through others."""
    found: set[Path] = set()
    ahead = [file]
    while ahead:
        one = ahead.pop()
        if one in found:
            continue
        found.add(one)
        for name in imported(one, in_functions=one == file):
            for folder in (tests, file.parent):  # pytest puts the folder of a test first
                module = folder.joinpath(*name.split("."))
                ahead += [
                    path for path in (module.with_suffix(".py"), module / "__init__.py") if path.is_file()
                ]
    return found


def needed_parts(file: Path, tests: Path) -> set[str]:
    files = {one for one in reached(file, tests) if one.name not in ELSEWHERE}
    names = {name.partition(".")[0] for one in files for name in imported(one, in_functions=one == file)}
    fixtures = {part for fixture, part in PART_OF_FIXTURE.items() if fixture in file.read_text()}
    return {PART_OF[name] for name in names & PART_OF.keys()} | fixtures


@pytest.mark.parametrize("folder", sorted(path.name for path in (ROOT / "tests").iterdir() if path.is_dir()))
def test_what_a_folder_imports_is_installed_for_it(folder: str) -> None:
    if folder == "servers":
        return  # imported by those who need it
    for file in (ROOT / "tests" / folder).rglob("*.py"):
        parts = {*prepare.parts_for_tests([str(file.relative_to(ROOT))]), "browser"}
        missing = set() if file.name in ELSEWHERE else needed_parts(file, ROOT / "tests") - parts
        assert not missing, f"{file.name} needs {missing}"


def test_imports_through_other_folders_of_tests_are_seen(tmp_path: Path) -> None:
    for name, text in {
        "calls/test_it.py": "from agents.shared import client",
        "agents/shared.py": "from servers import models",
        "servers/models.py": "import anthropic.types",
    }.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text)
    assert needed_parts(tmp_path / "calls" / "test_it.py", tmp_path) == {"agents"}


def test_only_the_parts_of_the_named_tests_are_installed() -> None:
    everything = [name for name, part in prepare.PARTS.items() if "tests" in part]
    assert prepare.parts_for_tests([]) == everything
    assert prepare.parts_for_tests(["-k", "name"]) == everything
    assert prepare.parts_for_tests(["tests"]) == everything
    assert prepare.parts_for_tests(["tests/no_such_folder"]) == everything
    assert prepare.parts_for_tests(["tests/catalog/", "-x"]) == ["test"]
    assert prepare.parts_for_tests(["tests/sources/utcp/test_utcp_http.py::test_it"]) == ["test", "utcp"]
    assert {"events", "utcp"} <= set(prepare.parts_for_tests(["tests/sources"]))


def test_uv_is_told_what_pip_was() -> None:
    listed = (
        "global.cert='/etc/ssl/own.pem'\nglobal.index-url='https://a/simple'\nfreeze.timeout='10'\n"
        "install.extra-index-url='https://b/simple\\nhttps://c/simple'\n"
        ":env:.index-url='https://mine/simple'\n:env:.disable-pip-version-check='1'\n"
        ":env:.find-links='/x /y'\n"
    )
    told = install.uv_environment(install.pip_settings(listed))
    assert told["SSL_CERT_FILE"] == "/etc/ssl/own.pem"
    assert told["UV_DEFAULT_INDEX"] == "https://mine/simple"
    assert told["UV_INDEX"] == "https://b/simple https://c/simple"
    assert told["UV_FIND_LINKS"] == "/x,/y"
    assert "UV_HTTP_TIMEOUT" not in told


def test_what_uv_cannot_be_told_is_left_to_pip() -> None:
    with pytest.raises(install.UnknownSettingError, match="client-cert"):
        install.uv_environment(install.pip_settings("global.client-cert='/x'\n"))


def test_no_list_says_where_packages_come_from() -> None:
    lists = [ROOT / "constraints.txt", *(ROOT / "requirements").iterdir()]
    assert not [file.name for file in lists if "://" in file.read_text()]
