"""The console as people use it: in the distribution's Chromium, with mouse and keyboard."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.transport.gateways.http.console.browser import Stage, becomes, confirm, declare, ready, row, show, told
from transport.clients.subscription_client import SubscriptionClient

if TYPE_CHECKING:
    from playwright.sync_api import Page

pytestmark = pytest.mark.timeout(180)


def test_what_happens_is_seen_on_the_page_that_is_open(page: Page, stage: Stage) -> None:
    show(page, stage)
    page.get_by_text("There are no queues yet").wait_for()
    stage.sends("orders", b"a", b"b", b"c")
    cell = row(page, "orders").locator(".ready")
    cell.get_by_text("3", exact=True).wait_for()
    stage.sends("orders", b"d")
    cell.get_by_text("4", exact=True).wait_for()
    assert row(page, "orders").locator(".pressure").inner_text() == "no receiver"
    drawn = row(page, "orders").locator(".sparkline .ready")
    becomes(page, "path => path.getAttribute('d').split('L').length > 3", arg=drawn.element_handle())


def test_the_flow_of_a_queue_names_who_holds_back_whom(page: Page, stage: Stage) -> None:
    declare(stage, "orders", max_messages=200)
    stage.keeps_sending("orders", "shop-north", 500)
    stage.keeps_sending("orders", "shop-south", 500)
    stage.keeps_receiving("orders", "billing", 10)
    show(page, stage, "queues/orders")
    sentence = page.locator(".sentence").filter(has_text="billing").filter(has_text="shop-north and shop-south wait")
    sentence.wait_for()
    flow = page.get_by_role("img", name="Flow: 2 senders")
    assert flow.get_attribute("data-kind") == "limit-reached"
    labels = flow.locator(".label").all_text_contents()
    # A text has its whole beside it, as a title: names may be cut.
    assert sorted(labels) == ["billingbilling", "shop-northshop-north", "shop-southshop-south"]
    assert flow.locator(".band").count() == 3
    assert page.get_by_role("region", name="Senders of the queue").get_by_text("waits for room").count() == 2
    page.get_by_role("button", name="Close the connection of billing").click()
    page.get_by_label("What it is told").fill("it is slow")
    page.get_by_role("dialog").get_by_role("button", name="Close it").click()
    told(page, "is closed.")


def test_a_queue_is_created_altered_purged_and_deleted(page: Page, stage: Stage) -> None:
    show(page, stage)
    page.get_by_role("button", name="Create a queue").click()
    page.get_by_label("Name", exact=True).fill("or/ders<b>")
    page.get_by_text("Settings", exact=True).click()
    page.get_by_label("max messages").fill("500")
    assert page.get_by_label("exclusive").input_value() == ""
    page.get_by_label("durable").select_option("false")
    page.get_by_role("button", name="Create", exact=True).click()
    page.get_by_role("heading", name="or/ders<b>", level=1).wait_for()
    created = stage.do(lambda: stage.broker.queues.settings_of("or/ders<b>"))
    assert (created.max_messages, created.exclusive, created.durable) == (500, False, False)

    page.get_by_role("button", name="Alter", exact=True).click()
    page.get_by_label("max messages").fill("many")
    page.get_by_role("dialog").get_by_role("button", name="Alter").click()
    page.get_by_role("alert").get_by_text("max messages is a whole number, not many").wait_for()
    page.get_by_label("max messages").fill("700")
    page.get_by_role("dialog").get_by_role("button", name="Alter").click()
    told(page, "has other settings")
    assert stage.do(lambda: stage.broker.queues.settings_of("or/ders<b>").max_messages) == 700

    stage.sends("or/ders<b>", b"a", b"b")
    page.get_by_role("button", name="Purge").click()
    confirm(page, "or/ders<b>", "Purge")
    told(page, "2 messages were dropped")
    assert ready(stage, "or/ders<b>") == 0

    page.get_by_role("button", name="Delete").click()
    confirm(page, "or/ders<b>", "Delete")
    page.get_by_text("There are no queues yet").wait_for()
    assert stage.do(lambda: list(stage.broker.queues)) == []


def test_messages_are_looked_at_as_what_they_are_and_moved(page: Page, stage: Stage) -> None:
    stage.sends("orders", b"<img src=x onerror=alert(1)>", bytes(range(16)), "caf\u00e9".encode(), b"")
    show(page, stage, "queues/orders/messages")
    items = page.locator(".messages li")
    items.nth(3).wait_for()
    shown = page.locator(".messages pre").all_inner_texts()
    assert shown[0] == "<img src=x onerror=alert(1)>"
    assert shown[1].startswith("000000  00 01 02 03")
    assert shown[2:] == ["caf\u00e9", "(empty)"]
    assert page.locator("main img").count() == 0
    page.get_by_role("button", name="Hex of message 0").click()
    assert "3c 69 6d 67" in page.locator(".messages pre").first.inner_text()
    page.get_by_label("From number").fill("2")
    page.get_by_role("button", name="Look", exact=True).click()
    items.nth(1).wait_for()
    becomes(page, "() => document.querySelectorAll('.messages li').length === 2")

    page.get_by_role("button", name="Move").click()
    page.get_by_role("dialog").get_by_label("To the queue").fill("others")
    page.get_by_label("Make the queue where there is none").check()
    confirm(page, "orders", "Move")
    told(page, "4 messages are in others now")
    assert (ready(stage, "orders"), ready(stage, "others")) == (0, 4)


def test_what_is_published_is_seen_without_being_taken(page: Page, stage: Stage) -> None:
    declare(stage, "orders")
    show(page, stage, "queues/orders/watch")
    assert page.get_by_label("Look without taking").is_checked()
    page.get_by_label("Payload", exact=True).fill("tea")
    page.get_by_text("Key, headers, delay").click()
    page.get_by_label("Headers").fill("table 7")
    page.get_by_role("button", name="Publish", exact=True).click()
    told(page, "has no colon")
    page.get_by_label("Headers").fill("table: 7")
    page.get_by_role("button", name="Publish", exact=True).click()
    page.get_by_text("Stored as number 0.").wait_for()
    page.locator(".messages li").first.wait_for()
    assert page.locator(".messages pre").inner_text() == "tea"
    assert page.locator(".headers").inner_text() == "table: 7"
    stage.sends("orders", b"coffee")
    page.locator(".messages pre").get_by_text("coffee").wait_for()
    assert ready(stage, "orders") == 2
    assert stage.do(lambda: stage.broker.queues.read("orders").total_out) == 0


def test_a_page_that_takes_holds_what_it_asks_for_and_gives_it_back(page: Page, stage: Stage) -> None:
    stage.sends("orders", *[b"message %d" % each for each in range(8)])
    show(page, stage, "queues/orders/watch")
    page.get_by_label("Take as a receiver").check()
    page.get_by_label("Credit").fill("3")
    page.get_by_role("button", name="Take", exact=True).click()
    page.get_by_text("3 came, 3 held, 0 still wanted").wait_for()
    assert ready(stage, "orders") == 5
    page.get_by_role("button", name="Acknowledge message 1").click()
    page.get_by_role("button", name="Give back message 2").click()
    page.get_by_text("1 held").wait_for()
    page.get_by_role("button", name="Ask for as many more").click()
    page.get_by_text("4 held, 0 still wanted").wait_for()
    page.get_by_role("button", name="Stop and give back").click()
    page.get_by_text("Stopped. What was held has gone back.").wait_for()
    page.wait_for_selector(".messages:empty", state="attached")
    row_of = stage.do(lambda: stage.broker.queues.read("orders"))
    assert row_of is not None
    assert (row_of.ready, row_of.in_flight, row_of.total_acknowledged) == (7, 0, 1)


def test_a_page_that_is_left_gives_back_what_it_holds(page: Page, stage: Stage) -> None:
    stage.sends("orders", b"a", b"b")
    show(page, stage, "queues/orders/watch")
    page.get_by_label("Take as a receiver").check()
    page.get_by_role("button", name="Take", exact=True).click()
    page.get_by_text("2 came, 2 held, 8 still wanted").wait_for()
    page.get_by_role("link", name="Flow", exact=True).click()
    page.locator(".big").get_by_text("2 ready").wait_for()


def test_connections_are_listed_and_closed(page: Page, stage: Stage) -> None:
    show(page, stage, "connections")
    stage.keeps_receiving("orders", "billing", 10)
    line = page.get_by_role("row").filter(has_text="billing")
    line.wait_for()
    number = line.locator("td").first.inner_text()
    page.get_by_role("button", name=f"Close connection {number}", exact=True).click()
    page.get_by_role("dialog").get_by_role("button", name="Close it").click()
    told(page, f"Connection {number} is closed.")
    assert int(number) not in stage.do(lambda: set(stage.broker.connections))


def test_subscriptions_are_released_and_deleted(page: Page, stage: Stage) -> None:
    stage.sends("orders", b"a", b"b", b"c")
    with SubscriptionClient(stage.broker.receive_address, queue="orders", subscription="query-1", mode="own") as query:
        query.reserve(0, 10, 2**20)
    show(page, stage, "subscriptions")
    page.get_by_role("row").filter(has_text="query-1").wait_for()
    assert ready(stage, "orders") == 0
    page.get_by_role("button", name="Release query-1").click()
    confirm(page, "query-1", "Release")
    told(page, "3 messages can be received again")
    assert ready(stage, "orders") == 3
    page.get_by_role("button", name="Delete query-1").click()
    confirm(page, "query-1", "Delete")
    page.get_by_text("There are no subscriptions").wait_for()


def test_a_refusal_is_shown_and_nothing_is_lost_by_it(page: Page, stage: Stage) -> None:
    declare(stage, "orders")
    show(page, stage)
    page.get_by_role("button", name="Create a queue").click()
    page.get_by_label("Name", exact=True).fill("x" * 300)
    page.get_by_role("button", name="Create", exact=True).click()
    page.get_by_role("dialog").get_by_role("alert").get_by_text("300").wait_for()
    page.keyboard.press("Escape")
    page.get_by_role("dialog").wait_for(state="detached")
    page.goto(f"{stage.url}/#/queues/nothing-there")
    page.get_by_text("There is no such queue").wait_for()
    assert stage.do(lambda: list(stage.broker.queues)) == ["orders"]


def test_a_page_comes_back_when_its_broker_does(page: Page) -> None:
    own = Stage()
    try:
        own.sends("orders", b"a")
        show(page, own, "queues/orders")
        own.stop()
        page.wait_for_selector("#state[data-state=lost]")
        assert "Reconnecting" in page.locator("#state-text").inner_text()
        own.start()
        own.sends("orders", b"b", b"c")
        page.wait_for_selector("#state[data-state=live]")
        page.locator(".big").get_by_text("2 ready").wait_for()
    finally:
        own.close()


def test_everything_can_be_done_by_keyboard_alone(page: Page, stage: Stage) -> None:
    declare(stage, "orders")
    show(page, stage)
    row(page, "orders").wait_for()

    def tab_to(text: str) -> None:
        for _ in range(60):
            page.keyboard.press("Tab")
            focused = page.evaluate(
                "document.activeElement.getAttribute('aria-label') ?? document.activeElement.textContent"
            )
            if focused == text:
                outline = page.evaluate("getComputedStyle(document.activeElement).outlineStyle")
                assert outline != "none", f"nobody sees that {text} has the focus"
                return
        pytest.fail(f"{text} is not reached by the key Tab")

    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.className") == "skip"
    page.keyboard.press("Enter")
    assert page.evaluate("document.activeElement.id") == "main"
    tab_to("orders")
    page.keyboard.press("Enter")
    page.get_by_role("heading", name="orders", level=1).wait_for()
    becomes(page, "() => document.activeElement.id === 'title'")
    tab_to("Publish and watch")
    page.keyboard.press("Enter")
    becomes(page, "() => document.querySelector('#publish') && document.activeElement.id === 'title'")
    page.keyboard.press("Tab")
    while page.evaluate("document.activeElement.tagName") != "TEXTAREA":
        page.keyboard.press("Tab")
    page.keyboard.type("by keyboard")
    tab_to("Publish")
    page.keyboard.press("Enter")
    page.get_by_text("Stored as number 0.").wait_for()
    page.keyboard.press("Shift+Tab")
    for _ in range(20):
        if page.evaluate("document.activeElement.textContent") == "Purge":
            break
        page.keyboard.press("Shift+Tab")
    page.keyboard.press("Enter")
    page.get_by_role("dialog").wait_for()
    page.keyboard.type("orders")
    page.keyboard.press("Enter")
    page.get_by_role("dialog").wait_for(state="detached")
    assert page.evaluate("document.activeElement.textContent") == "Purge", "the focus comes back to where it was"
    assert ready(stage, "orders") == 0
