"""What the Makefile's commands install: enough for the tests they run, from where pip would take it."""

from __future__ import annotations

import ast
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


def imported(file: Path) -> set[str]:
    found: set[str] = set()
    for node in ast.walk(ast.parse(file.read_text())):
        if isinstance(node, ast.Import):
            found |= {name.name.partition(".")[0] for name in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            found.add(node.module.partition(".")[0])
    return found


@pytest.mark.parametrize("folder", sorted(path.name for path in (ROOT / "tests").iterdir() if path.is_dir()))
def test_what_a_folder_imports_is_installed_for_it(folder: str) -> None:
    if folder == "servers":
        return  # imported by those who need it
    for file in (ROOT / "tests" / folder).rglob("*.py"):
        parts = {*prepare.parts_for_tests([str(file.relative_to(ROOT))]), "browser"}
        needed = {PART_OF[name] for name in imported(file) & PART_OF.keys()}
        needed |= {part for fixture, part in PART_OF_FIXTURE.items() if fixture in file.read_text()}
        assert file.name in ELSEWHERE or needed <= parts, f"{file.name} needs {needed - parts}"


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
