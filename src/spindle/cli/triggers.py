"""`spindle triggers`: what starts flows, and how each of them stands."""

from __future__ import annotations

from spindle.cli.context import CliContext, command


@command("triggers")
async def triggers(cli: CliContext) -> None:
    """List the triggers of spindle.toml: what they wait for, what they last started, and what is wrong.

    `spindle worker` listens for channels, folders and resources, `spindle serve` for webhooks.
    """
    from spindle.cli.schedule import moment
    from spindle.domain.trigger_state import TriggerState
    from spindle.serving.triggers import is_heard, triggers_of

    async with cli.open() as app:
        configs = triggers_of(app)
        states = await app.store.triggers()
        heard = {name for name in configs if await is_heard(app, name)}
    found = [(name, config, states.get(name, TriggerState(name))) for name, config in configs.items()]
    if cli.output.as_json:
        cli.output.json(
            [
                {
                    "name": name,
                    "kind": config.kind,
                    "flow": config.flow,
                    "queue": config.queue,
                    "listening": name in heard,
                    **state.to_dict(),
                }
                for name, config, state in found
            ]
        )
    elif not found:
        cli.output.note("there are no triggers: write a table [triggers.NAME] into spindle.toml")
    else:
        rows = [
            (name, config.what, config.flow, _how(config.kind, name in heard), str(state.runs),
             moment(state.last_at), str((state.error or {}).get("message", "")))
            for name, config, state in found
        ]  # fmt: skip
        headings = ("NAME", "WHAT", "FLOW", "STATE", "RUNS", "LAST", "ERROR")
        cli.output.table(headings, rows, drop=("FLOW", "LAST", "RUNS"))


def _how(kind: str, heard: bool) -> str:
    if kind == "webhook":
        return "at `spindle serve`"
    return "listening" if heard else "no worker listens"
