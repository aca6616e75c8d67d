"""Draws docs/assets/terminal.svg: what the commands of README.md really show on a terminal.

Run it as: make picture
"""

import io
import os
import pty
import re
import subprocess
import sys
import tempfile
import threading
from pathlib import Path

from rich.console import Console
from rich.terminal_theme import TerminalTheme
from rich.text import Text

ROOT = Path(__file__).parent.parent
PICTURE = ROOT / "docs" / "assets" / "terminal.svg"
COLUMNS = 104
# The fonts are those of the reader's machine: a picture that fetches one shows nothing where it cannot.
FORMAT = """<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" role="img">
<title>A session with Spindle at a terminal</title>
<style>
.{unique_id}-matrix {{ font-family: ui-monospace, "SF Mono", Menlo, Consolas, "DejaVu Sans Mono", monospace;
  font-size: {char_height}px; line-height: {line_height}px; white-space: pre; }}
{styles}
</style>
<defs><clipPath id="{unique_id}-clip-terminal">
<rect x="0" y="0" width="{terminal_width}" height="{terminal_height}"/>
</clipPath>
{lines}</defs>
{chrome}
<g transform="translate({terminal_x}, {terminal_y})" clip-path="url(#{unique_id}-clip-terminal)">
{backgrounds}
<g class="{unique_id}-matrix">
{matrix}
</g>
</g>
</svg>
"""
THEME = TerminalTheme(
    (27, 30, 38),
    (214, 220, 228),
    [(27, 30, 38), (240, 113, 120), (140, 205, 130), (233, 190, 109),
     (111, 168, 240), (199, 146, 234), (100, 200, 210), (214, 220, 228)],
    [(110, 120, 135), (255, 139, 146), (165, 225, 155), (250, 210, 135),
     (140, 190, 255), (215, 170, 245), (130, 220, 230), (255, 255, 255)],
)  # fmt: skip


def main() -> None:
    console = Console(width=COLUMNS, record=True, file=io.StringIO(), force_terminal=True)
    with tempfile.TemporaryDirectory() as home:
        folder = Path(home)
        environment = os.environ | {"SPINDLE_HOME": f"{home}/.config", "HOME": home, "TERM": "xterm-256color"}
        environment |= {"COLUMNS": str(COLUMNS), "LINES": "60", "PATH": path_of_programs()}
        for name in ("NO_COLOR", "CI"):
            environment.pop(name, None)
        for number, command in enumerate(commands()):
            if number:
                console.print()
            console.print(Text.assemble(("$ ", "bold green"), (command, "bold")), soft_wrap=True)
            shown = run(command, folder, environment).replace(f"{home}/", "~/")
            console.print(Text.from_ansi(shown.strip("\n")), soft_wrap=True)
            if changed := re.search(r"(?:^|&& )cd (\S+)$", command):
                folder /= changed[1]
    PICTURE.parent.mkdir(exist_ok=True)
    PICTURE.write_text(
        console.export_svg(title="spindle", theme=THEME, code_format=FORMAT, unique_id="t"), "utf-8"
    )


def commands() -> list[str]:
    """Returns the commands of the first session that README.md shows."""
    session = (ROOT / "README.md").read_text("utf-8").split("```console\n", 1)[1].split("```", 1)[0]
    return re.findall(r"^\$ (.+)$", session, re.MULTILINE)


def path_of_programs() -> str:
    return f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"


def run(command: str, folder: Path, environment: dict[str, str]) -> str:
    """Returns what a command shows on a terminal of its own."""
    ours, theirs = pty.openpty()
    shown: list[bytes] = []

    def read() -> None:
        try:
            while data := os.read(ours, 65536):
                shown.append(data)
        except OSError:  # how Linux says that the other end is closed
            pass

    reader = threading.Thread(target=read)
    reader.start()
    done = subprocess.run(
        ["bash", "-c", command],
        cwd=folder,
        env=environment,
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
        check=False,
    )
    os.close(theirs)
    reader.join()
    os.close(ours)
    if done.returncode:
        raise SystemExit(f"{command} ended with {done.returncode}:\n{b''.join(shown).decode()}")
    return last_of_each_line(b"".join(shown).decode())


def last_of_each_line(shown: str) -> str:
    """Returns what stays on the screen: lines that were drawn over, such as a progress, are gone."""
    lines = (line.rstrip("\r").rsplit("\r", 1)[-1] for line in shown.split("\n"))
    return "\n".join(re.sub(r"\x1b\[\?[0-9]+[hl]|\x1b\[[0-9]*[KAJ]", "", line) for line in lines)


if __name__ == "__main__":
    main()
