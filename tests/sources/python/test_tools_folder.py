from __future__ import annotations

import asyncio
import os
import subprocess
import sys
import threading
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

import spindle
from spindle import code_marks, threads
from spindle.errors import InvalidArgumentsError, NameConflictError, NotFoundError, ServerError
from spindle.sources.code import modules
from spindle.sources.code.modules import FolderModules, folder_signature, module_signature
from spindle.threads import in_thread, stdout_to_stderr


def returning(name: str, value: str) -> str:
    return f"@tool\ndef {name}() -> str:\n    return {value!r}\n"


async def test_no_folder_and_an_empty_folder_are_fine(folder: Any, tmp_path: Path) -> None:
    async with folder.open() as app:
        assert await app.tools() == []
    async with spindle.open(tmp_path) as app:
        assert await app.tools() == []


async def test_marked_functions_are_offered_under_their_plain_names(folder: Any) -> None:
    folder.write("one.py", returning("first", "1") + "def helper(): ...\n" + returning("second", "2"))
    folder.write("_private.py", returning("hidden", "x"))
    folder.write("pkg/__init__.py", returning("inside", "x"))
    (folder.root / "tools" / "notes.txt").write_text("not Python")
    async with folder.open() as app:
        assert await folder.names(app) == ["first", "second"]
        assert (await app.call("second")).text == "2"
        [first, _] = await app.tools()
        assert (first.source, first.kind) == ("tools", "python")
        assert (await app.show("first")).spec.place == f"{folder.root}/tools/one.py:2"


async def test_postponed_annotations_are_read_also_those_of_what_comes_later(folder: Any) -> None:
    file = folder.write("later.py", "")
    file.write_text(
        "from __future__ import annotations\n"
        "from dataclasses import dataclass\n"
        "from typing import Literal\n"
        "import spindle\n"
        "@spindle.tool\n"
        "def bill(item: Item, size: Literal['s', 'm'] = 's', note: str | None = None) -> str:\n"
        "    return f'{type(item).__name__} {item.price * 2} {size}'\n"
        "@spindle.tool\n"
        "def lost(item: Nowhere) -> str:\n"
        "    return ''\n"
        "@dataclass\n"
        "class Item:\n"
        "    price: float\n"
    )
    async with folder.open() as app:
        assert await folder.names(app) == ["bill"]
        assert (await app.call("bill", item={"price": 1.5}, size="m")).text == "Item 3.0 m"
        with pytest.raises(InvalidArgumentsError, match="size"):
            await app.call("bill", item={"price": 1.5}, size="l")
    assert any("`lost`" in note and "'Nowhere' is not defined" in note for note in folder.notes)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("def broken(:\n", "line 2: "),
        (
            "import nowhere_to_be_found\n",
            "line 2: ModuleNotFoundError: No module named 'nowhere_to_be_found'",
        ),
        ("import sys\nsys.exit(4)\n", "line 3: SystemExit: 4"),
        ("x = 1 / 0\n", "line 2: ZeroDivisionError"),
        ("@tool\nclass Wrong: ...\n", "TypeError: @tool goes on a function"),
        ("def f(): g()\ndef g(): raise OSError('no')\nf()\n", "line 3: OSError: no"),
    ],
)
async def test_a_file_that_cannot_be_imported_is_reported_and_skipped(
    folder: Any, text: str, reason: str
) -> None:
    file = folder.write("broken.py", text)
    folder.write("fine.py", returning("fine", "ok"))
    async with folder.open() as app:
        assert await folder.names(app) == ["fine"]
        assert (await app.call("fine")).text == "ok"
    [note] = folder.notes
    assert note.startswith(f"{file} cannot be imported and is left out: ")
    assert reason in note


async def test_a_file_that_is_not_text_is_reported_and_skipped(folder: Any) -> None:
    (folder.root / "tools" / "odd.py").write_bytes(b"\xff\xfe\x00")
    async with folder.open() as app:
        assert await app.tools() == []
    assert "odd.py cannot be imported" in folder.notes[0]


async def test_a_marked_method_is_reported(folder: Any) -> None:
    folder.write("cls.py", "class Box:\n    @tool\n    def open(self): ...\n")
    async with folder.open() as app:
        assert await app.tools() == []
    assert "`open` is left out: a method cannot be a tool" in folder.notes[0]


