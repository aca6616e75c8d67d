"""`spindle auth`: logging in to sources, and looking after what that leaves behind."""

from __future__ import annotations

from spindle.cli.group import LazyGroup
from spindle.cli.options import shared_options

auth = LazyGroup(
    "auth",
    params=[*shared_options()],
    sections={
        "Access": {
            "login": ("auth_login", "login", "Give a source your consent, in a browser."),
            "list": ("auth_tokens", "listing", "Show who has given access to what."),
            "revoke": ("auth_tokens", "revoke", "Take access back."),
        },
        "Keys": {
            "rotate": ("auth_keys", "rotate", "Seal what is stored with a new key."),
            "new-key": ("auth_keys", "print_key", "Print a key for SPINDLE_KEY or a key file."),
        },
    },
    help="Log in to sources that want OAuth, and look after tokens and keys.",
)
