"""The browser of the person at the terminal."""

from __future__ import annotations

import os
import sys


def open_browser(url: str) -> None:
    """Opens the link in a window, if there are windows: a browser in the terminal would take it over."""
    if sys.platform == "linux" and not any(
        os.environ.get(name) for name in ("DISPLAY", "WAYLAND_DISPLAY", "BROWSER")
    ):
        return
    import threading
    import webbrowser

    # Some browsers do not return until they are closed.
    threading.Thread(target=webbrowser.open, args=(url,), name="browser", daemon=True).start()