@pytest.mark.parametrize(
    "text",
    [
        "import other\n@tool\ndef use() -> str:\n    return other.VALUE\n",
        "import other as o\n@tool\ndef use() -> str:\n    return o.VALUE\n",
        "from other import VALUE\n@tool\ndef use() -> str:\n    return VALUE\n",
        "from .other import VALUE\n@tool\ndef use() -> str:\n    return VALUE\n",
        "from . import other\n@tool\ndef use() -> str:\n    return other.VALUE\n",
        "from other import *\n@tool\ndef use() -> str:\n    return VALUE\n",
        "@tool\ndef use() -> str:\n    import other\n    return other.VALUE\n",
        "import pkg\n@tool\ndef use() -> str:\n    return pkg.VALUE\n",
        "import pkg.deep.leaf\n@tool\ndef use() -> str:\n    return pkg.deep.leaf.VALUE\n",
        "from pkg.deep import leaf\n@tool\ndef use() -> str:\n    return leaf.VALUE\n",
        "from pkg import sibling\n@tool\ndef use() -> str:\n    return sibling.VALUE\n",
        "from .pkg.deep.leaf import VALUE\n@tool\ndef use() -> str:\n    return VALUE\n",
        "from spaced.inner import VALUE\n@tool\ndef use() -> str:\n    return VALUE\n".replace(
            "spaced", ".spaced"
        ),
    ],
)
async def test_files_may_import_each_other(folder: Any, text: str) -> None:
    folder.write("a_user.py", text)
    folder.write("other.py", "VALUE = 'v'\n")
    folder.write("pkg/__init__.py", "from other import VALUE\n")
    folder.write("pkg/sibling.py", "from . import VALUE\n")
    folder.write("pkg/deep/__init__.py", "")
    folder.write(
        "pkg/deep/leaf.py", "import other\nfrom ..sibling import VALUE\nassert VALUE is other.VALUE\n"
    )
    folder.write("spaced/inner.py", "VALUE = 'v'\n")
    async with folder.open() as app:
        assert (await app.call("use")).text == "v"
    assert folder.notes == []


async def test_files_may_import_each_other_in_a_circle(folder: Any) -> None:
    folder.write("one.py", "import two\n" + returning("first", "1") + "def name(): return two.other()\n")
    folder.write(
        "two.py",
        "import one\ndef other(): return 'two'\n@tool\ndef second() -> str:\n    return one.name()\n",
    )
    async with folder.open() as app:
        assert (await app.call("second")).text == "two"
        assert await folder.names(app) == ["first", "second"]


async def test_a_file_may_share_its_name_with_the_library_it_uses(folder: Any) -> None:
    folder.write("json.py", "import json\n@tool\ndef dump() -> str:\n    return json.dumps([1])\n")
    async with folder.open() as app:
        assert (await app.call("dump")).text == "[1]"


async def test_a_file_that_imports_a_broken_one_is_reported_too(folder: Any) -> None:
    folder.write("broken.py", "1 / 0\n")
    folder.write("user.py", "import broken\n")
    async with folder.open() as app:
        assert await app.tools() == []
    assert len(folder.notes) == 2
    assert any("user.py" in note and "line 2: ZeroDivisionError" in note for note in folder.notes)


async def test_an_imported_tool_is_not_defined_twice(folder: Any) -> None:
    folder.write("one.py", returning("shared", "1"))
    folder.write("two.py", "from one import shared\nalias = shared\n" + returning("own", "2"))
    async with folder.open() as app:
        assert await folder.names(app) == ["own", "shared"]


async def test_a_function_made_elsewhere_belongs_to_the_file_that_marks_it(folder: Any) -> None:
    folder.write(
        "_making.py",
        "import functools\n"
        "def wrapped(function):\n    def inner() -> str:\n        return function() + '!'\n"
        "    inner.__name__ = function.__name__\n    return inner\n"
        "def my_tool(function):\n    return tool(function)\n"
        "def scale(factor: int, value: int) -> int:\n    return factor * value\n",
    )
    folder.write(
        "using.py",
        "import functools\nfrom _making import *\n"
        "@tool\n@wrapped\ndef shout():\n    return 'hey'\n"
        "@my_tool\ndef marked() -> str:\n    return 'm'\n"
        "double = tool(name='double')(functools.partial(scale, 2))\n",
    )
    async with folder.open() as app:
        assert await folder.names(app) == ["double", "marked", "shout"]
        assert (await app.call("shout")).text == "hey!"
        assert (await app.call("double", value=4)).structured == 8


