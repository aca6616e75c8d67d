"""What of our own environment a server gets to see."""

import pytest

from spindle.sources.programs.environment import environment


def test_a_server_sees_what_any_program_needs_and_what_is_declared(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/bin")
    monkeypatch.setenv("HTTPS_PROXY", "http://proxy:3128")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "ours")
    seen = environment({"TOKEN": "theirs"})
    assert seen["PATH"] == "/bin"
    assert seen["HTTPS_PROXY"] == "http://proxy:3128"
    assert seen["TOKEN"] == "theirs"
    assert "AWS_SECRET_ACCESS_KEY" not in seen


def test_a_proxy_with_a_password_must_be_declared(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("https_proxy", "http://me:secret@proxy:3128")
    assert "https_proxy" not in environment({})


def test_what_is_declared_wins(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", "/home/me")
    assert environment({"HOME": "/elsewhere"})["HOME"] == "/elsewhere"
