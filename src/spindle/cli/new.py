"""`spindle new`: creates a workspace from a template."""

from __future__ import annotations

from pathlib import Path

import click

from spindle.cli.context import CliContext, command

TEMPLATES = Path(__file__).parent / "templates"
README = "README.md"


def _complete(_ctx: click.Context, _param: click.Parameter, start: str) -> list[str]:
    return [name for name in _known() if name.startswith(start)]


@command("new")
@click.argument("path", default=".", type=click.Path(file_okay=False, path_type=Path))
@click.option(
    "--template",
    default="basic",
    show_default=True,
    help="The template to start from: basic, agent, flows, mcp-server or oauth-app.",
    shell_complete=_complete,
)
def new(cli: CliContext, path: Path, template: str) -> None:
    """Create a workspace in PATH, or in this folder.

    \b
    spindle new
    spindle new shop --template agent
    """
    from spindle.cli.files import require_trust_in
    from spindle.settings.edit import own_change

    files = _read_template(template)
    first = _first_command(files.get(README))
    if (path / README).exists():
        files.pop(README, None)  # what is there is about more than this workspace
    _refuse_to_overwrite(path, files)
    if path.is_dir():
        require_trust_in(cli, path)
    with own_change(path):
        for name, text in files.items():
            target = path / name
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_text(text, "utf-8")
        _ignore_state(path / ".gitignore")
    root = path.resolve()
    if cli.output.as_json:
        cli.output.json({"workspace": str(root), "files": [*files, ".gitignore"]})
        return
    cli.output.line(f"created a workspace in {root}")
    for name in files:
        cli.output.line(f"  {name}")
    enter = "" if root == Path.cwd() else f"cd {path} && "
    cli.output.aside(f"try: {enter}{first}" if first else f"{path / README} says how to run it")


def _read_template(template: str) -> dict[str, str]:
    from spindle.cli.errors import UsageMistakeError
    from spindle.errors import did_you_mean

    known = _known()
    if template not in known:
        raise UsageMistakeError(
            f"there is no template {template!r}",
            did_you_mean(template, known, f"known are: {', '.join(known)}"),
        )
    folder = TEMPLATES / template
    return {
        path.relative_to(folder).as_posix(): path.read_text("utf-8")
        for path in sorted(folder.rglob("*"))
        if path.is_file() and "__pycache__" not in path.parts
    }


def _known() -> list[str]:
    return sorted(folder.name for folder in TEMPLATES.iterdir() if folder.is_dir())


def _first_command(readme: str | None) -> str | None:
    """The first command that the README of a template shows with what it prints."""
    if readme is None:
        return "spindle call hello --name you"
    return next((line[2:] for line in readme.splitlines() if line.startswith("$ ")), None)


def _refuse_to_overwrite(folder: Path, files: dict[str, str]) -> None:
    from spindle.errors import ConfigurationError

    existing = [name for name in files if (folder / name).exists()]
    if existing:
        raise ConfigurationError(
            f"{folder / existing[0]} exists already; nothing was changed",
            hint="choose another folder, or move it away",
        )


def _ignore_state(file: Path) -> None:
    """Adds the state folder, which belongs to this machine alone, to .gitignore."""
    lines = file.read_text("utf-8").splitlines() if file.exists() else []
    if not {".spindle", ".spindle/", "/.spindle", "/.spindle/"} & set(lines):
        file.write_text("\n".join([*lines, ".spindle/"]) + "\n", "utf-8")
