"""`spindle auth rotate` and `spindle auth new-key`: the keys that encrypt stored secrets."""

from __future__ import annotations

import click

from spindle.cli.context import CliContext, command
from spindle.cli.output import plural


@command("new-key")
def print_key(cli: CliContext) -> None:
    """Print a new key, for SPINDLE_KEY or for the file that [auth] key_file names."""
    from spindle.auth.keys import new_key

    key = new_key()
    if cli.output.as_json:
        cli.output.json({"key": key})
    else:
        cli.output.line(key)


@command("rotate")
@click.option(
    "--drop-old",
    is_flag=True,
    help="Forget the old keys. Runs and details of calls recorded under them can no longer be read.",
)
async def rotate(cli: CliContext, drop_old: bool) -> None:
    """Create a new key and encrypt all stored tokens with it.

    Old keys are kept to read what is still encrypted with them, unless --drop-old is given. If the keys
    are in SPINDLE_KEY, first put a new one (`spindle auth new-key`) in front yourself, then run this.
    """
    async with cli.open() as app:
        keys = app.auth.keys
        done = await app.auth.rotate(drop_old=drop_old)
    if cli.output.as_json:
        cli.output.json(
            {
                "keys": keys.place,
                "sealed": done.sealed,
                "unreadable": done.unreadable,
                "old_keys": done.old_keys,
            }
        )
    else:
        what = "a new key" if keys.is_ours_to_change else "the first key"
        cli.output.line(f"{plural(done.sealed, 'secret')} encrypted with {what} of {keys.place}")
    if done.unreadable:
        cli.output.note(
            f"{plural(done.unreadable, 'secret')} could not be decrypted with any key and stayed as before"
        )
    if done.old_keys and not keys.is_ours_to_change:
        cli.output.note(
            f"{plural(done.old_keys, 'key')} after the first can now be removed from SPINDLE_KEY, if nobody"
            " needs the runs and calls recorded before"
        )
    elif done.old_keys:
        cli.output.note(
            f"{plural(done.old_keys, 'old key')} kept, for runs and calls recorded before; see --drop-old"
        )
