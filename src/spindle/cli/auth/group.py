"""`spindle auth`: logs in to sources and manages the access given."""

from __future__ import annotations

from spindle.cli.group import LazyGroup
from spindle.cli.options import shared_options

auth = LazyGroup(
    "auth",
    params=[*shared_options()],
    sections={
        "Access": {
            "login": ("auth.login", "login", "Give a source your consent, in a browser."),
            "list": ("auth.tokens", "listing", "Show who has given access to what."),
            "revoke": ("auth.tokens", "revoke", "Take access back."),
        },
        "Keys": {
            "rotate": ("auth.keys", "rotate", "Encrypt stored secrets with a new key."),
            "new-key": ("auth.keys", "print_key", "Print a key for SPINDLE_KEY or a key file."),
        },
    },
    help="Log in to sources that use OAuth, and manage tokens and keys.",
)
