"""What the console shows and does where the world changes around it: in the background, in two windows, and when answers fail."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Final

import pytest

from tests.transport.gateways.http.console.browser import Stage, becomes, declare, held, ready, row, show, told
from tests.transport.gateways.http.test_connections import turns_until
from transport.security.principal import Grant, Right
from transport.security.users import User, Users
from transport.security.users_file import change_users
from transport.security.verifier import LEAST_ITERATIONS, Verifier

if TYPE_CHECKING:
    from playwright.sync_api import Page, Route

pytestmark = pytest.mark.timeout(180)
HIDE: Final = """(hidden) => {
    Object.defineProperty(document, "visibilityState", {configurable: true, get: () => (hidden ? "hidden" : "visible")});
    document.dispatchEvent(new Event("visibilitychange"));
}"""
"""What a browser says to a page that goes to the background, and comes back."""


@pytest.fixture
def secured(tmp_path: Path) -> Iterator[Stage]:
    """A broker with users."""
    rights = (Grant("*", Right.CONFIGURE | Right.WRITE | Right.READ),)
    users = [
        User(name, Verifier.of("secret", LEAST_ITERATIONS), Right.MONITOR | Right.ADMINISTER, rights)
        for name in ("ann", "bob")
    ]
    path = tmp_path / "users.toml"
    change_users(path, lambda _: Users(users))
    own = Stage(users_file=str(path))
    yield own
    own.close()


def sign_in(page: Page, name: str) -> None:
    page.get_by_label("Name").fill(name)
    page.get_by_label("Password").fill("secret")
    page.keyboard.press("Enter")
    page.wait_for_selector("#state[data-state=live]")


def test_for_a_page_in_the_background_nothing_is_read(page: Page, stage: Stage) -> None:
    stage.sends("orders", b"a")
    show(page, stage, "queues/orders")
    assert stage.do(lambda: stage.broker._sampler.running)
    page.evaluate(HIDE, True)
    stage.call(turns_until(lambda: not stage.broker._sampler.running))
    assert page.locator("#state-text").inner_text() == "Paused"
    stage.sends("orders", b"b")
    page.evaluate(HIDE, False)
    page.locator(".big").get_by_text("2 ready").wait_for()
    assert page.locator("#state").get_attribute("data-state") == "live"


def test_an_idle_queue_is_shown_again_behind_its_other_parts(page: Page, stage: Stage) -> None:
    declare(stage, "orders")
    show(page, stage, "queues/orders")
    page.locator(".sentence").filter(has_text=re.compile("[a-z]")).wait_for()
    page.get_by_role("link", name="Settings").click()
    page.get_by_role("region", name="Settings of the queue").wait_for()
    page.get_by_role("link", name="Flow", exact=True).click()
    page.locator(".sentence").filter(has_text=re.compile("[a-z]")).wait_for()
    assert page.locator(".facts dd").first.inner_text() == "0"


def test_what_every_object_has_is_no_part_of_the_console(page: Page, stage: Stage) -> None:
    declare(stage, "orders")
    show(page, stage, "connections")
    page.goto(f"{stage.url}/#/constructor")
    page.get_by_role("heading", name="Queues", level=1).wait_for()
    page.goto(f"{stage.url}/#/queues?order=constructor")
    row(page, "orders").wait_for()
    page.goto(f"{stage.url}/#/queues/orders/toString")
    page.locator(".sentence").filter(has_text=re.compile("[a-z]")).wait_for()
    assert page.get_by_role("link", name="Flow", exact=True).get_attribute("aria-current") == "page"


@pytest.mark.parametrize("name", [".", ".."])
def test_what_a_browser_would_take_for_a_step_is_not_asked_for(page: Page, stage: Stage, name: str) -> None:
    show(page, stage)
    said = page.evaluate(
        """(name) => import("/console/api.js").then(({ path }) => {
            try { return path("subscriptions", name, "session"); } catch (error) { return error.message; }
        })""",
        name,
    )
    assert said == f"a browser cannot ask for what is named {name}: use the command line"


def test_a_page_that_is_pressed_twice_is_one_receiver(page: Page, stage: Stage) -> None:
    stage.sends("orders", *[b"message %d" % each for each in range(8)])
    show(page, stage, "queues/orders/watch")
    page.get_by_label("Take as a receiver").check()
    page.get_by_label("Credit").fill("3")
    page.get_by_role("button", name="Take", exact=True).evaluate("(take) => { take.click(); take.click(); }")
    page.get_by_text("3 came, 3 held, 0 still wanted").wait_for()
    page.get_by_role("button", name="Stop and give back").click()
    page.get_by_text("Stopped. What was held has gone back.").wait_for()
    assert page.get_by_role("button", name="Take", exact=True).is_enabled()
    assert ready(stage, "orders") == 8
    assert "receiver" not in stage.do(lambda: {each.role for each in stage.broker.connections.values()})


def test_a_page_that_is_left_while_it_becomes_a_receiver_holds_nothing(page: Page, stage: Stage) -> None:
    stage.sends("orders", b"a", b"b")
    show(page, stage, "queues/orders/watch")
    page.get_by_label("Take as a receiver").check()
    # The moment at which its socket opens.
    page.evaluate(
        """() => {
            window.WebSocket = class extends WebSocket {
                constructor(...given) {
                    super(...given);
                    location.hash = "#/queues/orders";
                }
            };
        }"""
    )
    with page.expect_websocket() as opened:
        page.get_by_role("button", name="Take", exact=True).click()
    if not opened.value.is_closed():
        opened.value.wait_for_event("close")
    page.locator(".big").get_by_text("2 ready").wait_for()


def test_a_broker_that_does_not_answer_is_not_waited_for_without_end(page: Page, stage: Stage) -> None:
    page.clock.install()
    asked = held(page, "**/api/v1/events?*")
    page.goto(stage.url)
    page.wait_for_selector("#state[data-state=connecting]")
    with page.expect_request("**/api/v1/events?*"):
        # The one that hangs is given up, and another follows.
        page.clock.fast_forward(11_000)
        page.get_by_text("Reconnecting: the broker does not answer").wait_for()
        for each in asked:
            each.abort()
        page.unroute("**/api/v1/events?*")
        page.clock.fast_forward(6_000)
    page.wait_for_selector("#state[data-state=live]")


def test_a_refusal_is_told_once_and_no_longer_than_it_holds(page: Page, stage: Stage) -> None:
    problem = {"code": "forbidden", "detail": "anyone may not monitor the broker"}
    show(page, stage)
    page.route(
        "**/api/v1/events?*",
        lambda route: route.fulfill(status=403, body=json.dumps(problem), content_type="application/problem+json"),
    )
    for text in ("a", "b"):
        with page.expect_response("**/api/v1/events?*"):
            page.get_by_label("Filter").fill(text)
        page.wait_for_selector("#state[data-state=refused]")
        page.get_by_role("alert").get_by_text("may not monitor").wait_for()
        assert page.locator(".note.bad:visible").count() == 1
    page.unroute("**/api/v1/events?*")
    page.get_by_label("Filter").fill("")
    page.wait_for_selector("#state[data-state=live]")
    page.get_by_text("There are no queues yet").wait_for()
    assert page.locator(".note.bad:visible").count() == 0


def test_whoever_is_in_a_row_by_keyboard_stays_there_when_others_come(page: Page, stage: Stage) -> None:
    stage.keeps_receiving("orders", "billing", 10)
    show(page, stage, "connections")
    close = page.get_by_role("row").filter(has_text="billing").get_by_role("button")
    named = close.get_attribute("aria-label")
    close.focus()
    stage.keeps_receiving("orders", "shipping", 10)
    page.get_by_role("row").filter(has_text="shipping").wait_for()
    assert page.evaluate("document.activeElement.getAttribute('aria-label')") == named


def test_rows_keep_their_places_while_somebody_is_in_one_and_not_when_another_order_is_asked_for(
    page: Page, stage: Stage
) -> None:
    stage.sends("b", *[b"x"] * 3)
    stage.sends("a", b"x")
    show(page, stage, "queues?order=backlog")
    row(page, "a").locator(".ready").get_by_text("1", exact=True).wait_for()
    shown = "() => [...document.querySelectorAll('tbody th a')].map((each) => each.textContent).join(' ')"
    page.get_by_role("link", name="b", exact=True).focus()
    row(page, "b").hover()
    page.get_by_role("heading", name="Queues").hover()
    stage.sends("a", *[b"x"] * 6)
    row(page, "a").locator(".ready").get_by_text("7", exact=True).wait_for()
    assert page.evaluate(shown) == "b a"
    page.keyboard.press("Tab")
    assert page.evaluate(f"[document.activeElement.textContent, ({shown})()]") == ["a", "b a"]
    stage.sends("c", *[b"x"] * 9)
    row(page, "c").wait_for()
    assert page.evaluate(f"[document.activeElement.textContent, ({shown})()]") == ["a", "b a c"]
    row(page, "a").hover()
    page.get_by_label("Filter").focus()
    assert page.evaluate(shown) == "b a c"
    page.get_by_role("heading", name="Queues").hover()
    becomes(page, f"() => ({shown})() === 'c a b'")
    row(page, "a").hover()
    page.get_by_label("Sort by").select_option("name")
    becomes(page, f"() => ({shown})() === 'a b c'")


def test_who_could_not_sign_out_is_not_told_that_they_have(page: Page, secured: Stage) -> None:
    page.goto(secured.url)
    sign_in(page, "ann")
    page.route(
        "**/api/v1/session", lambda route: route.abort() if route.request.method == "DELETE" else route.continue_()
    )
    page.get_by_role("button", name="Sign out").click()
    told(page, "You are still signed in")
    assert page.get_by_role("heading", name="Queues").is_visible()
    page.unroute("**/api/v1/session")
    page.get_by_role("button", name="Create a queue").click()
    # Whatever is asked has nobody any more who could answer.
    page.evaluate(
        """import("/console/api.js").then(({ signOut, session }) => signOut().then(() => (session.user = "ann")))"""
    )
    page.get_by_role("heading", name="Sign in").wait_for()
    assert page.get_by_role("dialog").count() == 0


def test_two_windows_show_the_one_who_is_signed_in(page: Page, secured: Stage) -> None:
    page.goto(secured.url)
    sign_in(page, "ann")
    page.evaluate(HIDE, True)
    page.wait_for_selector("#state[data-state=paused]")
    with page.expect_popup() as opened:
        page.evaluate("() => { window.open('/'); }")
    other = opened.value
    other.get_by_role("button", name="Sign out").click()
    sign_in(other, "bob")
    page.evaluate(HIDE, False)
    page.locator("#user").get_by_text("bob").wait_for()
    # What it changes has the token of the session that there is now.
    page.get_by_role("button", name="Create a queue").click()
    page.get_by_label("Name", exact=True).fill("orders")
    page.get_by_role("button", name="Create", exact=True).click()
    page.get_by_role("heading", name="orders", level=1).wait_for()


def test_a_filter_that_is_left_at_once_asks_for_nothing_on_the_next_page(page: Page, stage: Stage) -> None:
    page.clock.install()
    declare(stage, "orders")
    show(page, stage)
    row(page, "orders").wait_for()
    page.evaluate(
        """() => {
            const filter = document.querySelector("#filter");
            filter.value = "or";
            filter.dispatchEvent(new Event("input"));
            location.hash = "#/queues/orders";
        }"""
    )
    page.get_by_role("heading", name="orders", level=1).wait_for()
    page.clock.run_for(1_000)
    page.locator(".sentence").filter(has_text=re.compile("[a-z]")).wait_for()
    assert page.url.endswith("#/queues/orders")
    assert page.get_by_text("There is no such queue").is_hidden()


def test_past_the_end_of_the_list_its_last_page_is_shown(page: Page, stage: Stage) -> None:
    declare(stage, *[f"queue-{each:02}" for each in range(60)])
    show(page, stage, "queues?order=name&start=500")
    page.get_by_text("51 to 60 of 60").wait_for()
    row(page, "queue-59").wait_for()
    assert "start=50" in page.url
    stage.do(lambda: [stage.broker.queues.delete(f"queue-{each:02}") for each in range(6, 60)])
    page.get_by_text("1 to 6 of 6").wait_for()
    assert page.get_by_text("There are no queues yet").is_hidden()
    stage.do(lambda: [stage.broker.queues.delete(f"queue-{each:02}") for each in range(6)])
    page.get_by_text("There are no queues yet").wait_for()
    page.get_by_text("0 to 0 of 0").wait_for()


def test_a_last_page_that_has_become_empty_gives_way_to_the_one_before(page: Page, stage: Stage) -> None:
    users: dict[str, list[str]] = {"": [f"user-{each:03}" for each in range(100)], "user-099": ["user-100"]}

    def answer(route: Route) -> None:
        after = re.search("after=([^&]*)", route.request.url)
        names = users[after[1] if after else ""]
        rows = [
            {
                "name": name,
                "broker": [],
                "grants": [],
                "password": True,
                "tokens": 0,
                "access_keys": 0,
                "certificates": 0,
            }
            for name in names
        ]
        more = None if after or "user-100" not in users["user-099"] else "user-099"
        route.fulfill(body=json.dumps({"rows": rows, "next": more}), content_type="application/json")

    page.route("**/api/v1/users?*", answer)
    show(page, stage, "users")
    page.get_by_role("button", name="Next").focus()
    page.keyboard.press("Enter")
    page.get_by_text("Page 2, 1 rows").wait_for()
    # There is no page behind it: whoever goes by keyboard is not sent to the top.
    assert page.evaluate("document.activeElement.textContent") == "Previous"
    users["user-099"].clear()
    page.get_by_role("button", name="Refresh").click()
    page.get_by_text("Page 1, 100 rows").wait_for()
    assert page.get_by_text("This broker has no users").is_hidden()


def test_an_outage_is_told_once_and_not_at_each_try(page: Page, stage: Stage) -> None:
    page.clock.install()
    show(page, stage)
    page.evaluate(
        """() => {
            window.heard = [];
            new MutationObserver(() => window.heard.push(document.querySelector("#state-text").textContent))
                .observe(document.querySelector("#state-text"), {childList: true, characterData: true, subtree: true});
        }"""
    )
    page.route("**/api/v1/events?*", lambda route: route.abort())
    page.get_by_label("Sort by").select_option("name")
    page.wait_for_selector("#state[data-state=lost]")
    for _ in range(4):
        with page.expect_event("requestfailed", lambda request: "/events?" in request.url):
            page.clock.run_for(5_000)
    with page.expect_event("requestfailed", lambda request: "/events?" in request.url):
        page.get_by_label("Sort by").select_option("rate")
    assert page.evaluate("window.heard") == ["Reconnecting"]
    page.unroute("**/api/v1/events?*")
    page.clock.run_for(5_000)
    page.wait_for_selector("#state[data-state=live]")
    assert page.evaluate("window.heard") == ["Reconnecting", "Live"]
