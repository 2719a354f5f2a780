"""A browser, a broker that it looks at, and a page that has no reason to complain."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

import pytest

from tests.transport.gateways.http.console.browser import ARGUMENTS, SOON_MS, Stage, Watched

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

CHROMIUM: Final = shutil.which("chromium")


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    """The distribution's; whoever asks for it is skipped where there is none."""
    playwright = pytest.importorskip("playwright.sync_api", reason="Playwright is not installed")
    if CHROMIUM is None:
        pytest.skip("needs Chromium: there is none on this machine")
    with playwright.sync_playwright() as started:
        chromium = started.chromium.launch(executable_path=CHROMIUM, args=ARGUMENTS)
        yield chromium
        chromium.close()


@pytest.fixture(scope="module")
def shared() -> Iterator[Stage]:
    """One broker for all tests that need none of their own."""
    stage = Stage()
    yield stage
    stage.close()


@pytest.fixture
def stage(shared: Stage) -> Iterator[Stage]:
    yield shared
    shared.end_clients()
    shared.do(lambda: [shared.broker.queues.delete(name) for name in list(shared.broker.queues)])


@pytest.fixture
def page(browser: Browser) -> Iterator[Page]:
    """A page that has no reason to complain, of the policy or of anything else."""
    opened = browser.new_page(viewport={"width": 1440, "height": 900}, reduced_motion="reduce")
    opened.set_default_timeout(SOON_MS)
    watched = Watched(opened)
    yield opened
    opened.context.close()
    assert watched.said == []
