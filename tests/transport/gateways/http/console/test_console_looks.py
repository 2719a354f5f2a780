"""The console as it looks, how it holds many queues, whom it lets in, and what it does not do: in the distribution's Chromium."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import TYPE_CHECKING, Final

import pytest

from tests.transport.gateways.http.console.browser import Stage, Watched, becomes, declare, ready, row, show, told
from transport.clients.subscription_client import SubscriptionClient
from transport.security.principal import Grant, Right
from transport.security.users import User, Users
from transport.security.users_file import change_users
from transport.security.verifier import LEAST_ITERATIONS, Verifier

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

pytestmark = pytest.mark.timeout(180)
AXE: Final = Path(__file__).with_name("axe-core") / "axe.min.js"
PARTS: Final = ("queues", "queues/orders", "queues/orders/messages", "queues/orders/watch", "queues/orders/settings",
                "connections", "subscriptions", "journal", "users")  # fmt: skip


def test_ten_thousand_queues_are_sorted_filtered_and_paged(browser: Browser, page: Page) -> None:
    own = Stage(max_queues=10_000)
    try:
        declare(own, *[f"queue-{each:05}" for each in range(9_999)])
        own.sends("busy", *[b"x"] * 50)
        show(page, own)
        becomes(page, "() => document.querySelectorAll('.queues tbody tr').length === 50")
        page.get_by_text("1 to 50 of 10,000").wait_for()
        assert page.locator(".queues tbody th a").first.inner_text() == "busy"
        page.get_by_label("Sort by").select_option("name")
        page.get_by_role("row").filter(has_text="queue-00048").wait_for()
        page.get_by_role("button", name="Next").click()
        page.get_by_text("51 to 100 of 10,000").wait_for()
        page.get_by_label("Filter").fill("0777")
        page.get_by_text("1 to 11 of 11").wait_for()
        row(page, "queue-07770").wait_for()
        # What it takes to draw a picture is far below the second between two.
        page.get_by_label("Filter").fill("")
        page.get_by_text("of 10,000").wait_for()
        longest = page.evaluate(
            """() => new Promise((done) => {
                let longest = 0;
                new PerformanceObserver((list) => { for (const each of list.getEntries()) longest = Math.max(longest, each.duration); })
                    .observe({type: 'longtask'});
                let rounds = 0;
                setInterval(() => { if ((rounds += 1) === 2) done(longest); }, 1000);
            })"""
        )
        assert longest < 500
    finally:
        own.close()


@pytest.mark.parametrize("width", [390, 1440])
def test_every_part_fits_its_width_and_has_no_serious_fault_for_those_who_do_not_see_it(
    page: Page, stage: Stage, width: int
) -> None:
    page.set_viewport_size({"width": width, "height": 844})
    declare(
        stage,
        "a-queue-with-a-name-that-is-as-long-as-names-become-where-a-program-makes-them" + "x" * 100,
    )
    stage.sends("orders", b'{"a": 1}', bytes(40), b"y" * 4000)
    stage.keeps_sending("busy", "shop-north", 200)
    stage.keeps_receiving("busy", "billing", 1000)
    for part in PARTS:
        show(page, stage, part)
        page.locator("main section").first.wait_for()
        if part == "queues":
            pill = row(page, "busy").locator(".pill:visible")
            pill.filter(has_text=re.compile("flowing|sender slow")).wait_for()
        if part == "queues/orders/messages":
            page.locator(".messages li").nth(2).wait_for()
        _check(page, part)
        page.emulate_media(color_scheme="dark")
        _check(page, f"{part}, dark", "color-contrast")
        page.emulate_media(color_scheme="light")
    page.get_by_role("link", name="Queues", exact=True).click()
    page.get_by_role("button", name="Create a queue").click()
    _check(page, "the dialog")


def _check(page: Page, part: str, rule: str = "") -> None:
    """See that a part is no wider than its window, and what axe-core says of it: of all that it knows, or of one rule."""
    wide = page.evaluate("[document.documentElement.scrollWidth, document.documentElement.clientWidth]")
    assert wide[0] <= wide[1], f"{part} is to be scrolled sideways"
    if not page.evaluate("'axe' in window"):
        # No script of the page, so its policy has no say.
        page.evaluate(AXE.read_text("utf-8"))
    found = page.evaluate(
        """rule => axe.run(document, {resultTypes: ['violations'], ...(rule ? {runOnly: [rule]} : {})})
            .then((all) => all.violations
                .filter((each) => ['serious', 'critical'].includes(each.impact))
                .map((each) => ({id: each.id, where: each.nodes.map((node) => node.html + node.failureSummary)})))""",
        rule,
    )
    assert found == [], f"{part}: {json.dumps(found, indent=1)}"


def test_the_check_finds_what_cannot_be_read_and_what_has_no_name(page: Page, stage: Stage) -> None:
    show(page, stage)
    page.evaluate(
        """() => {
            const grey = Object.assign(document.createElement("p"), {textContent: "who reads this"});
            grey.style.color = grey.style.backgroundColor = "#999999";
            document.querySelector("main").append(grey, document.createElement("button"));
        }"""
    )
    with pytest.raises(AssertionError, match=r"color-contrast|button-name"):
        _check(page, "a page with faults")


def test_people_sign_in_and_out_where_there_are_users(browser: Browser, page: Page, tmp_path: Path) -> None:
    everything = Grant("*", Right.CONFIGURE | Right.WRITE | Right.READ)
    users = [
        User("ann", Verifier.of("secret", LEAST_ITERATIONS), Right.MONITOR | Right.ADMINISTER, (everything,)),
        User("bob", Verifier.of("other", LEAST_ITERATIONS), Right.MONITOR, (Grant("orders", Right.READ),)),
    ]
    path = tmp_path / "users.toml"
    change_users(path, lambda _: Users(users))
    own = Stage(users_file=str(path))
    try:
        page.goto(own.url)
        page.get_by_label("Name").fill("ann")
        page.get_by_label("Password").fill("wrong")
        page.get_by_role("button", name="Sign in").click()
        page.get_by_role("alert").get_by_text("wrong").wait_for()
        _check(page, "signing in")
        page.get_by_label("Password").fill("secret")
        page.keyboard.press("Enter")
        page.wait_for_selector("#state[data-state=live]")
        assert page.evaluate("document.cookie") == "", "no script sees the session"
        page.get_by_role("button", name="Create a queue").click()
        page.get_by_label("Name", exact=True).fill("orders")
        page.get_by_role("button", name="Create", exact=True).click()
        page.get_by_role("heading", name="orders", level=1).wait_for()
        page.goto(f"{own.url}/#/queues/orders/watch")
        page.get_by_label("Payload", exact=True).fill("tea")
        page.get_by_role("button", name="Publish", exact=True).click()
        page.get_by_text("Stored as number 0.").wait_for()
        page.get_by_label("Take as a receiver").check()
        page.get_by_role("button", name="Take", exact=True).click()
        page.get_by_text("1 came, 1 held").wait_for()
        page.get_by_role("link", name="Users").click()
        page.get_by_role("row").filter(has_text="bob").get_by_text("orders read").wait_for()
        page.reload()
        page.get_by_text("bob").wait_for()

        page.get_by_role("button", name="Sign out").click()
        page.get_by_role("heading", name="Sign in").wait_for()
        page.get_by_label("Name").fill("bob")
        page.get_by_label("Password").fill("other")
        page.keyboard.press("Enter")
        page.wait_for_selector("#state[data-state=live]")
        told(page, "bob may not administer the broker")
        page.goto(f"{own.url}/#/queues/orders")
        page.get_by_role("button", name="Delete").click()
        page.get_by_label("Type the name").fill("orders")
        page.get_by_role("dialog").get_by_role("button", name="Delete").click()
        page.get_by_role("alert").get_by_text("bob may not configure 'orders'").wait_for()
        page.keyboard.press("Escape")

        # Who is no user any more is asked again.
        change_users(path, lambda found: found.but([each for each in found if each.name != "bob"]))
        own.call(own.broker._entrance.reload())
        page.get_by_role("heading", name="Sign in").wait_for()
    finally:
        own.close()


def test_a_page_of_another_site_reads_changes_and_opens_nothing(browser: Browser, stage: Stage) -> None:
    stage.sends("orders", b"kept")
    other = browser.new_page()
    other.route(
        "http://other.test/**", lambda route: route.fulfill(body="<title>other</title>", content_type="text/html")
    )
    other.goto("http://other.test/")
    found = other.evaluate(
        """async (url) => {
            const tries = {
                read: () => fetch(`${url}/api/v1/queues`).then((answer) => answer.text()),
                stream: () => new Promise((done, fail) => {
                    const events = new EventSource(`${url}/api/v1/events`);
                    events.addEventListener("picture", done);
                    events.onerror = () => { events.close(); fail(new Error("refused")); };
                }),
                purge: () => fetch(`${url}/api/v1/queues/orders/purge`, {method: "POST", mode: "no-cors"}).then((answer) => answer.type),
                remove: () => fetch(`${url}/api/v1/queues/orders`, {method: "DELETE"}).then((answer) => answer.text()),
                publish: () => fetch(`${url}/api/v1/queues/made/messages`, {method: "POST", mode: "no-cors", body: "x"})
                    .then((answer) => answer.type),
                socket: () => new Promise((done, fail) => {
                    const socket = new WebSocket(url.replace("http", "ws") + "/ws", "penstock.1");
                    socket.onopen = () => done("open");
                    socket.onerror = () => fail(new Error("refused"));
                }),
                script: () => new Promise((done, fail) => {
                    const script = Object.assign(document.createElement("script"), {src: `${url}/console/app.js`});
                    script.onload = () => done("loaded");
                    script.onerror = () => fail(new Error("refused"));
                    document.head.append(script);
                }),
            };
            const found = {};
            for (const [name, attempt] of Object.entries(tries))
                found[name] = await attempt().catch(() => "refused");
            return found;
        }""",
        stage.url,
    )
    # A page may send what a form could, and sees nothing of the answer, which is a refusal.
    assert {name for name, what in found.items() if what != "refused"} <= {"purge", "publish"}
    assert {found["purge"], found["publish"]} <= {"opaque", "refused"}
    assert stage.do(lambda: list(stage.broker.queues)) == ["orders"]
    assert ready(stage, "orders") == 1
    assert stage.do(lambda: {each.role for each in stage.broker.connections.values()}) <= {"http"}
    other.context.close()


def test_a_page_that_breaks_its_policy_is_noticed(browser: Browser, stage: Stage) -> None:
    opened = browser.new_page()
    watched = Watched(opened)
    show(opened, stage)
    assert watched.said == []
    opened.evaluate("document.body.setAttribute('style', 'color: red')")
    becomes(opened, "() => getComputedStyle(document.body).color !== 'rgb(255, 0, 0)'")
    opened.evaluate("() => new Promise(requestAnimationFrame)")
    assert any("style-src" in each for each in watched.said)
    opened.context.close()


def test_a_band_is_as_wide_as_its_rate_and_the_busiest_stand_alone(page: Page, stage: Stage) -> None:
    show(page, stage)
    sender = {"role": "sender", "peer": None, "demand": 1, "held": 0, "waits": False, "messages": 1}
    senders = [
        sender | {"id": each, "client": "x" * 300 if each == 0 else f"s{each}", "rate": 10.0 ** (5 - each)}
        for each in range(9)
    ]
    flow = {
        "senders": senders, "receivers": [], "all_senders": 400, "all_receivers": 0, "stored_messages": 5, "max_messages": 10,
        "stored_bytes": 1, "max_bytes": 100, "ready": 5, "came": 1.0, "went": 0.0, "pressure": "no receiver", "sentence": "it waits",
    }  # fmt: skip
    drawn = page.evaluate(
        """async (flow) => {
            const { draw } = await import("/console/flow.js");
            const svg = document.createElementNS("http://www.w3.org/2000/svg", "svg");
            draw(svg, flow, 600);
            return {
                widths: [...svg.querySelectorAll(".band")].map((each) => Number(each.getAttribute("stroke-width"))),
                labels: [...svg.querySelectorAll(".label")].map((each) => each.firstChild.textContent),
                kind: svg.dataset.kind,
                filled: [".fill", ".tank"].map((each) => Number(svg.querySelector(each).getAttribute("height"))),
            };
        }""",
        flow,
    )
    assert drawn["kind"] == "no-receiver"
    assert drawn["widths"][:5] == sorted(drawn["widths"][:5], reverse=True)
    assert drawn["widths"][0] > 2 * drawn["widths"][4]
    assert drawn["labels"][1:] == ["s1", "s2", "s3", "s4", "395 others"]
    assert len(drawn["labels"][0]) < 60
    assert 0.45 < drawn["filled"][0] / drawn["filled"][1] < 0.5


NAMES: Final = (
    "W" * 60,
    "spark@a-machine-with-a-long-name.example/26506/0123456789",
    "漢" * 60,
    "😀" * 60,
    "1234567890" * 6,
    "i" * 300,
)


@pytest.mark.parametrize("pixels", [280, 334, 700])
def test_no_label_lies_over_the_tank_or_the_other_side(page: Page, stage: Stage, pixels: int) -> None:
    show(page, stage)
    party = {
        "peer": None,
        "demand": 123456789,
        "held": 123456789,
        "waits": False,
        "messages": 1,
        "rate": 12345.0,
        "subscription": None,
    }
    flow = {
        "senders": [party | {"id": each, "role": "sender", "client": name} for each, name in enumerate(NAMES)],
        "receivers": [party | {"id": each, "role": "receiver", "client": name} for each, name in enumerate(NAMES)],
        "all_senders": 6, "all_receivers": 6, "stored_messages": 5, "max_messages": 10,
        "stored_bytes": 1, "max_bytes": 100, "ready": 5, "came": 1.0, "went": 0.0, "pressure": "no receiver", "sentence": "it waits",
    }  # fmt: skip
    drawn = page.evaluate(
        """async ([flow, pixels]) => {
            const { draw } = await import("/console/flow.js");
            const svg = document.createElementNS("http://www.w3.org/2000/svg", "svg");
            svg.setAttribute("class", "flow");
            const holder = document.createElement("div");
            holder.append(svg);
            document.querySelector("main").replaceChildren(holder);
            holder.style.width = `${pixels}px`;
            draw(svg, flow, pixels);
            const tank = svg.querySelector(".tank").getBoundingClientRect();
            const texts = [...svg.querySelectorAll(".label, .label + .faint")];
            return {
                over: texts.filter((each) => {
                    const { left, right } = each.getBoundingClientRect();
                    return left < tank.right && right > tank.left;
                }).map((each) => each.firstChild.textContent),
                labels: [...svg.querySelectorAll(".label")].map((each) => each.firstChild.textContent),
                widths: texts.map((each) => each.getBoundingClientRect().width),
                room: tank.left - svg.getBoundingClientRect().left,
            };
        }""",
        [flow, pixels],
    )
    assert drawn["over"] == []
    assert all(label.endswith("…") for label in drawn["labels"])
    # As much is shown as there is room for.
    assert max(drawn["widths"]) > drawn["room"] - 30


def test_a_query_is_named_by_its_subscription_as_in_the_sentence(page: Page, stage: Stage) -> None:
    stage.sends("orders", b"a", b"b", b"c")
    owner = "spark@vm/26506/0123"
    with SubscriptionClient(
        stage.broker.receive_address, queue="orders", subscription="demo", mode="own", client_id=owner
    ) as query:
        query.reserve(0, 3, 2**20)
        show(page, stage, "queues/orders")
        flow = page.get_by_role("img", name="Flow: 0 senders")
        flow.locator(".label").wait_for()
        assert flow.locator(".label").text_content() == f"query demoquery demo, of {owner}"
        heading = page.get_by_role("region", name="Receivers of the queue").get_by_role("rowheader")
        assert heading.inner_text() == f"demo Spark query\n{owner}"
        page.get_by_role("button", name="Close the connection of demo").wait_for()
