"""The page as a receiver: it shows all that it holds, and says what has become of it."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Final

import pytest

from tests.transport.gateways.http.console.browser import Stage, becomes, declare, held, ready, show, told

if TYPE_CHECKING:
    from playwright.sync_api import Page

pytestmark = pytest.mark.timeout(180)
MOST_LISTED: Final = 200
SHOWN: Final = 8192
FOCUSED: Final = "document.activeElement.getAttribute('aria-label') ?? document.activeElement.textContent"
SEND: Final = """async (size) => {
    const { openSender } = await import("/console/native.js");
    const sender = await openSender({ queue: "orders" });
    await sender.send([{ payload: "tea", key: new Uint8Array(size).fill(255),
        headers: { raw: new Uint8Array(size).fill(255), text: "x".repeat(size), number: 7 } }]);
    await sender.close();
}"""


def take(page: Page, stage: Stage, credit: int) -> None:
    show(page, stage, "queues/orders/watch")
    page.get_by_label("Take as a receiver").check()
    page.get_by_label("Credit").fill(str(credit))
    page.get_by_role("button", name="Take", exact=True).click()


def figures(stage: Stage) -> Any:
    found = stage.do(lambda: stage.broker.queues.read("orders"))
    assert found is not None
    return found


def test_no_more_is_taken_than_is_shown_and_all_of_it_is_acknowledged(page: Page, stage: Stage) -> None:
    stage.sends("orders", *[b"message %d" % each for each in range(450)])
    take(page, stage, 300)
    told(page, "the credit is a number of messages from 1 to 200")
    page.get_by_label("Credit").fill("150")
    page.get_by_role("button", name="Take", exact=True).click()
    page.get_by_text("150 came, 150 held, 0 still wanted").wait_for()
    more = page.get_by_role("button", name="Ask for as many more")
    more.click()
    told(page, "this page takes 200 messages at most, and has asked for 150 of them")
    page.get_by_label("Credit").fill("50")
    more.click()
    page.get_by_text("200 came, 200 held, 0 still wanted").wait_for()
    assert page.locator(".messages li").count() == MOST_LISTED
    page.get_by_role("button", name="Acknowledge all").click()
    told(page, "200 messages are acknowledged, and gone from the queue.")
    page.get_by_text("200 came, 0 held, 0 still wanted").wait_for()
    page.get_by_role("button", name="Stop and give back").click()
    page.get_by_text("Stopped. What was held has gone back.").wait_for()
    assert (figures(stage).total_acknowledged, figures(stage).ready, figures(stage).in_flight) == (200, 250, 0)


def test_of_a_large_message_the_beginning_is_shown_and_its_size(page: Page, stage: Stage) -> None:
    stage.sends("orders", bytes(range(256)) * 2**15)
    take(page, stage, 1)
    page.get_by_text("1 came, 1 held").wait_for()
    item = page.locator(".messages li")
    item.get_by_text("8 MiB", exact=True).wait_for()
    text = item.locator("pre").inner_text()
    assert len(text.splitlines()) == SHOWN // 16 + 1
    assert text.endswith(f"… {2**23 - SHOWN:,} bytes more")


def test_keys_and_headers_of_any_size_and_kind_are_shown_and_end_nothing(page: Page, stage: Stage) -> None:
    declare(stage, "orders")
    show(page, stage)
    page.evaluate(SEND, 200_000)
    take(page, stage, 1)
    page.get_by_text("1 came, 1 held").wait_for()
    headers = page.locator(".headers span").all_inner_texts()
    assert headers[0] == f"raw: base64 {'/' * 1024} … {200_000 - 768:,} bytes more"
    assert headers[1] == f"text: {'x' * 1024} … {200_000 - 1024:,} characters more"
    assert headers[2] == "number: 7"
    assert len(page.locator(".messages").inner_text()) < 8_000
    page.get_by_role("button", name="Acknowledge message 0").click()
    page.get_by_text("1 came, 0 held").wait_for()


def test_a_long_text_that_is_cut_within_a_letter_is_still_a_text(page: Page, stage: Stage) -> None:
    stage.sends("orders", ("x" + "é" * 8_000).encode())
    show(page, stage, "queues/orders/messages")
    shown = page.locator(".messages pre")
    shown.get_by_text("é").wait_for()
    assert shown.inner_text().endswith("é\n… 7,809 bytes more")
    take(page, stage, 1)
    page.get_by_text("1 came, 1 held").wait_for()
    assert shown.inner_text().endswith("é\n… 7,809 bytes more")


def test_whoever_acknowledges_by_keyboard_stays_in_the_list_also_at_what_is_no_text(page: Page, stage: Stage) -> None:
    stage.sends("orders", b"\xff\x00", b"text", b"\xff\x01")
    take(page, stage, 3)
    page.get_by_text("3 came, 3 held").wait_for()
    for number, then in ((1, "Acknowledge message 0"), (0, "Acknowledge message 2"), (2, "Ask for as many more")):
        page.get_by_role("button", name=f"Acknowledge message {number}").focus()
        page.keyboard.press("Enter")
        becomes(page, f"then => ({FOCUSED}) === then", arg=then)


def test_the_focus_goes_on_from_a_button_that_cannot_be_pressed_any_more(page: Page, stage: Stage) -> None:
    stage.sends("orders", b"a")
    show(page, stage, "queues/orders/watch")
    page.get_by_label("Take as a receiver").check()
    page.get_by_role("button", name="Take", exact=True).focus()
    page.keyboard.press("Enter")
    page.get_by_text("1 came, 1 held").wait_for()
    assert page.evaluate(FOCUSED) == "Ask for as many more"
    page.get_by_role("button", name="Stop and give back").focus()
    page.keyboard.press("Enter")
    page.get_by_text("Stopped.").wait_for()
    assert page.evaluate(FOCUSED) == "Take"


def test_a_message_whose_time_is_over_is_not_shown_as_held_and_never_as_acknowledged(page: Page, stage: Stage) -> None:
    declare(stage, "orders", visibility_timeout=1.0)
    stage.sends("orders", b"a")
    take(page, stage, 1)
    told(page, "Message 0 has gone back: held for longer than the queue\u2019s visibility timeout.")
    page.get_by_text("1 came, 0 held, 0 still wanted").wait_for()
    assert page.locator(".messages li").count() == 0
    page.get_by_role("button", name="Acknowledge all").click()
    assert (ready(stage, "orders"), figures(stage).total_acknowledged) == (1, 0)
    assert page.locator("#said").get_by_text("acknowledged").count() == 0


def test_a_message_that_comes_again_takes_the_place_of_what_it_was(page: Page, stage: Stage) -> None:
    declare(stage, "orders", visibility_timeout=1.0)
    stage.sends("orders", b"a")
    # It comes every second, and a page that is slow to draw passes some of them over.
    take(page, stage, 100)
    page.get_by_text(re.compile(r"delivered ([3-9]|\d\d) times")).wait_for()
    # None where its time has just run out once more.
    assert page.locator(".messages li").count() <= 1


def test_what_is_looked_at_is_shown_again_when_the_queue_was_made_anew(page: Page, stage: Stage) -> None:
    stage.sends("orders", *[b"old %d" % each for each in range(5)])
    show(page, stage, "queues/orders/watch")
    page.locator(".messages pre").get_by_text("old 4").wait_for()
    stage.do(lambda: stage.broker.queues.delete("orders"))
    stage.sends("orders", b"new 0", b"new 1")
    page.locator(".messages pre").get_by_text("new 1").wait_for()
    assert page.locator(".messages pre").all_inner_texts() == ["new 1", "new 0"]
    stage.sends("orders", b"new 2")
    page.locator(".messages pre").get_by_text("new 2").wait_for()
    assert page.locator(".messages li").count() == 3


def test_whoever_takes_and_looks_again_while_it_is_looked_sees_all_there_is(page: Page, stage: Stage) -> None:
    stage.sends("orders", b"a", b"b")
    show(page, stage, "queues/orders/watch")
    page.locator(".messages pre").get_by_text("a", exact=True).wait_for()
    looks = held(page, "**/orders/browse?*", 1)
    with page.expect_request("**/orders/browse?*"):
        stage.sends("orders", b"c")
    page.get_by_label("Take as a receiver").check()
    page.get_by_label("Look without taking").check()
    (look,) = looks
    look.continue_()
    becomes(
        page, "() => [...document.querySelectorAll('.messages pre')].map((each) => each.textContent).join() === 'c,b,a'"
    )


def test_a_look_that_fails_is_followed_by_one_that_does_not_also_where_nothing_comes(page: Page, stage: Stage) -> None:
    stage.sends("orders", b"a")
    page.route("**/orders/browse?*", lambda route: route.abort())
    show(page, stage, "queues/orders/watch")
    page.get_by_text("Cannot look: the broker does not answer").wait_for()
    page.unroute("**/orders/browse?*")
    page.get_by_text("Showing messages as they come").wait_for()
    assert page.locator(".messages pre").all_inner_texts() == ["a"]
