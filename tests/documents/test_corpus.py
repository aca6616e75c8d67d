"""`make corpus` over a handful of documents: what it counts, and what it calls a fault."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from servers.running import PATIENCE

ROOT = Path(__file__).parents[2]

SHOP = {
    "openapi": "3.0.3",
    "info": {"title": "Shop", "version": "1"},
    "servers": [{"url": "https://shop.example.com"}],
    "paths": {
        "/orders/{id}": {
            "get": {"operationId": "get", "responses": {"200": {"description": ""}}, "parameters": [
                {"name": "id", "in": "path", "required": True, "schema": {"type": "string", "minLength": 1}},
                {"name": "fields", "in": "query", "schema": {"type": "array", "items": {"type": "integer"}}},
                {"name": "X-Trace", "in": "header", "schema": {"type": "string", "pattern": "^[a-z]{3,5}$"}},
            ]},
        },
        "/orders": {
            "post": {"operationId": "add", "responses": {"200": {"description": ""}}, "requestBody": {
                "required": True, "content": {"application/json": {"schema": {
                    "type": "object", "required": ["count"], "properties": {
                        "count": {"type": "integer", "minimum": 1, "maximum": 9},
                        "kind": {"type": "string", "nullable": True, "enum": ["a", "b"]},
                        "made": {"type": "string", "format": "date-time", "readOnly": True}}}}}}},
        },
    },
}  # fmt: skip
TAGS = {
    "openapi": "3.1.0",
    "info": {"title": "Tags", "version": "1"},
    "paths": {f"/#Action={name}": {"get": {"operationId": name, "responses": {}, "parameters": [
        {"name": "Action", "in": "query", "required": True, "schema": {"const": name}}]}} for name in "AB"},
}  # fmt: skip
DANGLING = {
    "openapi": "3.0.0",
    "info": {"title": "Dangling", "version": "1"},
    "paths": {"/a": {"get": {"responses": {}, "parameters": [{"$ref": "#/no"}]}},
              "/b": {"get": {"responses": {}}}},
}  # fmt: skip


def corpus(folder: Path, documents: dict[str, Any], *words: str, refused: str = "") -> tuple[int, str]:
    for name, document in documents.items():
        (folder / "documents" / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / "documents" / name).write_text(json.dumps(document))
    known = folder / "known.toml"
    known.write_text(f'left_out = ["points at nothing"]\nexcuses = []\n[refused]\n{refused}')
    script = str(ROOT / "scripts" / "corpus" / "run.py")
    told = ["--known", str(known), "--processes", "1", *words]
    done = subprocess.run(
        [sys.executable, script, str(folder / "documents"), *told],
        capture_output=True, text=True, timeout=PATIENCE * 2,
    )  # fmt: skip
    return done.returncode, done.stdout + done.stderr


def test_good_documents_are_imported_and_called(tmp_path: Path) -> None:
    documents = {
        "shop.json": SHOP,
        "aws/tags.json": TAGS,
        "dangling.json": DANGLING,
        "old.json": {"openapi": "9"},
    }
    stated = '"old.json" = { says = "version", fault = "of a version that does not exist" }'
    code, said = corpus(tmp_path, documents, "--calls", "12", refused=stated)
    assert code == 0, said
    assert "4 documents: 3 imported, 1 refused." in said
    assert "5 operations are tools, 1 are left out." in said
    assert "2 of them have a `#` in their path, in 1 documents." in said
    assert "12 calls" in said
    assert "12 arrived as their document says" in said
    assert "No fault of ours." in said


def test_a_call_that_does_not_arrive_as_its_document_says_is_a_fault(tmp_path: Path) -> None:
    wrong = {**SHOP, "paths": {"/x": {"get": {"responses": {}, "operationId": "x", "parameters": [
        {"name": "gone", "in": "path", "required": True, "schema": {"type": "string"}}]}}}}  # fmt: skip
    code, said = corpus(tmp_path, {"wrong.json": wrong}, "--calls", "1", "--only-calls")
    assert code == 1
    assert "FAULT: wrong.json api.x: " in said
    assert "gone" in said


@pytest.mark.parametrize(
    ("documents", "refused", "problem"),
    [
        ({"old.json": {"openapi": "9"}}, "", "FAULT: old.json is refused, which known.toml does not state"),
        (
            {"shop.json": SHOP},
            '"shop.json" = { says = "x", fault = "y" }',
            "FAULT: shop.json is refused no more: take it out of known.toml",
        ),
        (
            {"header.json": {**SHOP, "paths": {"/a": {"get": {"responses": {}, "parameters": [
                {"name": "a b", "in": "header", "required": True, "schema": {}}]}}}}},
            "",
            "FAULT: header.json: get_a is left out, for no fault of the document",
        ),
    ],
)  # fmt: skip
def test_what_is_not_stated_is_a_fault(
    documents: dict[str, Any], refused: str, problem: str, tmp_path: Path
) -> None:
    code, said = corpus(tmp_path, documents, "--calls", "0", refused=refused)
    assert code == 1
    assert problem in said
