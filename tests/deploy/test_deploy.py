"""What `deploy/` has, against the schemas that others publish and against the program itself."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import kubernetes_validate
import pytest
import yaml

from servers.running import program
from spindle.cli.main import GROUP
from spindle.cli.serve import serve
from spindle.domain.serve import ServeConfig

DEPLOY = Path(__file__).parents[2] / "deploy"
MANIFESTS = [
    (file.name, document["kind"], document)
    for file in sorted((DEPLOY / "kubernetes").glob("*.yaml"))
    for document in yaml.safe_load_all(file.read_text())
]


@pytest.mark.parametrize(
    "manifest", [pytest.param(found, id=f"{name}-{kind}") for name, kind, found in MANIFESTS]
)
def test_manifests_fit_the_published_schemas_of_kubernetes(manifest: Any) -> None:
    kubernetes_validate.validate(manifest, "1.37.0", strict=True)


def test_the_compose_file_fits_the_published_schema() -> None:
    checker = str(Path(sys.executable).with_name("check-jsonschema"))
    done = subprocess.run(
        [checker, "--builtin-schema", "vendor.compose-spec", str(DEPLOY / "compose.yaml")],
        capture_output=True, text=True,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr


def test_the_settings_and_paths_in_the_manifests_are_ours() -> None:
    found = {kind: document for _, kind, document in MANIFESTS}
    settings = tomllib.loads(found["ConfigMap"]["data"]["spindle.toml"])
    config = ServeConfig.model_validate(settings["serve"])
    pod = found["Deployment"]["spec"]["template"]["spec"]
    (container,) = pod["containers"]
    probes = {
        container[name]["httpGet"]["path"] for name in ("startupProbe", "readinessProbe", "livenessProbe")
    }
    assert probes == {"/readyz", "/healthz"}
    assert config.metrics_address == f"0.0.0.0:{container['ports'][1]['containerPort']}"
    assert config.drain_delay + config.shutdown_timeout < pod["terminationGracePeriodSeconds"]


def test_the_commands_that_are_started_have_the_options_that_they_use() -> None:
    known = {name for parameter in serve.params for name in parameter.opts}
    lines = [
        " ".join(json.loads(re.findall(r"^CMD (\[.*\])$", (DEPLOY / "Dockerfile").read_text(), re.M)[0])),
        *re.findall(r"^ExecStart=\S*spindle (.*)$", (DEPLOY / "systemd/spindle.service").read_text(), re.M),
        *[" ".join(item["spec"]["template"]["spec"]["containers"][0]["args"])
          for _, kind, item in MANIFESTS if kind == "Deployment"],
    ]  # fmt: skip
    assert len(lines) == 3
    for line in lines:
        command, *words = line.split()
        assert command in GROUP.list_commands(None)  # type: ignore[arg-type]
        assert {word for word in words if word.startswith("--")} <= known


def test_systemd_understands_the_units(tmp_path: Path) -> None:
    for unit in (DEPLOY / "systemd").iterdir():
        text = re.sub(r"^ExecStart=\S+", "ExecStart=/bin/true", unit.read_text(), flags=re.M)
        (tmp_path / unit.name).write_text(text)
    done = subprocess.run(
        [program("systemd-analyze"), "verify", "--man=no", str(tmp_path / "spindle.service")],
        capture_output=True, text=True,
    )  # fmt: skip
    told = [line for line in done.stderr.splitlines() if str(tmp_path) in line or "spindle.service" in line]
    assert told == []
