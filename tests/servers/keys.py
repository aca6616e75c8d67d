"""A page that is used with keys alone: nothing is clicked, and nothing gets the focus but by a key."""

from __future__ import annotations

from typing import TYPE_CHECKING

from servers.browser import PATIENCE

if TYPE_CHECKING:
    from playwright.async_api import Locator, Page

MOST = 200
"""Presses of a key until what is looked for must have the focus."""


async def press_until(page: Page, target: Locator, key: str = "Tab") -> None:
    """Presses a key until an element has the focus, as a person does who looks for it."""
    await target.wait_for(timeout=PATIENCE)
    for _ in range(MOST):
        if await target.evaluate("element => element === document.activeElement"):
            return
        await page.keyboard.press(key)
    raise AssertionError(f"{key} never leads to {target}")


async def go_to(page: Page, place: str) -> None:
    """Opens a page by its entry in the navigation."""
    await press_until(page, page.get_by_role("navigation", name="Pages").get_by_role("link", name=place))
    await page.keyboard.press("Enter")
    await page.wait_for_url(f"**/console/{place.lower()}")
