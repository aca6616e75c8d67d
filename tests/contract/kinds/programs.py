"""Kinds that run programs: every call is a process of its own."""

from __future__ import annotations

from pathlib import Path
from typing import Any, ClassVar, Self

import pytest

from contract.kinds.kind import Kind
from contract.kinds.web import manual, manual_tool
from contract.witness import Witness
from spindle.domain.identity import Credential

SCRIPT = """
case "$1" in
  echo) printf %s "$2";;
  fail) echo "out of stock" >&2; exit 3;;
  hang) exec 3> "$2"; echo begun >&3; sleep 86400; echo never;;
  whoami) printf %s "$TOKEN";;
esac
"""


class Programs(Kind):
    """All of them: the same script behind each. What hangs is a child of it, which holds the pipe as well."""

    lacks: ClassVar = {
        "lost link": "nothing is kept open between calls: every call starts a process of its own",
        "answers out of order": "every answer comes from a process of its own",
    }

    def __init__(self, request: pytest.FixtureRequest, root: Path) -> None:
        super().__init__(request, root)
        self.script = root / "program.sh"
        self.script.write_text(SCRIPT)
        self.witness = Witness(root / "witness")

    async def __aenter__(self) -> Self:
        await self.witness.open()
        return self

    async def __aexit__(self, *_: object) -> None:
        self.witness.close()

    async def begun(self) -> None:
        await self.witness.begun()

    async def over(self) -> None:
        await self.witness.over()

    def credential(self, who: str) -> Credential:
        return Credential(env=(("TOKEN", f"{who}-token"),))

    def shown(self, who: str) -> str:
        return f"{who}-token"


class Cli(Programs):
    @property
    def settings(self) -> dict[str, Any]:
        text = {"text": {"type": "string", "required": True}}
        commands: dict[str, Any] = {
            "echo": {"args": ["echo", "{text}"], "parameters": text},
            "fail": {"args": ["fail"]},
            "hang": {"args": ["hang", str(self.witness.path)]},
            "whoami": {"args": ["whoami"]},
        }
        return {"kind": "cli", "program": ["/bin/sh", str(self.script)], "commands": commands}


class UtcpPrograms(Programs):
    @property
    def settings(self) -> dict[str, Any]:
        words = {"echo": "echo UTCP_ARG_text_UTCP_END", "hang": f"hang {self.witness.path}"}
        tools = [
            manual_tool(name, {
                "call_template_type": "cli",
                "commands": [{"command": f"/bin/sh {self.script} {words.get(name, name)}"}],
            })
            for name in self.tools
        ]  # fmt: skip
        return manual(self.root, tools, allowed_protocols=["cli"])
