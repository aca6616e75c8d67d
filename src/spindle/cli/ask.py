"""`spindle ask WORDS`: finds or writes a flow that does what the words say, shows it, runs it if accepted,
and saves it."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from spindle.cli.context import CliContext, command
from spindle.cli.stdin import read_stdin

if TYPE_CHECKING:
    from spindle.app import Spindle
    from spindle.domain.call import Result
    from spindle.domain.json_schema import JsonObject
    from spindle.drafting.draft import Draft
    from spindle.flows.definition import FlowDefinition


@command("ask")
@click.argument("words", nargs=-1, required=True, metavar="WORDS…|-")
@click.option("-m", "--model", metavar="PROVIDER:NAME", help="The language model.")
@click.option("-i", "--input", "inputs", metavar="NAME=VALUE", multiple=True, help="An input of the flow.")
@click.option("--new", is_flag=True, help="Write a new flow, even if a saved one fits.")
@click.option("-y", "--yes", is_flag=True, help="Run it without asking; approve what needs approval.")
@click.option("--save", "name", metavar="NAME", help="Save the flow under this name, in flows/.")
@click.option("--force", is_flag=True, help="Let --save overwrite an existing flow.")
@click.option(
    "--draw", metavar="FILE", type=click.Path(dir_okay=False, path_type=Path),
    help="Draw it: SVG into a file ending in .svg, else Mermaid.",
)  # fmt: skip
@click.option("-q", "--quiet", is_flag=True, help="Show neither the flow nor the nodes as they run.")
def ask(cli: CliContext, words: tuple[str, ...], **options: Any) -> int:
    """Find or write a flow that does what your words say, and run it.

    A saved flow that fits the words is used if there is one. Otherwise a language model drafts one with the
    tools that the catalog's search finds, and corrects what `spindle check` complains about. The flow is
    shown, and run when you accept it. Without a terminal it is only shown, unless --yes is given. Keys of
    providers are read from the environment. Settings are in [agent].
    """
    text = (cli.run(read_stdin(None)) or "") if words == ("-",) else " ".join(words)
    return cli.run(_ask(cli, text.strip(), options))


async def _ask(cli: CliContext, words: str, options: dict[str, Any]) -> int:
    from spindle.cli.flow.save import check_name

    async with cli.open() as app:
        if options["name"] is not None:
            await check_name(app, options["name"], force=options["force"])  # before paying for a model
        return await _Asking(cli, app, options).about(words)


class _Asking:
    def __init__(self, cli: CliContext, app: Spindle, options: dict[str, Any]) -> None:
        self._cli = cli
        self._app = app
        self._options = options
        self._saved_as: str | None = None

    async def about(self, words: str) -> int:
        is_new: bool = self._options["new"]
        while True:
            draft = await self._draft(words, is_new=is_new)
            self._draw(draft)
            if not self._options["yes"] and not self._cli.can_ask:
                return await self._only_show(draft)
            if not self._options["quiet"] or not self._options["yes"]:
                await self._show(draft, on_stderr=True)
            if self._options["yes"]:
                _refuse_doubts(draft)
            match "y" if self._options["yes"] else await self._choice(draft):
                case "y":
                    return await self._accept(draft)
                case "d":
                    is_new = True
                case "e":
                    words = await self._cli.ask("words: ") or ""
                    if not words:
                        self._cli.output.note("nothing was run")
                        return 0
                case _:
                    self._cli.output.note("nothing was run")
                    return 0

    async def _draft(self, words: str, *, is_new: bool) -> Draft:
        from spindle.cli.auth.here import or_log_in

        drafting = self._app.drafting(model=self._options["model"])
        self._cli.output.status("looking for a flow, or asking the model for one …")
        draft = await or_log_in(self._cli, self._app, lambda: drafting.draft(words, reuse=not is_new))
        return await drafting.fill(draft, _given(self._options["inputs"], draft))

    # --- shown

    def _draw(self, draft: Draft) -> None:
        from spindle.flows.draw.pictures import mermaid, svg

        file: Path | None = self._options["draw"]
        if file is not None:
            picture = svg(draft.definition) if file.suffix.lower() == ".svg" else mermaid(draft.definition)
            file.write_text(picture, "utf-8")
            self._cli.output.note(f"drawn into {file}")

    async def _show(self, draft: Draft, *, on_stderr: bool) -> None:
        import json

        from spindle.cli.flow.show import print_flow
        from spindle.cli.output import Output

        output = self._cli.output
        if draft.from_saved is not None:
            fits = "fits in part" if draft.doubts else "fits"
            output.note(f"the saved flow {draft.definition.name} {fits}; --new writes another")
            if draft.doubts:
                output.note(f"it is not known what becomes of {_quoted(draft.doubts)}")
        else:
            output.note("the model wrote this flow")
        print_flow(
            Output(sys.stderr, sys.stderr, output.environ) if on_stderr else output,
            draft.definition,
            draft.from_saved or "",
        )
        for name, value in draft.inputs.items():
            output.aside(f"with {name} = {json.dumps(value, ensure_ascii=False)}")
        for problem in draft.problems:
            output.aside(f"{problem.severity}: {problem.message}")
        for tool in dict.fromkeys(_tools(draft.definition)):
            shown = await self._app.show(tool)
            if self._app.catalog.sources.config(shown.source).may_destroy(shown.hints):
                output.note(f"{tool} may destroy something")

    async def _only_show(self, draft: Draft) -> int:
        """Shows the flow without running it, since nobody is there to accept it; saves it if asked to."""
        from spindle.cli.errors import PAUSED

        await self._save_if_named(draft)
        output, name = self._cli.output, self._saved_as
        if output.as_json:
            output.json(self._as_json(draft))
        else:
            await self._show(draft, on_stderr=False)
        if draft.from_saved is not None:
            name = draft.definition.name
        flags = "".join(f" --{key}=…" for key in draft.missing)
        if name is not None:
            output.aside(f"  to run it: spindle run {name}{flags}")
        else:
            output.aside(
                "spindle: nothing was run\n  to continue: repeat the command with --yes, or with --save NAME"
            )
        return 0 if self._saved_as is not None else PAUSED

    def _as_json(self, draft: Draft, run_id: str | None = None, result: Result | None = None) -> JsonObject:
        from spindle.flows.draw.pictures import mermaid

        return {
            **draft.to_dict(),
            "picture": mermaid(draft.definition),
            "saved_as": self._saved_as,
            "run_id": run_id,
            "result": result.to_dict() if result is not None else None,
        }

    # --- accepted

    async def _choice(self, draft: Draft) -> str:
        choices = {"y": "[y]es", "n": "[n]o", "e": "[e]dit the words"}
        if draft.from_saved is not None:
            choices["d"] = "[d]raft a new one"
        while True:
            said = await self._cli.ask(f"run it? {', '.join(choices.values())}: ")
            if said is None:
                return "n"
            if said[:1].lower() in choices:
                return said[:1].lower()

    async def _accept(self, draft: Draft) -> int:
        draft = await self._with_missing(draft)
        await self._save_if_named(draft)
        code = await self._run(draft)
        if code == 0 and self._cli.can_ask and draft.from_saved is None and self._saved_as is None:
            await self._offer_to_save(draft)
        return code

    async def _with_missing(self, draft: Draft) -> Draft:
        from spindle.calls.flags import value_of
        from spindle.errors import InvalidArgumentsError

        name = draft.definition.name or "the flow"
        for key in draft.missing:
            schema = draft.definition.inputs[key]
            about = f" ({schema['description']})" if schema.get("description") else ""
            while key not in draft.inputs:
                said = await self._cli.ask(f"{key}{about}: ") if self._cli.can_ask else None
                if not said:
                    raise InvalidArgumentsError(
                        f"{name} needs the input {key!r}", hint=f"give --input {key}=VALUE"
                    )
                try:
                    draft = replace(draft, inputs={**draft.inputs, key: value_of(said, schema, key)})
                except InvalidArgumentsError as error:
                    self._cli.output.aside(error.message)
        return draft

    async def _run(self, draft: Draft) -> int:
        from spindle.cli.node_progress import NodeProgress
        from spindle.cli.outcome import conclude
        from spindle.domain.call import new_id

        flow = draft.definition
        self._cli.run_id = run_id = new_id()
        width = max(len(node.id) for node in flow.nodes)
        progress = NodeProgress(self._cli.output, width, quiet=self._options["quiet"])
        async with progress.shown():
            outcome = await self._app.flows.run(flow, draft.inputs, observe=progress.observe, id=run_id)

        async def show(run_id: str, result: Result) -> None:
            from spindle.cli.flow.results import print_flow_result

            if self._cli.output.as_json:
                self._cli.output.json(self._as_json(draft, run_id, result))
            else:
                print_flow_result(self._cli, run_id, result)

        return await conclude(
            self._cli, self._app, outcome, approve=self._options["yes"], show=show, progress=progress
        )

    # --- saved

    async def _save_if_named(self, draft: Draft) -> None:
        if self._options["name"] is not None:
            await self._save(draft, self._options["name"])

    async def _save(self, draft: Draft, name: str) -> None:
        from spindle.cli.flow.save import save_flow
        from spindle.drafting.finding import saved_for

        flow = saved_for(draft.words, replace(draft.definition, name=name))
        place = await save_flow(self._app, flow)
        self._saved_as = name
        self._cli.output.note(f"saved {name} in {place}")

    async def _offer_to_save(self, draft: Draft) -> None:
        from spindle.cli.flow.save import check_name
        from spindle.errors import SpindleError

        while name := await self._cli.ask("save it as (Enter to skip): "):
            try:
                await check_name(self._app, name, force=False)
            except SpindleError as error:
                self._cli.output.aside(error.message)
                continue
            await self._save(draft, name)
            return


def _quoted(parts: tuple[str, ...]) -> str:
    return ", ".join(repr(part) for part in parts)


def _refuse_doubts(draft: Draft) -> None:
    """Raises FlowError if nobody would see that a saved flow may do something else than the words say."""
    from spindle.errors import FlowError

    if not draft.doubts:
        return
    name = draft.definition.name
    flags = "".join(f" --{key}=…" for key in draft.definition.inputs)
    raise FlowError(
        f"the saved flow {name} fits in part: it is not known what becomes of {_quoted(draft.doubts)}",
        hint=f"`spindle run {name}{flags}` runs it with the values that you mean; --new writes another",
    )


def _given(texts: tuple[str, ...], draft: Draft) -> JsonObject:
    """The values of `--input NAME=VALUE`, typed as the flow declares them."""
    from collections import deque

    from spindle.calls.flags import Flags
    from spindle.cli.errors import UsageMistakeError
    from spindle.errors import InvalidArgumentsError, did_you_mean
    from spindle.flows.signature import input_schema

    flow = draft.definition
    flags = Flags(flow.name or "the flow", input_schema(dict(flow.inputs)))
    for text in texts:
        name, equals, _ = text.partition("=")
        if not equals:
            raise UsageMistakeError(f"--input {text}: a value is missing", f"--input {name}=VALUE")
        if flags.find(name) is None:
            listed = ", ".join(flow.inputs) or "nothing"
            hint = did_you_mean(name, flow.inputs, f"it takes {listed}")
            raise InvalidArgumentsError(f"{flow.name or 'the flow'} has no input {name!r}", hint=hint)
        flags.take(text, deque())
    return flags.arguments()


def _tools(flow: FlowDefinition) -> Iterator[str]:
    for node in flow.nodes:
        if node.tool is not None:
            yield node.tool
        if node.flow is not None:
            yield from _tools(node.flow)
