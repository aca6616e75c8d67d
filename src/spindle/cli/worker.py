"""`spindle worker`: executes runs that were submitted."""

from __future__ import annotations

import click

from spindle.cli.context import CliContext, command
from spindle.domain.run import DEFAULT_QUEUE


@command("worker")
@click.option("--queue", "queues", metavar="NAME", multiple=True, help="A queue to take runs of. Repeatable.")
@click.option(
    "--concurrency",
    metavar="COUNT",
    type=click.IntRange(min=1),
    help="Runs of each queue at once, if fewer than its settings say.",
)
@click.option("--until-empty", is_flag=True, help="End when no run waits in its queues any more.")
async def worker(cli: CliContext, queues: tuple[str, ...], concurrency: int | None, until_empty: bool) -> int:
    """Execute submitted runs until stopped.

    Start as many as there is work for, on any machine that reaches the store. Without --queue it takes
    runs of all queues in the settings. When it is stopped, steps in flight end and other workers go on with
    its runs; when it dies, they do so within seconds.
    """
    import asyncio

    from spindle.serving.exposed_to_runs import ExposedToRuns
    from spindle.serving.working import work

    exposed = ExposedToRuns(lambda: cli.settings().serve(), cli.output.note)
    async with cli.open(visible=exposed.shows, for_others=True) as app, exposed.following(app.store):
        engine = app.runner.submissions.engine
        engine.queue(queues[0] if queues else DEFAULT_QUEUE)  # raises if there are no queues
        chosen = queues or tuple(engine.queues)
        said = f"worker {app.runner.owner[:12]} takes runs of {', '.join(chosen)}; Ctrl-C stops it"
        note = cli.output.note
        try:
            await work(app, chosen, concurrency, note, until_empty=until_empty, on_ready=lambda: note(said))
        except asyncio.CancelledError:
            task = asyncio.current_task()
            assert task is not None
            task.uncancel()
    return 0