async def test_two_workspaces_with_the_same_file_names_do_not_meet(make_folder: Any, tmp_path: Path) -> None:
    one, two = make_folder(tmp_path / "one"), make_folder(tmp_path / "two")
    for each, value in ((one, "1"), (two, "2")):
        each.write("helper.py", f"VALUE = {value!r}\n")
        each.write("main.py", "import helper\n@tool\ndef ask() -> str:\n    return helper.VALUE\n")
    before = {name for name in sys.modules if not name.startswith("spindle_workspace")}
    async with one.open() as first, two.open() as second:
        assert (await first.call("ask")).text == "1"
        assert (await second.call("ask")).text == "2"
        assert (await first.call("ask")).text == "1"
        added = {name for name in sys.modules if not name.startswith("spindle_workspace")} - before
        assert not {"helper", "main"} & added


async def test_two_files_with_one_tool_name_are_a_conflict_that_names_both(folder: Any) -> None:
    folder.write("one.py", returning("same", "1"))
    folder.write("two.py", returning("same", "2"))
    async with folder.open() as app:
        [report] = await app.sync()
        assert report.error is not None
        message = report.error["message"]
        assert "'same'" in message
        assert f"{folder.root}/tools/one.py:2" in message
        assert f"{folder.root}/tools/two.py:2" in message
        with pytest.raises(NotFoundError):
            await app.call("same")
        folder.write("two.py", returning("other", "2"))
        assert (await app.call("same")).text == "1"


async def test_a_folder_and_a_program_with_one_tool_name_are_a_conflict(folder: Any) -> None:
    folder.write("one.py", returning("same", "1"))

    def same() -> str:
        return "2"

    async with spindle.open(folder.root, tools=[same], note=folder.notes.append) as app:
        reports = await app.sync()
        errors = [report.error for report in reports if report.error]
        assert len(errors) == 1
        assert "tools/one.py:2" in errors[0]["message"]
        assert Path(__file__).name in errors[0]["message"]
        assert NameConflictError.category == errors[0]["category"]


# --- edits


async def test_edits_are_picked_up_without_a_restart(folder: Any) -> None:
    file = folder.write("one.py", returning("ask", "old"))
    folder.write("helper.py", "VALUE = 1\n")
    async with folder.open() as app:
        assert (await app.call("ask")).text == "old"
        folder.write("one.py", returning("ask", "newer"))
        assert (await app.call("ask")).text == "newer"
        folder.write("two.py", returning("more", "m"))
        assert (await app.call("more")).text == "m"
        folder.write("one.py", "import helper\n@tool\ndef ask(a: int = 1) -> int:\n    return helper.VALUE\n")
        assert (await app.call("ask", a=2)).structured == 1
        folder.write("helper.py", "VALUE = 2\n")
        assert (await app.call("ask", a=2)).structured == 2
        file.unlink()
        with pytest.raises(NotFoundError, match="there is no tool 'ask'"):
            await app.call("ask")
        assert await folder.names(app) == ["more"]


async def test_edits_of_one_size_at_one_time_are_told_apart(folder: Any) -> None:
    file = folder.write("one.py", returning("ask", "aa"))
    os.utime(file, (1_700_000_000, 1_700_000_000))
    async with folder.open() as app:
        for value in ("aa", "bb", "cc", "dd"):
            folder.write("one.py", returning("ask", value))
            os.utime(file, (1_700_000_000, 1_700_000_000))
            assert (await app.call("ask")).text == value


async def test_a_file_that_breaks_takes_its_tools_away_until_it_is_repaired(folder: Any) -> None:
    folder.write("one.py", returning("ask", "a"))
    async with folder.open() as app:
        await app.call("ask")
        folder.write("one.py", "def broken(:\n")
        assert await app.tools() == []
        folder.write("one.py", returning("ask", "repaired"))
        assert (await app.call("ask")).text == "repaired"


async def test_an_edit_while_nobody_ran_is_seen_by_the_next_start(folder: Any) -> None:
    folder.write("one.py", returning("ask", "old"))
    async with folder.open() as app:
        await app.call("ask")
    folder.write("one.py", returning("renamed", "new"))
    async with folder.open() as app:
        assert await folder.names(app) == ["renamed"]


def test_a_settled_file_is_not_read_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "one.py"
    file.write_text("x = 1\n")
    monkeypatch.setattr(code_marks, "_SETTLED_AFTER", -1.0)
    first = folder_signature(tmp_path)
    monkeypatch.setattr(Path, "read_bytes", lambda path: pytest.fail("read again"))
    assert folder_signature(tmp_path) == first
    monkeypatch.undo()
    file.write_text("x = 2\n")
    assert folder_signature(tmp_path) != first


