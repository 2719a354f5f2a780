"""The line beside a queue: it has the last two minutes, and a gap where nobody looked."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import pytest

from tests.transport.gateways.http.console.browser import Stage, row, show

if TYPE_CHECKING:
    from playwright.sync_api import Page

pytestmark = pytest.mark.timeout(180)
KEPT: Final = 120
DRAW: Final = """async ({pushed, at, broker}) => {
    const { Histories, sparkline } = await import("/console/sparkline.js");
    const histories = new Histories();
    for (const second of pushed)
        histories.push([{name: "orders", ready: second, came: 1, went: 1}], second * 1000);
    if (broker) histories.begin({orders: broker.map((ready) => [ready, 0, 0])}, at * 1000);
    else histories.push([{name: "orders", ready: at, came: 1, went: 1}], at * 1000);
    const line = sparkline(119, 30);
    const points = histories.of("orders");
    line.draw(points);
    const d = line.querySelector(".came").getAttribute("d");
    return {
        points: points.map((each) => [each.ready, each.ago]),
        places: d.split(/[ML]/).slice(1).map((each) => Number(each.split(" ")[0])),
        pieces: d.split("M").length - 1,
    };
}"""


def drawn(page: Page, pushed: range, at: float, broker: list[int] | None = None) -> Any:
    return page.evaluate(DRAW, {"pushed": list(pushed), "at": at, "broker": broker})


def test_points_of_ten_minutes_ago_are_none_of_the_last_two(page: Page, stage: Stage) -> None:
    show(page, stage)
    assert drawn(page, range(KEPT), 720)["points"] == [[720, 0]]
    assert drawn(page, range(KEPT), 720, [7])["points"] == [[7, 0]]
    assert drawn(page, range(KEPT), 720, [])["points"] == []


def test_where_nobody_looked_there_is_a_gap_as_wide_as_the_time(page: Page, stage: Stage) -> None:
    show(page, stage)
    found = drawn(page, range(60), 100)
    assert found["pieces"] == 2
    # A pixel is a second here: the last of the old points was 41 seconds before this one.
    assert found["places"][-2:] == [119 - 41, 119]
    assert drawn(page, range(60), 61)["pieces"] == 1, "a second more or less is no gap"


def test_what_the_broker_has_kept_counts_for_the_time_that_it_covers(page: Page, stage: Stage) -> None:
    show(page, stage)
    found = drawn(page, range(10), 20, [500, 501, 502])
    assert found["points"] == [[second, 20 - second] for second in range(10)] + [[500, 2], [501, 1], [502, 0]]
    assert [point[0] for point in drawn(page, range(10), 9, [500, 501])["points"]][-3:] == [7, 500, 501]


def test_a_clock_that_was_set_back_leaves_no_points_of_what_is_to_come(page: Page, stage: Stage) -> None:
    show(page, stage)
    assert drawn(page, range(1000, 1010), 5)["points"] == [[5, 0]]


def test_a_queue_that_is_always_seen_keeps_its_line_when_others_come_and_go(page: Page, stage: Stage) -> None:
    show(page, stage)
    kept = page.evaluate(
        """async () => {
            const { Histories } = await import("/console/sparkline.js");
            const histories = new Histories();
            const row = (name) => ({name, ready: 1, came: 0, went: 0});
            for (let second = 0; second < 600; second += 1) histories.push([row("top"), row(`other-${second}`)], second * 1000);
            return [histories.of("top").length, histories.of("other-0").length, histories.of("other-599").length];
        }"""
    )
    assert kept == [KEPT, 0, 1]


def test_ten_minutes_on_another_page_are_not_squeezed_out(page: Page, stage: Stage) -> None:
    page.clock.install()
    stage.sends("orders", b"a")
    show(page, stage)
    line = row(page, "orders").locator(".sparkline .ready")
    line.wait_for(state="attached")
    page.clock.run_for(35_000)
    points = "path => path.getAttribute('d').split('L').length"
    assert line.evaluate(points) > 30
    page.get_by_role("link", name="Connections", exact=True).click()
    page.get_by_role("heading", name="Connections").wait_for()
    page.clock.fast_forward(600_000)
    page.get_by_role("link", name="Queues", exact=True).click()
    line.wait_for(state="attached")
    # The broker has some of them, one for each second that this has taken.
    assert line.evaluate(points) < 30
