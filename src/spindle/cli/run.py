"""`spindle run`: a flow by its name, from a file, or written in one line."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from spindle.cli.completion import complete_flow, complete_run
from spindle.cli.context import CliContext, command
from spindle.cli.later_options import with_later
from spindle.cli.options import SECONDS
from spindle.cli.submitting import submit_options
from spindle.cli.tape_options import refuse_tape, tape_options
from spindle.cli.tool_completion import ToolCommand, complete_words

if TYPE_CHECKING:
    from collections.abc import Sequence

    from spindle.app import Spindle
    from spindle.cli.run_words import RunWords
    from spindle.domain.json_schema import JsonObject
    from spindle.domain.tool import Tool
    from spindle.flows.definition import FlowDefinition
    from spindle.flows.flow import Flow
    from spindle.flows.inputs import InputNames
    from spindle.flows.plan import Planned
    from spindle.flows.text.files import Loaded


@command("run", cls=ToolCommand, context_settings={"allow_interspersed_args": False})
@click.option("--param", "params", metavar="NAME=VALUE", multiple=True, help="Override a parameter of nodes.")
@click.option("--dry-run", is_flag=True, help="Show the calls that would be made, without making them.")
@click.option("--only", metavar="NODE", help="Run only this node, with the data of the last run.")
@click.option("--from", "start", metavar="NODE", help="Run from this node on, with the data of the last run.")
@click.option(
    "--run", "reuse", metavar="RUN", shell_complete=complete_run, help="Use this run instead of the last one."
)
@click.option("--output", "key", metavar="KEY", help="Print only this output or shared key.")
@click.option("--no-cache", is_flag=True, help="Do not answer from the cache.")
@click.option("--timeout", type=SECONDS, metavar="SECONDS", help="Time limit for the whole run.")
@tape_options
@submit_options
@click.option("-y", "--yes", is_flag=True, help="Approve what needs approval.")
@click.option("-q", "--quiet", is_flag=True, help="Do not show the nodes as they run.")
@click.argument("flow", metavar="FLOW", shell_complete=complete_flow)
@click.argument(
    "words",
    nargs=-1,
    type=click.UNPROCESSED,
    metavar="[--NAME=VALUE]… [JSON]",
    shell_complete=complete_words,
)
@click.pass_context
async def run(ctx: click.Context, cli: CliContext, flow: str, words: tuple[str, ...], **options: Any) -> int:
    """Run a flow: the name or the file of one, or a line of tools such as "search --query TODO >> summarize".

    Flags after FLOW are its inputs, or parameters of its nodes; `spindle run FLOW --help` lists them. Piped
    input becomes the input `stdin`, or the only input that is missing.

    The nodes are shown on stderr as they run. Ctrl-C stops the run, and `spindle resume` continues it. With
    --detach it is put into a queue for `spindle worker`, and its id is printed.
    """
    from spindle.cli.auth.here import or_log_in
    from spindle.errors import AuthorizationRequired

    if options["detach"]:
        refuse_tape(cli.tape)
    async with cli.open() as app:
        try:
            meant = await or_log_in(cli, app, lambda: find_meant(app, flow, words, ctx.command))
        except AuthorizationRequired:
            later = _readable_later(app, flow, words, ctx.command, options)
            if later is None or options["detach"]:
                raise
            return await _run_later(cli, app, later, options)
        found, names, said = meant
        options = with_later(ctx, said.options, options, "FLOW")
        if said.wants_help:
            _help(cli, flow, found.definition, names)
            return 0
        return await _Running(cli, app, found, names, options).run(said.values)


async def find_meant(
    app: Spindle, text: str, words: tuple[str, ...], command: click.Command
) -> tuple[Loaded, InputNames, RunWords]:
    """Returns the flow, its inputs, and the words that were given. Flags after a single tool are that
    tool's."""
    import contextlib

    from spindle.cli.run_words import read_words
    from spindle.domain.identity import LOCAL
    from spindle.errors import AuthorizationRequired, InvalidArgumentsError, NotFoundError
    from spindle.flows.inputs import InputNames, names_of
    from spindle.flows.library import is_pipe
    from spindle.flows.text.files import Loaded
    from spindle.flows.text.pipe_words import quote

    found = app.flows.saved(text)
    tool: Tool | None = None
    if found is None and not is_pipe(text):
        with contextlib.suppress(NotFoundError):  # `find` says so, and knows flows too
            tool = await app.show(text)
    said: RunWords | None = None
    if tool is not None:
        alone = InputNames({}, tool.input_schema.get("properties", {}))
        said = read_words(words, tool.name, alone, command)
        own = said.own if not said.wants_help else []
        found = await app.flows.read_pipe(" ".join(map(quote, [tool.name, *own])), LOCAL)
        said.values = {}
    if found is None:
        found = await app.flows.find(text, LOCAL)
    assert isinstance(found, Loaded)  # a program gives other flows, and this is none
    waiting: list[AuthorizationRequired] = []

    async def show(name: str) -> Tool:
        try:
            return await app.show(name)
        except AuthorizationRequired as asked:
            waiting.append(asked)
            raise

    names = await names_of(found.definition, show)
    if said is None:
        try:
            said = read_words(words, found.definition.name or "this pipe", names, command)
        except InvalidArgumentsError:
            for asked in waiting:  # it may be a parameter of a tool that is not known before this consent
                raise asked from None
            raise
    return found, names, said