def test_a_folder_with_very_many_files_is_cut_short(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(modules, "MAX_FILES", 2)
    for number in range(3):
        (tmp_path / f"inner{number}").mkdir()
        for name in ("a.py", "b.py"):
            (tmp_path / f"inner{number}" / name).write_text("")
    first = folder_signature(tmp_path)
    (tmp_path / "inner2" / "a.py").write_text("x = 1")
    assert folder_signature(tmp_path) == first


# --- modules


def module_workspace(root: Path, name: str) -> Path:
    (root / "spindle.toml").write_text(f'[sources.own]\nkind = "python"\nmodule = "{name}"\n')
    return root


async def test_a_module_of_the_workspace_is_loaded_and_loaded_again(tmp_path: Path) -> None:
    module_workspace(tmp_path, "mine")
    file = tmp_path / "mine.py"
    file.write_text("from spindle import tool\n" + returning("ask", "aa") + returning("old", "x"))
    async with spindle.open(tmp_path) as app:
        assert (await app.call("own.ask")).text == "aa"
        file.write_text("from spindle import tool\n" + returning("ask", "bb") + returning("new", "x"))
        assert (await app.call("own.ask")).text == "bb"
        assert [summary.name for summary in await app.tools()] == ["own.ask", "own.new"]
    assert "mine" not in sys.modules


async def test_a_package_of_the_workspace_is_watched_as_a_whole(tmp_path: Path) -> None:
    module_workspace(tmp_path, "pkg.inner")
    (tmp_path / "pkg").mkdir()
    (tmp_path / "pkg" / "__init__.py").write_text("")
    inner = tmp_path / "pkg" / "inner"
    inner.mkdir()
    (inner / "__init__.py").write_text(
        "from spindle import tool\nfrom .leaf import VALUE\n@tool\ndef ask() -> str:\n    return VALUE\n"
    )
    (inner / "leaf.py").write_text("VALUE = 'a'\n")
    async with spindle.open(tmp_path) as app:
        assert (await app.call("own.ask")).text == "a"
        (inner / "leaf.py").write_text("VALUE = 'b'\n")
        assert (await app.call("own.ask")).text == "b"


async def test_an_installed_module_is_loaded_and_loaded_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    library = tmp_path / "library"
    library.mkdir()
    monkeypatch.syspath_prepend(str(library))
    workspace = tmp_path / "workspace"
    workspace.mkdir()
    module_workspace(workspace, "installed_for_test")
    file = library / "installed_for_test.py"
    file.write_text("from spindle import tool\n" + returning("ask", "aa") + returning("old", "x"))
    try:
        async with spindle.open(workspace) as app:
            assert (await app.call("own.ask")).text == "aa"
            module = sys.modules["installed_for_test"]
            file.write_text("from spindle import tool\n" + returning("ask", "bb"))
            assert (await app.call("own.ask")).text == "bb"
            assert [summary.name for summary in await app.tools()] == ["own.ask"]
            assert sys.modules["installed_for_test"] is module
    finally:
        sys.modules.pop("installed_for_test", None)
    assert module_signature("nowhere.at.all", workspace) is None


@pytest.mark.parametrize("text", ["import nowhere_at_all\n", "raise SystemExit(2)\n", "def broken(:\n"])
async def test_a_module_that_cannot_be_imported_fails_its_source(tmp_path: Path, text: str) -> None:
    module_workspace(tmp_path, "mine")
    (tmp_path / "mine.py").write_text(text)
    async with spindle.open(tmp_path) as app:
        [report] = await app.sync()
    assert report.error is not None
    assert report.error["message"].startswith("cannot import mine: ")
    assert report.error["category"] == ServerError.category


async def test_a_source_without_a_place_or_with_two_is_refused(tmp_path: Path) -> None:
    for settings in ('kind = "python"', 'kind = "python"\npath = "x"\nmodule = "y"'):
        (tmp_path / "spindle.toml").write_text(f"[sources.own]\n{settings}\n")
        async with spindle.open(tmp_path) as app:
            with pytest.raises(spindle.SpindleError, match="give either `path`"):
                await app.sync()


# --- what must not get out


PRINTING = """
import asyncio, sys, spindle
async def main():
    async with spindle.open(sys.argv[1]) as app:
        print((await app.call("ask")).text)
asyncio.run(main())
"""


async def test_what_files_print_while_they_are_imported_does_not_reach_stdout(folder: Any) -> None:
    folder.write(
        "one.py",
        "import sys\nprint('printed')\nsys.stdout.write('written\\n')\n" + returning("ask", "result"),
    )
    ran = subprocess.run(
        [sys.executable, "-c", PRINTING, str(folder.root)], capture_output=True, text=True, check=True
    )
    assert ran.stdout == "result\n"
    assert "printed\nwritten\n" in ran.stderr


def test_stdout_is_given_back_when_the_last_has_ended(capsys: pytest.CaptureFixture[str]) -> None:
    stdout = sys.stdout
    one, other = stdout_to_stderr(), stdout_to_stderr()
    one.__enter__()
    other.__enter__()
    print("one")
    one.__exit__(None, None, None)
    print("two")
    other.__exit__(None, None, None)
    print("three")
    assert sys.stdout is stdout
    assert capsys.readouterr() == ("three\n", "one\ntwo\n")


STUCK = """
import asyncio, sys, spindle
async def main():
    async with spindle.open(sys.argv[1]) as app:
        try:
            await app.call("ask", {}, spindle.CallOptions(timeout=0.01))
        except spindle.SpindleError as error:
            print(error.category)
asyncio.run(main())
"""


async def test_a_function_that_never_ends_does_not_hold_up_the_program(folder: Any) -> None:
    folder.write("one.py", "import threading\n@tool\ndef ask() -> None:\n    threading.Event().wait()\n")
    ran = subprocess.run(
        [sys.executable, "-c", STUCK, str(folder.root)], capture_output=True, text=True, timeout=60
    )
    assert ran.stdout == "timeout\n"


async def test_parallel_first_calls_load_the_files_once(folder: Any, tmp_path: Path) -> None:
    log = tmp_path / "loads"
    folder.write("one.py", f"with open({str(log)!r}, 'a') as log: log.write('x')\n" + returning("ask", "a"))
    async with folder.open() as app:
        await app.sync()
    loads = len(log.read_text())
    async with folder.open() as app:
        results = await asyncio.gather(*(app.call("ask") for _ in range(8)))
    assert {result.text for result in results} == {"a"}
    assert len(log.read_text()) == loads + 1


def test_one_folder_loaded_by_two_threads_is_loaded_one_after_the_other(tmp_path: Path) -> None:
    (tmp_path / "one.py").write_text("x = object()\ny = x\n")
    outcomes: list[bool] = []

    def load() -> None:
        for _ in range(20):
            for _path, module in FolderModules(tmp_path).load_all():
                outcomes.append(not isinstance(module, str) and module.x is module.y)

    loaders = [threading.Thread(target=load) for _ in range(4)]
    for loader in loaders:
        loader.start()
    for loader in loaders:
        loader.join()
    assert outcomes == [True] * 80


async def test_an_answer_of_a_thread_for_a_loop_that_is_gone_is_dropped() -> None:
    go, done = threading.Event(), threading.Event()

    def work() -> None:
        go.wait(300)
        done.set()

    def elsewhere() -> None:
        async def leave() -> None:
            task = asyncio.ensure_future(in_thread(work, "left-behind"))
            await asyncio.sleep(0)
            task.cancel()

        asyncio.run(leave())

    await in_thread(elsewhere, "outer")
    go.set()
    assert done.wait(300)
    assert await in_thread(lambda: 5, "after") == 5


async def test_threads_are_used_again_and_only_a_few_are_kept() -> None:
    together = threading.Barrier(threads.MAX_IDLE + 4, timeout=300)
    met = [in_thread(together.wait, "meet") for _ in range(threads.MAX_IDLE + 4)]
    assert len(await asyncio.gather(*met)) == threads.MAX_IDLE + 4
    for _ in range(50):
        name = await in_thread(lambda: threading.current_thread().name, "again")
        assert name == "again"
    assert len(threads._idle) <= threads.MAX_IDLE


def test_an_idle_thread_ends_by_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(threads, "IDLE_TIMEOUT", 0.01)
    monkeypatch.setattr(threads, "_idle", threads.deque())
    thread = asyncio.run(in_thread(threading.current_thread, "short"))
    thread.join(300)
    assert not thread.is_alive()
    # Had it left its queue behind, the next job would go there and wait for ever.
    assert asyncio.run(asyncio.wait_for(in_thread(lambda: 5, "next"), 30)) == 5


def test_a_folder_is_loaded_while_another_thread_imports(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Looked(str):
        """The name of a module; another one is imported at the very moment when it is looked at."""

        def partition(self, separator: str) -> tuple[str, str, str]:
            monkeypatch.setitem(sys.modules, "imported_meanwhile", ModuleType("imported_meanwhile"))
            return super().partition(separator)

    monkeypatch.setitem(sys.modules, Looked("looked_at"), ModuleType("looked_at"))
    (tmp_path / "a.py").write_text("x = 1\n")
    ((path, module),) = modules.FolderModules(tmp_path).load_all()
    assert isinstance(module, ModuleType)
    assert (path.name, module.x) == ("a.py", 1)
