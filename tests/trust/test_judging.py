"""Who changed a trusted workspace: its user, silently, or somebody else, about which a person is asked."""

from __future__ import annotations

import os
import subprocess
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from spindle import settings
from spindle.errors import ConfigurationError
from spindle.settings.edit import add_source, own_change
from spindle.trust import Verdict, granted
from spindle.trust.marks import MAX_DIGESTS

COMMITTER = ["-c", "user.name=Ada", "-c", "user.email=ada@example.com", "-c", "init.defaultBranch=main"]


@pytest.fixture(autouse=True)
def _no_trust(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("SPINDLE_TRUST")
    monkeypatch.setenv("SPINDLE_HOME", str(tmp_path / "home"))
    for name in [name for name in os.environ if name.startswith("GIT_")]:
        monkeypatch.delenv(name)


class Workspace:
    """A workspace with one tool."""

    def __init__(self, root: Path) -> None:
        self.root = root
        (root / "tools").mkdir(parents=True)
        (root / "spindle.toml").write_text("")
        self.edit("first")

    def edit(self, text: str) -> None:
        (self.root / "tools" / "own.py").write_text(f"# {text}\n")

    def verdict(self) -> Verdict:
        return settings.load(self.root, trusted=False).verdict

    def trust(self, *, exact: bool | None = None) -> None:
        settings.load(self.root, trusted=False).trust(exact=exact)

    def git(self, *words: str) -> None:
        done = subprocess.run(
            ["git", *COMMITTER, *words], cwd=self.root, capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, done.stderr

    def commit(self, text: str) -> None:
        self.edit(text)
        self.git("add", ".")
        self.git("commit", "-m", text)


def at(root: Path) -> Workspace:
    found = Workspace.__new__(Workspace)
    found.root = root
    return found


def cloned(origin: Workspace, root: Path) -> Workspace:
    origin.git("clone", ".", str(root))
    return at(root)


@pytest.fixture
def workspace(tmp_path: Path) -> Workspace:
    return Workspace(tmp_path / "project")


def test_a_workspace_needs_a_mark_and_its_users_edits_need_none(workspace: Workspace) -> None:
    assert not workspace.verdict().trusted
    workspace.trust()
    assert workspace.verdict().trusted
    workspace.edit("second")
    (workspace.root / "tools" / "more.py").write_text("")
    assert workspace.verdict().trusted


def test_exact_trust_asks_at_every_change(workspace: Workspace) -> None:
    workspace.trust(exact=True)
    workspace.edit("second")
    verdict = workspace.verdict()
    assert not verdict.trusted
    assert verdict.changed == ("tools/own.py",)
    workspace.edit("first")
    assert workspace.verdict().trusted
    workspace.trust(exact=False)
    workspace.edit("third")
    assert workspace.verdict().trusted


@pytest.mark.parametrize("place", ["tools", "tools/own.py", "."])
def test_a_change_where_others_can_write_is_asked_about(workspace: Workspace, place: str) -> None:
    workspace.trust()
    os.chmod(workspace.root / place, 0o777)
    workspace.edit("second")
    verdict = workspace.verdict()
    assert not verdict.trusted
    assert "others can write to" in verdict.reason
    os.chmod(workspace.root / place, 0o755)
    assert workspace.verdict().trusted


@pytest.mark.skipif(os.getuid() != 0, reason="only root can give files away")
def test_a_change_by_another_owner_is_asked_about(workspace: Workspace) -> None:
    workspace.trust()
    workspace.edit("second")
    os.chown(workspace.root / "tools" / "own.py", 12345, -1)
    assert "belongs to another user" in workspace.verdict().reason


def test_local_commits_are_the_users_own(workspace: Workspace) -> None:
    workspace.git("init")
    workspace.trust()
    workspace.edit("before any commit")
    assert workspace.verdict().trusted
    workspace.commit("one")
    assert workspace.verdict().trusted
    workspace.commit("two")
    workspace.edit("three")
    workspace.git("commit", "-a", "--amend", "-m", "three")
    workspace.git("switch", "-c", "other")
    workspace.git("stash", "list")
    workspace.edit("four")
    assert workspace.verdict().trusted


def _pull(workspace: Workspace, origin: Workspace) -> None:
    workspace.git("pull", "--no-rebase", str(origin.root), "main")


def _merge(workspace: Workspace, origin: Workspace) -> None:
    workspace.git("fetch", str(origin.root), "main")
    workspace.git("merge", "FETCH_HEAD")


def _unfinished_merge(workspace: Workspace, origin: Workspace) -> None:
    workspace.git("fetch", str(origin.root), "main")
    workspace.git("merge", "--no-ff", "--no-commit", "FETCH_HEAD")


def _squash(workspace: Workspace, origin: Workspace) -> None:
    workspace.git("fetch", str(origin.root), "main")
    workspace.git("merge", "--squash", "FETCH_HEAD")


def _reset(workspace: Workspace, origin: Workspace) -> None:
    workspace.git("fetch", str(origin.root), "main")
    workspace.git("reset", "--hard", "FETCH_HEAD")


def _checkout(workspace: Workspace, origin: Workspace) -> None:
    workspace.git("fetch", str(origin.root), "main")
    workspace.git("checkout", "FETCH_HEAD")


def _pick(workspace: Workspace, origin: Workspace) -> None:
    workspace.git("fetch", str(origin.root), "main")
    workspace.git("cherry-pick", "FETCH_HEAD")


@pytest.mark.parametrize("bring", [_pull, _merge, _unfinished_merge, _squash, _reset, _checkout, _pick])
def test_what_git_brings_from_elsewhere_is_asked_about(
    tmp_path: Path, bring: Callable[[Workspace, Workspace], None]
) -> None:
    origin = Workspace(tmp_path / "origin")
    origin.git("init")
    origin.commit("base")
    workspace = cloned(origin, tmp_path / "clone")
    workspace.trust()
    origin.commit("evil")
    bring(workspace, origin)
    assert (workspace.root / "tools" / "own.py").read_text() == "# evil\n"
    verdict = workspace.verdict()
    assert not verdict.trusted
    assert verdict.changed == ("tools/own.py",)
    assert "git" in verdict.reason


def test_a_pull_of_other_files_does_not_make_the_next_edit_a_strange_one(tmp_path: Path) -> None:
    origin = Workspace(tmp_path / "origin")
    origin.git("init")
    origin.commit("first")
    workspace = cloned(origin, tmp_path / "clone")
    workspace.trust()
    (origin.root / "README").write_text("more")
    origin.git("add", ".")
    origin.git("commit", "-m", "words")
    workspace.git("pull", str(origin.root), "main")
    assert workspace.verdict().trusted
    workspace.edit("mine")
    assert workspace.verdict().trusted


def test_going_back_to_a_branch_that_was_trusted_asks_no_more(workspace: Workspace) -> None:
    workspace.git("init")
    workspace.commit("one")
    workspace.git("switch", "-c", "other")
    workspace.commit("two")
    workspace.trust()
    workspace.git("switch", "main")
    assert not workspace.verdict().trusted
    workspace.trust()
    for branch in ("other", "main", "other"):
        workspace.git("switch", branch)
        assert workspace.verdict().trusted


def test_worktrees_and_submodules_have_logs_of_their_own(workspace: Workspace, tmp_path: Path) -> None:
    workspace.git("init")
    workspace.commit("one")
    workspace.git("branch", "evil")
    workspace.git("worktree", "add", str(tmp_path / "tree"), "-b", "tree")
    tree = at(tmp_path / "tree")
    tree.trust()
    tree.commit("two")
    assert tree.verdict().trusted
    workspace.git("switch", "evil")
    workspace.commit("evil")
    tree.git("merge", "-X", "theirs", "evil")
    assert not tree.verdict().trusted


@pytest.mark.parametrize(
    "damage", ["no log", "a log that starts anew", "a log that is not HEAD's", "reftable", "another program"]
)
def test_without_the_word_of_git_a_change_is_asked_about(workspace: Workspace, damage: str) -> None:
    workspace.git("init")
    workspace.commit("one")
    workspace.trust()
    log = workspace.root / ".git" / "logs" / "HEAD"
    if damage == "a log that starts anew":
        log.write_text(log.read_text().replace("Ada", "Eve"))
    elif damage == "a log that is not HEAD's":
        head = workspace.root / ".git" / "refs" / "heads" / "main"
        head.write_text("1" * 40 + "\n")
    else:
        log.unlink()
    if damage == "reftable":
        (workspace.root / ".git" / "reftable").mkdir()
        (workspace.root / ".git" / "HEAD").write_text("ref: refs/heads/.invalid\n")
    if damage == "another program":
        (workspace.root / ".git").rename(workspace.root / ".hg")
    workspace.edit("two")
    assert not workspace.verdict().trusted
    workspace.edit("one")
    assert workspace.verdict().trusted


def test_another_folder_at_the_same_path_is_another_workspace(workspace: Workspace, tmp_path: Path) -> None:
    workspace.trust()
    workspace.root.rename(tmp_path / "away")
    other = Workspace(workspace.root)
    other.edit("evil")
    assert "another folder" in other.verdict().reason


def test_all_that_can_run_counts(workspace: Workspace, tmp_path: Path) -> None:
    root = workspace.root
    (root / "spindle.toml").write_text(
        '[sources.a]\ncommand = ["python", "server.py", "data.json"]\n'
        '[sources.b]\nfile = "b.toml"\n'
        '[sources.c]\nkind = "python"\nmodule = "pack.inner"\n'
        '[sources.d]\nkind = "openapi"\ndocument = "api.yaml"\n'
    )
    (root / "b.toml").write_text('kind = "mcp"\ncommand = "bin/run"\n')
    outside = tmp_path / "outside.py"
    files = {
        "server.py", "data.json", "pack/inner.py", "other.py", "api.yaml", "bin/run", "mods/m.py",
        "flows/.hidden/f.yaml", "events/e.json", "tools/deep/x.py", "tools/native.so", "tools/old.pyc",
        "tools/__pycache__/own.pyc", "tools/notes.txt",
    }  # fmt: skip
    for name in files:
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text("")
    (root / "bin" / "run").chmod(0o755)
    outside.write_text("")
    (root / "tools" / "link.py").symlink_to(outside)
    (root / "tools" / "loop").symlink_to(root / "tools")
    os.mkfifo(root / "tools" / "pipe.py")
    found = settings.load(root, trusted=False).cover()
    assert found.too_much == ""
    counted = files - {"data.json", "tools/__pycache__/own.pyc", "tools/notes.txt"}
    assert set(found.files) == counted | {
        "spindle.toml", "b.toml", "tools/own.py", "tools/link.py", "tools/pipe.py"
    }  # fmt: skip
    workspace.trust(exact=True)
    for name in counted:
        (root / name).write_text(f"changed {name}")
        assert name in workspace.verdict().changed
    outside.write_text("changed")
    assert "tools/link.py" in workspace.verdict().changed


def test_a_strangers_endless_folder_is_not_walked(
    workspace: Workspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    (workspace.root / "spindle.toml").write_text('[sources.a]\nkind = "python"\npath = "/"\n')
    monkeypatch.setattr("spindle.trust.coverage.os.walk", lambda *_args, **_more: pytest.fail("walked"))
    assert not workspace.verdict().trusted


def test_devices_are_not_opened_and_large_files_not_read(
    workspace: Workspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("spindle.trust.coverage.LARGE", 1000)
    (workspace.root / "tools" / "device.py").symlink_to("/dev/zero")
    large = workspace.root / "tools" / "large.so"
    large.write_bytes(bytes(2000))
    found = settings.load(workspace.root, trusted=False).cover().files
    assert found["tools/device.py"].endswith("not a file")
    assert found["tools/large.so"].startswith("large 2000 ")
    workspace.trust(exact=True)
    large.write_bytes(b"x" * 2000)
    assert workspace.verdict().changed == ("tools/large.so",)


def test_too_many_files_cannot_be_marked(workspace: Workspace, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("spindle.trust.coverage.MAX_FILES", 3)
    for number in range(5):
        (workspace.root / "tools" / f"t{number}.py").touch()
    with pytest.raises(ConfigurationError, match="more than 3 files"):
        workspace.trust()
    assert not workspace.verdict().trusted


@pytest.mark.parametrize("content", [b"", b"{", b"[]", b'{"version": 1}', b"\xff" * 100, b"[" * 200_000])
def test_a_damaged_mark_trusts_nothing_and_says_so(workspace: Workspace, content: bytes) -> None:
    workspace.trust()
    marks = settings.trust_marks()
    file = marks.file(os.path.realpath(workspace.root))
    assert file.stat().st_mode & 0o777 == 0o600
    assert marks.folder.stat().st_mode & 0o777 == 0o700
    file.write_bytes(content)
    verdict = workspace.verdict()
    assert not verdict.trusted
    assert str(file) in verdict.reason
    workspace.trust()
    assert workspace.verdict().trusted


def test_a_mark_that_others_could_write_is_not_believed(workspace: Workspace, tmp_path: Path) -> None:
    workspace.trust()
    file = settings.trust_marks().file(os.path.realpath(workspace.root))
    file.chmod(0o666)
    assert "others can write" in workspace.verdict().reason
    file.rename(tmp_path / "mark")
    file.symlink_to(tmp_path / "mark")
    assert not workspace.verdict().trusted


def test_only_the_latest_states_stay_trusted(workspace: Workspace) -> None:
    workspace.trust(exact=True)
    for number in range(MAX_DIGESTS):
        workspace.edit(f"state {number}")
        workspace.trust()
    workspace.edit("state 0")
    assert workspace.verdict().trusted
    workspace.edit("first")
    assert not workspace.verdict().trusted


def test_marks_of_many_at_once_are_all_kept(tmp_path: Path) -> None:
    roots = [Workspace(tmp_path / f"w{number}") for number in range(4)]
    faults: list[BaseException] = []

    def work(index: int) -> None:
        try:
            for _ in range(5):
                roots[index % 4].trust()
        except BaseException as error:
            faults.append(error)

    threads = [threading.Thread(target=work, args=(index,)) for index in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert faults == []
    assert all(root.verdict().trusted for root in roots)
    assert len(list(settings.trust_marks().all())) == 4


def test_what_spindle_writes_stays_trusted_and_what_was_not_is_not(workspace: Workspace) -> None:
    add_source(workspace.root / "spindle.toml", "a", {"command": "true"})
    assert not workspace.verdict().trusted
    workspace.trust(exact=True)
    add_source(workspace.root / "spindle.toml", "b", {"command": "true"})
    assert workspace.verdict().trusted
    workspace.edit("by hand")
    with own_change(workspace.root):
        (workspace.root / "tools" / "more.py").touch()
    assert not workspace.verdict().trusted


def test_an_empty_folder_made_a_workspace_is_trusted(tmp_path: Path) -> None:
    add_source(tmp_path / "spindle.toml", "a", {"command": "true"})
    assert settings.load(tmp_path, trusted=False).verdict.trusted


@pytest.mark.parametrize(
    ("text", "expected"),
    [("1", True), ("yes", True), ("", False), ("0", False), ("{root}", True), ("/nowhere:{above}", True),
     ("{root}x", False), ("/nowhere", False), ("~", False)],
)  # fmt: skip
def test_the_environment_names_what_is_trusted(tmp_path: Path, text: str, expected: bool) -> None:
    named = text.format(root=tmp_path, above=tmp_path.parent)
    assert granted(tmp_path, {"SPINDLE_TRUST": named}) is expected


def test_the_environment_must_name_whole_paths(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match="no whole path"):
        granted(tmp_path, {"SPINDLE_TRUST": "."})


def test_hostile_settings_are_refused_and_end_nothing(workspace: Workspace) -> None:
    file = workspace.root / "spindle.toml"
    for text, why in (("a = " + "[" * 50_000, "deep"), ("#" * 4_000_001, "more than 4 MB")):
        file.write_text(text)
        with pytest.raises(ConfigurationError, match=why):
            workspace.verdict()
    file.unlink()
    os.mkfifo(file)
    with pytest.raises(ConfigurationError, match="not a file"):
        workspace.verdict()
