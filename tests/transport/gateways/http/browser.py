"""What tests in a browser share: Chromium without a window, driven by Playwright; skipped by name where there is none.

Playwright's own browsers are not used: the distribution's is. Its other processes are ended with it, and its profile is a folder that goes.
"""

from __future__ import annotations

import shutil
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from importlib.util import find_spec
from typing import TYPE_CHECKING, Final

import pytest

if TYPE_CHECKING:
    from playwright.async_api import Browser

NAMES: Final = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
ARGUMENTS: Final = (
    "--headless=new",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
)
START_MS: Final = 60_000
"""For a machine that does much else."""


def executable() -> str:
    """Where Chromium is; the test is skipped where it is not."""
    if find_spec("playwright") is None:
        pytest.skip("Playwright is not installed")
    for name in NAMES:
        if found := shutil.which(name):
            return found
    pytest.skip("there is no Chromium on this machine (Debian's package is called chromium)")


@asynccontextmanager
async def chromium(*arguments: str) -> AsyncIterator[Browser]:
    """A browser of the test's own, with more arguments."""
    path = executable()
    from playwright.async_api import async_playwright

    async with async_playwright() as playwright:
        browser = await playwright.chromium.launch(
            executable_path=path, args=[*ARGUMENTS, *arguments], headless=True, timeout=START_MS
        )
        try:
            yield browser
        finally:
            await browser.close()