def _readable_later(
    app: Spindle, text: str, words: tuple[str, ...], command: click.Command, options: dict[str, Any]
) -> str | None:
    """Returns the line of tools that was typed, if nothing else of the command needs to know its tools; None
    if a user has to give a consent before the command can be understood."""
    from spindle.cli.later_options import options_of
    from spindle.flows.library import is_pipe
    from spindle.flows.text.pipe_words import quote

    needed = any(options[name] for name in ("params", "dry_run", "only", "start", "reuse", "key"))
    names = {word.partition("=")[0] for word in words}
    if needed or names & {"--help", *options_of(command)} or (words and is_pipe(text)):
        return None
    if app.flows.saved(text) is not None:
        return None
    return " ".join([text, *map(quote, words)])


async def _run_later(cli: CliContext, app: Spindle, text: str, options: dict[str, Any]) -> int:
    """Runs a line of tools that are not known before a consent. The run reads it when it goes on."""
    from spindle.calls.options import CallOptions
    from spindle.cli.outcome import conclude

    outcome = await app.flows.run(text, {}, CallOptions(use_cache=not options["no_cache"]))
    return await conclude(cli, app, outcome, approve=options["yes"])


def _help(cli: CliContext, text: str, flow: FlowDefinition, names: InputNames) -> None:
    from spindle.cli.describe import print_parameters
    from spindle.domain.json_schema import parameters

    if cli.output.as_json:
        cli.output.json({"inputs": dict(names.inputs), "params": dict(names.params)})
        return
    cli.output.line(f"spindle run {text if ' ' not in text else repr(text)} [--NAME=VALUE]…")
    if flow.description:
        cli.output.line(f"\n  {flow.description}")
    cli.output.line("\nInputs:")
    schema: JsonObject = {
        "type": "object",
        "properties": dict(names.inputs),
        "required": sorted(names.required),
    }
    print_parameters(cli.output, parameters(schema))
    params = {
        name: found for name, found in names.params.items() if "." not in name and name not in names.inputs
    }
    if params:
        cli.output.line("\nParameters of its nodes:")
        print_parameters(cli.output, parameters({"type": "object", "properties": params}))


