"""`spindle call --save DIR`: names that are safe, and nothing is replaced."""

from __future__ import annotations

import base64
import os

import pytest

from spindle.cli.saving import file_name, save_content
from spindle.domain.call import Block, Result
from spindle.errors import ConfigurationError, ServerError

HELLO = base64.b64encode(b"hello").decode()


@pytest.mark.parametrize(
    ("fields", "name"),
    [
        ({"mime_type": "image/png"}, "chart.png"),
        ({"mime_type": "image/jpeg"}, "chart.jpg"),
        ({"mime_type": "audio/wav"}, "chart.wav"),
        ({}, "chart.bin"),
        ({"text": "words"}, "chart.txt"),
        ({"mime_type": "x/unheard-of"}, "chart.bin"),
        ({"name": "report.pdf", "mime_type": "image/png"}, "report.pdf"),
        ({"uri": "file:///etc/my%20notes.txt"}, "my notes.txt"),
        ({"uri": "https://example.com/a/b.csv?key=secret"}, "b.csv"),
        ({"name": "../../etc/passwd", "mime_type": "image/png"}, "passwd.png"),
        ({"name": "..\\..\\boot.ini"}, "boot.ini"),
        ({"name": "/etc/cron.d/evil"}, "evil.bin"),
        ({"name": ".bashrc"}, "bashrc.bin"),
        ({"name": ".."}, "chart.bin"),
        ({"name": "~/.ssh/authorized_keys"}, "authorized_keys.bin"),
        ({"name": "-rf"}, "rf.bin"),
        ({"name": "a\x00b\x1b[31m\nc.png"}, "a_b_31m_c.png"),
        ({"name": "$(reboot);`id`|x.png"}, "_(reboot)_id_x.png"),
        ({"name": "con.png"}, "_con.png"),
        ({"name": "ü日.png"}, "ü日.png"),
    ],
)
def test_a_name_is_only_a_suggestion(fields, name):
    assert file_name(Block("resource", **fields), "chart") == name


@pytest.mark.parametrize("text", ["x" * 300 + ".png", "日" * 300 + ".png", "x." + "y" * 300])
def test_a_name_is_not_too_long_for_a_file(tmp_path, text):
    saved = save_content(Result((Block("image", data=HELLO, name=text),)), tmp_path, "x")
    assert os.path.getsize(saved.content[0].path) == 5


def test_nothing_is_replaced(tmp_path):
    block = Block("image", data=HELLO, mime_type="image/png")
    (tmp_path / "chart.png").write_text("mine")
    (tmp_path / "elsewhere").write_text("not yours")
    (tmp_path / "chart-2.png").symlink_to(tmp_path / "elsewhere")
    (tmp_path / "chart-3.png").symlink_to(tmp_path / "made by a link")
    saved = save_content(Result((block, block)), tmp_path, "chart")
    assert [os.path.basename(block.path) for block in saved.content] == ["chart-4.png", "chart-5.png"]
    assert (tmp_path / "chart.png").read_text() == "mine"
    assert (tmp_path / "elsewhere").read_text() == "not yours"
    assert not (tmp_path / "made by a link").exists()
    assert all(block.data is None and block.size == 5 for block in saved.content)


def test_text_stays_text_and_links_stay_links(tmp_path):
    result = Result((Block("text", text="hi"), Block("link", uri="https://example.com", name="x")))
    assert save_content(result, tmp_path / "new", "x") is result
    assert not (tmp_path / "new").exists()


def test_what_cannot_be_saved_is_said(tmp_path):
    with pytest.raises(ServerError, match="not base64"):
        save_content(Result((Block("image", data="!!"),)), tmp_path, "x")
    (tmp_path / "file").touch()
    with pytest.raises(ConfigurationError, match="cannot write into"):
        save_content(Result((Block("image", data=HELLO),)), tmp_path / "file", "x")


def test_a_call_saves_its_pictures(workspace, spindle):
    workspace.add_server()
    done = spindle("call", "picture", "--save", "out/deep")
    assert done.out == "look:\n[image, image/png, 5 bytes, out/deep/picture.png]\n"
    assert (workspace.root / "out/deep/picture.png").read_bytes() == b"hello"
    whole = spindle("call", "--save", "out/deep", "--json", "picture").json
    assert whole["content"][1] == {
        "type": "image",
        "mime_type": "image/png",
        "path": "out/deep/picture-2.png",
        "size": 5,
    }
    (workspace.root / "taken").touch()
    assert spindle("call", "picture", "--save", "taken").code == 2


def test_a_picture_that_is_not_saved_has_a_path_too(workspace, spindle):
    workspace.add_server()
    line = spindle("call", "picture").out.splitlines()[1]
    assert line.startswith("[image, image/png, 5 bytes, ")
    path = line.rpartition(", ")[2].removesuffix("]")
    assert path.startswith(str(workspace.root / ".spindle" / "files"))
    with open(path, "rb") as file:
        assert file.read() == b"hello"
