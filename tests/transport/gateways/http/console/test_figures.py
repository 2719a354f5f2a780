"""The console writes numbers, sizes, rates and times as the command line does: both over the same values."""

from __future__ import annotations

import json
import random
from typing import TYPE_CHECKING, Final

import pytest

from tests.transport.gateways.http.console.browser import Stage, show
from transport.cli import _written

if TYPE_CHECKING:
    from playwright.sync_api import Page, Route

pytestmark = pytest.mark.timeout(180)
SEED: Final = 20_260_115
SPREAD: Final = 2_000
"""Values of each kind that are drawn, evenly over their orders of magnitude."""
SECONDS: Final = [
    0, 0.0004, 0.00005, 0.25, 0.00025, 0.35, 0.9994, 0.9995, 0.9996, 1.25, 1.5, 9.94, 9.95, 9.99, 10.5, 11.5, 59.4, 59.5, 59.7, 60, 125,
    3599.5, 3599.7, 7199, 7_500, 86_399.5, 90_000, 2.5 * 86_400, 86_400 * 12_345, -5, -0.25,
]  # fmt: skip
SIZES: Final = [
    0, 1, 512, 1023, 1024, 1075, 1076, 1280, 1536, 64 * 1024, 2**20 - 1, 2**20 - 53, 2**20 - 52, 2**20, 100 * 2**20, 2**30 - 1, 2**40,
    3 * 2**50,
]  # fmt: skip
RATES: Final = [
    0,
    0.001,
    0.0049,
    0.005,
    0.02,
    0.04,
    0.0951,
    0.1,
    0.25,
    0.35,
    2.54,
    9.94,
    9.96,
    10.5,
    11.5,
    12345.6,
    1e9,
]
COUNTS: Final = [0, 7, 999, 1000, 12_345, 999_949, 999_999, 1_000_000, 999_999_999, 10**12, 2**53 - 1]


@pytest.mark.parametrize("kind", ["duration", "size", "rate", "count"])
def test_a_figure_reads_on_the_page_as_on_the_command_line(page: Page, stage: Stage, kind: str) -> None:
    drawn = random.Random(SEED)
    values: list[float] = {"duration": SECONDS, "size": SIZES, "rate": RATES, "count": COUNTS}[kind][:]
    values += [
        round(power) if kind in ("size", "count") else power
        for power in (10 ** drawn.uniform(0 if kind in ("size", "count") else -5, 14) for _ in range(SPREAD))
    ]
    # What lies halfway between two is where ways of rounding part.
    values += [number + part for number in range(14) for part in ((0,) if kind == "count" else (0.25, 0.5, 0.75))]
    show(page, stage)
    found = page.evaluate(
        """async ([kind, values]) => {
            const format = await import("/console/format.js");
            return values.map(format[kind]);
        }""",
        ["bytes" if kind == "size" else kind, values],
    )
    written = [getattr(_written, kind)(value) for value in values]
    assert [pair for pair in zip(values, found, written, strict=True) if pair[1] != pair[2]] == []


def test_a_number_can_be_typed_as_it_is_shown(page: Page, stage: Stage) -> None:
    stage.sends("orders", *[b"message %d" % each for each in range(1_003)])
    show(page, stage, "queues/orders/messages")
    page.get_by_role("button", name="The newest").click()
    page.get_by_text("No. 1,002", exact=True).wait_for()
    page.get_by_label("From number").fill("1,001")
    page.get_by_role("button", name="Look", exact=True).click()
    page.get_by_text("2 messages, number 1,001 to 1,002").wait_for()

    page.get_by_role("button", name="Move").click()
    dialog = page.get_by_role("dialog")
    dialog.get_by_label("To the queue").fill("others")
    dialog.get_by_label("Make the queue where there is none").check()
    dialog.get_by_label("How many at most").fill("1,002")
    dialog.get_by_label("Type the name").fill("orders")
    dialog.get_by_role("button", name="Move", exact=True).click()
    page.locator("#said").get_by_text("1,002 messages are in others now.").wait_for()


@pytest.mark.parametrize("total", [9_999_999, 999_999_999])
def test_large_totals_lie_beside_one_another(page: Page, stage: Stage, total: int) -> None:
    def answer(route: Route) -> None:
        names = ("came", "went", "ready", "held", "stored_bytes", "queues", "connections")
        now = {"totals": dict.fromkeys(names, total), "matching": 0, "queues": [], "flow": None, "journal": None}
        route.fulfill(body=f"event: picture\ndata: {json.dumps(now)}\n\n", content_type="text/event-stream")

    page.set_viewport_size({"width": 390, "height": 844})
    page.route("**/api/v1/events?*", answer)
    page.goto(stage.url)
    page.locator(".strip dd").get_by_text(f"{total:,}").nth(5).wait_for()
    over = page.evaluate(
        """() => [...document.querySelectorAll(".strip dd")].map((each) => [each.scrollWidth, each.clientWidth])
            .filter(([text, room]) => text > room)"""
    )
    assert over == []