class _Running:
    def __init__(
        self,
        cli: CliContext,
        app: Spindle,
        loaded: Loaded,
        names: InputNames,
        options: dict[str, Any],
    ) -> None:
        self._cli = cli
        self._app = app
        self._loaded = loaded
        self._flow = loaded.definition
        self._names = names
        self._options = options
        self._name = self._flow.name or "this pipe"
        self._made: Flow

    async def run(self, values: JsonObject) -> int:
        from spindle.cli.errors import UsageMistakeError
        from spindle.cli.piped import piped_input
        from spindle.cli.run_words import read_params
        from spindle.cli.submitting import refuse_mixed
        from spindle.flows.build import build
        from spindle.flows.inputs import with_params

        options = self._options
        refuse_mixed(options)
        if options["only"] and options["start"]:
            raise UsageMistakeError("--only and --from do not go together", "give one of them")
        start: str | None = options["only"] or options["start"]
        if options["reuse"] and start is None:
            raise UsageMistakeError("--run is for --from and --only", "add --from NODE")
        inputs = {name: value for name, value in values.items() if name in self._names.inputs}
        params = {name: value for name, value in values.items() if name not in self._names.inputs}
        params |= read_params(options["params"], self._name, self._names)
        self._flow = with_params(self._flow, params)
        self._made = build(self._flow, positions=self._loaded.positions, place=self._loaded.place)
        reuse = await self._to_reuse(start)
        needed = start is None and not options["dry_run"]
        inputs |= await piped_input(self._app, self._flow, self._names, inputs, needed=needed)
        if options["dry_run"]:
            return await self._show_plan(inputs, start, reuse)
        if options["detach"]:
            return await self._submit(inputs)
        return await self._execute(inputs, start, reuse)

    async def _submit(self, inputs: JsonObject) -> int:
        from spindle.calls.options import CallOptions
        from spindle.cli.submitting import placing_of, show_submitted

        options = CallOptions(use_cache=not self._options["no_cache"])
        placing = placing_of(self._options)
        show_submitted(self._cli, await self._app.flows.submit(self._made, inputs, options, placing))
        return 0

    async def _to_reuse(self, start: str | None) -> str | None:
        """Returns the run whose outputs the nodes from `start` on use."""
        from spindle.cli.run_names import SHORT, find_run
        from spindle.flows.execution import starting_at

        if start is None:
            return None
        starting_at(self._made, start)  # raises if there is no such node
        if self._options["reuse"]:
            return (await find_run(self._app, self._options["reuse"])).id
        found = await self._app.flows.came_to(start, self._made)
        if found is not None and not self._options["quiet"]:
            self._cli.output.note(f"using the data of run {found[:SHORT]}")
        return found

    async def _show_plan(self, inputs: JsonObject, start: str | None, reuse: str | None) -> int:
        from spindle.flows.check.before import refuse_broken
        from spindle.flows.plan import plan
        from spindle.flows.secrets import without_secrets

        left = await self._app.flows.left(reuse, self._made, before=start) if reuse else {}
        only = bool(self._options["only"])
        if not only:
            await refuse_broken(self._made, self._app.show, {**left, **inputs})
        planned = await plan(self._flow, {**left, **inputs}, self._app.show, start=start, only=only)
        _print_plan(self._cli, self._flow.name, without_secrets(self._flow.inputs, inputs), planned)
        return 0

    async def _execute(self, inputs: JsonObject, start: str | None, reuse: str | None) -> int:
        import asyncio

        from spindle.calls.options import CallOptions
        from spindle.cli.node_progress import NodeProgress
        from spindle.cli.outcome import conclude
        from spindle.domain.call import new_id
        from spindle.errors import CallTimeoutError

        options = self._options
        self._cli.run_id = run_id = new_id()
        width = max(len(node.id) for node in self._flow.nodes)
        progress = NodeProgress(self._cli.output, width, quiet=options["quiet"])
        try:
            async with asyncio.timeout(options["timeout"]), progress.shown():
                outcome = await self._app.flows.run(
                    self._made, inputs, CallOptions(use_cache=not options["no_cache"]),
                    observe=progress.observe, start=start, only=bool(options["only"]), reuse=reuse, id=run_id,
                )  # fmt: skip
        except TimeoutError:
            raise CallTimeoutError(
                f"the run did not finish within {options['timeout']:g} s and was stopped",
                hint=f"`spindle resume {run_id[:12]}` continues it",
            ) from None
        return await conclude(
            self._cli, self._app, outcome, approve=options["yes"], show=self._show, progress=progress
        )

    async def _show(self, run_id: str, result: Any) -> None:
        from spindle.cli.flow.results import print_flow_result, print_key

        if self._options["key"] is None:
            print_flow_result(self._cli, run_id, result)
        else:
            await print_key(self._cli, self._app, self._made, run_id, result, self._options["key"])


def _print_plan(cli: CliContext, name: str, inputs: JsonObject, planned: Sequence[Planned]) -> None:
    from itertools import pairwise

    from spindle.cli.flow.show import shown_value

    output = cli.output
    if output.as_json:
        nodes = [node.to_dict() for node in planned]
        output.json({"flow": name or None, "inputs": inputs, "nodes": nodes})
        return
    widest = max(len(node.node) for node in planned)
    following = {one.node: other.node for one, other in pairwise(planned)}
    for node in planned:
        output.line(f"{node.node.ljust(widest)}  {node.says}".rstrip())
        pad = " " * (widest + 4)
        if node.repeat_while is not None:
            output.line(f"{pad}while {node.repeat_while}")
        if node.over is not None:
            output.line(f"{pad}for each of {shown_value(node.over)}")
        if node.approval is not None:
            output.line(f"{pad}only with approval of {', '.join(['the owner', *node.approval])}")
        for key, value in node.arguments.items():
            output.line(f"{pad}{key} = {shown_value(value)}")
        for key in node.missing:
            output.line(f"{pad}{key} = ? nothing provides it")
        if node.join is not None:
            output.line(f"{pad}{node.join}")
        for action, targets in node.next.items():
            target = targets[0]
            if len(targets) > 1:
                said = "then" if action == "default" else f"on {action}"
                output.line(f"{pad}{said}, at the same time: {', '.join(targets)}")
            elif action != "default":
                label = action if action.startswith(("when ", "else")) else f"on {action}"
                output.line(f"{pad}{label}: {target}")
            elif target != following.get(node.node, "").partition("/")[0] and target != following.get(
                node.node
            ):
                output.line(f"{pad}then: {target}")
    missing = [f"{key} of {node.node}" for node in planned for key in node.missing]
    output.note("nothing was called" + (f"; missing: {', '.join(missing)}" if missing else ""))
