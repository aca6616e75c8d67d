"""The check of docstrings, on small samples: it must be able to fail."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from types import ModuleType

import pytest

SCRIPT = Path(__file__).resolve().parent.parent / "scripts" / "check_docstrings.py"


@pytest.fixture(scope="module")
def check() -> ModuleType:
    spec = importlib.util.spec_from_file_location("check_docstrings", SCRIPT)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


def violations(check: ModuleType, **texts: str) -> list[str]:
    paths = {
        "package": "src/spindle/__init__.py",
        "port": "src/spindle/ports/door.py",
        "door": "src/spindle/house/door.py",
        "gate": "src/spindle/garden/gate.py",
    }
    return check.read({paths[name]: text for name, text in texts.items()}).violations


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("x = 1", "src/spindle/house/door.py:1: the module has no docstring"),
        ('"""Doors."""\nclass Door: ...', "src/spindle/house/door.py:2: Door has no docstring"),
        ('"""Doors."""\nasync def shut(): ...', "src/spindle/house/door.py:2: shut has no docstring"),
        (
            '"""Doors."""\nif x:\n    def shut(): ...',
            "src/spindle/house/door.py:3: shut has no docstring",
        ),
        (
            '"""Doors."""\nclass Door:\n    """A door."""\n    class Knob: ...',
            "src/spindle/house/door.py:4: Door.Knob has no docstring",
        ),
        (
            '"""Where the doors are."""',
            "src/spindle/house/door.py:1: the module: the docstring opens with “Where”",
        ),
        (
            '"""Doors."""\ndef _shut():\n    """What a door does."""',
            "src/spindle/house/door.py:2: _shut: the docstring opens with “What”",
        ),
        (
            '"""Doors."""\nHEIGHT = 2\n"""How high it is."""',
            "src/spindle/house/door.py:3: HEIGHT: the docstring opens with “How”",
        ),
    ],
)
def test_a_violation_is_named_with_its_place(check: ModuleType, text: str, complaint: str) -> None:
    assert violations(check, door=text) == [complaint]


@pytest.mark.parametrize("word", ["What", "Where", "Who", "Whose", "Whether", "How", "Which"])
def test_no_docstring_may_open_with_a_question_word(check: ModuleType, word: str) -> None:
    assert violations(check, door=f'"""{word} it is."""')
    assert not violations(check, door=f'"""{word}ever it is."""')


@pytest.mark.parametrize(
    "text",
    [
        "class _Door: ...",
        "def _shut(): ...",
        "class _Door:\n    class Knob: ...",
        "def shut():\n    'Shuts.'\n    def inner(): ...\n    class Inner: ...",
        "class Door:\n    'A door.'\n    def shut(self): ...",
        "from typing import overload\n@overload\ndef shut(): ...\ndef shut():\n    'Shuts.'",
    ],
)
def test_private_and_inner_things_need_no_docstring(check: ModuleType, text: str) -> None:
    assert violations(check, door=f'"""Doors."""\n{text}') == []


DOOR = '"""Doors."""\nclass Door:\n    """A door."""\n'


def test_methods_of_an_exported_class_need_a_docstring(check: ModuleType) -> None:
    package = '"""Houses."""\nif x:\n    from spindle.house.door import Door as Door'
    text = (
        DOOR + "    def shut(self): ...\n    @property\n    def height(self): ...\n    def _lock(self): ..."
    )
    assert violations(check, door=text) == []
    assert violations(check, package=package, door=text) == [
        "src/spindle/house/door.py:4: Door.shut has no docstring"
    ]


def test_methods_of_a_port_need_a_docstring(check: ModuleType) -> None:
    assert violations(check, port=DOOR + "    def shut(self): ...") == [
        "src/spindle/ports/door.py:4: Door.shut has no docstring"
    ]


def test_a_class_name_is_used_once(check: ModuleType) -> None:
    assert violations(check, door=DOOR, gate=DOOR) == [
        "src/spindle/house/door.py:2: the class name Door is used again in src/spindle/garden/gate.py:2"
    ]


def test_the_command_fails_on_a_violation_and_on_an_empty_folder(
    check: ModuleType, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / "src"
    folder.mkdir()
    assert check.main(folder) == 1
    assert "nothing was checked" in capsys.readouterr().err
    (folder / "door.py").write_text("class Door: ...")
    assert check.main(folder) == 1
    assert "src/door.py:1: Door has no docstring" in capsys.readouterr().err
    (folder / "door.py").write_text(DOOR)
    assert check.main(folder) == 0
    assert capsys.readouterr().out == "2 docstrings in 1 modules, 1 public classes.\n"
