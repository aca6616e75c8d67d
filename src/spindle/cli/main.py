"""The entry point of the command line.

Imports as little as it can: a command's module is loaded when that command runs, so that `--help`
and completion answer at once.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, NoReturn

import click

from spindle.cli.group import LazyGroup, Sections
from spindle.cli.options import shared_options

if TYPE_CHECKING:
    from spindle.cli.context import CliContext

# name -> (module in this package, attribute, help in one line), by what a user wants to do.
SECTIONS: Sections = {
    "Set up": {
        "new": ("new", "new", "Create a workspace."),
        "add": ("add", "add", "Add a source: a program, a URL or a preset."),
        "registry": ("registry", "registry", "Find MCP servers in the MCP registry."),
        "import": ("import_", "import_", "Import servers from Claude, Cursor or VS Code."),
        "remove": ("remove", "remove", "Remove a source."),
        "sources": ("sources", "sources", "List the sources and their state."),
        "sync": ("sync", "sync", "Ask sources for their tools."),
        "trust": ("trust", "trust", "Say that a workspace may run."),
    },
    "Use": {
        "tools": ("tools", "tools", "List the tools."),
        "search": ("search", "search", "Find tools by words."),
        "show": ("show", "show", "Show one tool: parameters, hints, origin."),
        "call": ("call", "call", "Call a tool."),
        "run": ("run", "run", "Run a flow: saved, or a line of tools."),
        "agent": ("agent", "agent", "Give a task to a language model that uses the tools."),
        "eval": ("eval", "eval_", "Give an agent tasks, and compare what it does with what is expected."),
        "ask": ("ask", "ask", "Say what to do; a flow that does it is written and run."),
        "up": ("up", "up", "Keep the workspace open, so that commands are quick."),
        "down": ("up", "down", "End `spindle up`."),
        "console": ("console", "console", "See the workspace in a browser."),
        "resources": ("resources", "resources", "List the resources of MCP servers."),
        "read": ("resources", "read", "Read a resource."),
        "watch": ("resources", "watch", "Print a line each time a resource changes."),
        "prompts": ("prompts", "prompts", "List the prompts of MCP servers."),
        "prompt": ("prompts", "prompt", "Fill in a prompt and print it."),
        "events": ("events", "events", "Listen to events."),
        "pauses": ("pauses", "pauses", "List the pauses that wait for a person."),
        "resume": ("resume", "resume", "Answer a pause and resume its run."),
    },
    "Flows": {
        "flow": ("flow.group", "flow", "Save, list, show, check and draw flows."),
        "check": ("flow.check", "check", "Check a flow without running it."),
        "runs": ("runs", "runs", "List, cancel and retry runs."),
        "trace": ("trace", "trace", "Show one run, node by node."),
        "schedule": ("schedule", "schedule", "Submit flows at times."),
        "triggers": ("triggers", "triggers", "List what starts flows, and how it stands."),
    },
    "Share": {
        "worker": ("worker", "worker", "Execute submitted runs."),
        "serve": ("serve", "serve", "Serve the tools to other programs."),
        "token": ("access.token", "token", "Make, list and revoke tokens of clients."),
        "group": ("access.group", "group", "Say which tools groups of clients see."),
        "quota": ("access.quota", "quota", "Say how much clients may use."),
        "install": ("install", "install", "Add this workspace to Claude, Cursor or VS Code."),
        "table": ("table.group", "table", "Tools as tables: Parquet, Feather and Arrow files."),
        "export": ("export", "export", "Write the catalog as a UTCP manual or an OpenAPI document."),
    },
    "Maintain": {
        "auth": ("auth.group", "auth", "Log in to sources; list and revoke access."),
        "secret": ("secret", "secret", "Set, list and remove secrets of this workspace."),
        "history": ("history", "history", "List past calls."),
        "replay": ("replay", "replay", "Show what is on a tape of calls, and if it still holds."),
        "audit": ("audit", "audit", "Show who did what through the servers."),
        "prune": ("prune", "prune", "Remove old records, runs, cached results and files."),
        "backup": ("backup", "backup", "Copy the state into a file, also while it is used."),
        "restore": ("backup", "restore", "Put a backup in the place of the state."),
        "doctor": ("doctor", "doctor", "Find problems and how to fix them."),
        "completion": ("completion", "completion", "Print the completion script of a shell."),
    },
    "Other names": {
        "mcp": ("aliases", "mcp", "add, list, sync, remove"),
    },
}


def _version(ctx: click.Context, _param: click.Parameter, wanted: bool) -> None:
    if wanted and not ctx.resilient_parsing:
        from spindle.version import __version__

        click.echo(f"spindle {__version__}")
        ctx.exit()


GROUP = LazyGroup(
    "spindle",
    sections=SECTIONS,
    params=[
        *shared_options(),
        click.Option(["--version"], is_flag=True, expose_value=False, is_eager=True, callback=_version),
    ],
    help="One catalog for every tool that an agent, a flow, a person or a program can call.",
    epilog="`spindle COMMAND --help` explains a command.",
)


def execute(argv: Sequence[str]) -> int:
    """Runs one command line in this process and returns its exit code."""
    from spindle.cli.context import CliContext
    from spindle.cli.output import Output

    return perform(argv, CliContext(Output(sys.stdout, sys.stderr)))


def perform(argv: Sequence[str], cli: CliContext) -> int:
    """Runs one command line with the workspace and the output of `cli`, and returns its exit code."""
    output = cli.output
    try:
        try:
            with GROUP.make_context("spindle", list(argv), obj=cli) as ctx:
                code = GROUP.invoke(ctx)
        except click.exceptions.Exit as ended:
            code = ended.exit_code
        except BaseException as error:
            if cli.passes_on(error):
                raise
            from spindle.cli.errors import report

            code = report(error, cli, argv)
        try:
            output.flush()
        except OSError as error:
            if isinstance(error, BrokenPipeError):
                raise
            output.abandon()
            output.aside(f"spindle: the result cannot be written: {error.strerror}")
            return 2
        return code if isinstance(code, int) else 0
    except BrokenPipeError:
        output.abandon()
        return 141
    finally:
        output.give_back()


def run() -> None:
    """The `spindle` program."""
    instruction = os.environ.get("_SPINDLE_COMPLETE")
    if instruction:
        from click.shell_completion import shell_complete

        from spindle.cli.shells import know_shells

        know_shells()
        sys.exit(shell_complete(GROUP, {}, "spindle", "_SPINDLE_COMPLETE", instruction))
    _leave(execute(sys.argv[1:]))


def _leave(code: int) -> NoReturn:
    """Exits now. Otherwise Python would wait for a cancelled tool that still runs in its thread."""
    import threading

    others = [thread for thread in threading.enumerate() if thread is not threading.main_thread()]
    if all(thread.daemon for thread in others):
        sys.exit(code)
    import atexit

    # Exit handlers still run: they end servers that were left behind.
    atexit._run_exitfuncs()  # pyright: ignore[reportPrivateUsage] - there is no public way
    sys.stderr.flush()
    os._exit(code)
