"""Dialogs of the console: what becomes of what was asked where the dialog is closed, or the page is left, before there is an answer."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from tests.transport.gateways.http.console.browser import Stage, declare, held, show, told

if TYPE_CHECKING:
    from playwright.sync_api import Page

pytestmark = pytest.mark.timeout(180)


def test_a_move_that_is_closed_goes_no_further_and_says_how_far_it_came(page: Page, stage: Stage) -> None:
    stage.sends("orders", b"a", b"b")
    steps = held(page, "**/api/v1/queues/orders/move")
    show(page, stage, "queues/orders")
    page.get_by_role("button", name="Move").click()
    dialog = page.get_by_role("dialog")
    dialog.get_by_label("To the queue").fill("others")
    dialog.get_by_label("Type the name").fill("orders")
    with page.expect_request("**/move"):
        dialog.get_by_role("button", name="Move", exact=True).click()
    page.keyboard.press("Escape")
    dialog.wait_for(state="detached")
    answer = {"from": "orders", "to": "others", "moved": 1, "next": "more"}
    steps[0].fulfill(body=json.dumps(answer), content_type="application/json")
    told(page, "1 messages are in others now. The others stay where they are.")
    assert len(steps) == 1


@pytest.mark.parametrize("button", ["Create a queue", "Alter"])
def test_what_is_asked_of_the_broker_first_opens_no_dialog_on_another_page(
    page: Page, stage: Stage, button: str
) -> None:
    declare(stage, "orders")
    show(page, stage, "queues" if button == "Create a queue" else "queues/orders")
    asked = held(page, "**/api/v1/openapi.json")
    with page.expect_request("**/api/v1/openapi.json"):
        page.get_by_role("button", name=button, exact=True).click()
    page.get_by_role("link", name="Connections", exact=True).click()
    page.get_by_role("heading", name="Connections").wait_for()
    with page.expect_response("**/api/v1/openapi.json"):
        asked[0].continue_()
    page.evaluate("""() => import("/console/api.js").then(({ settings }) => settings())""")
    assert page.get_by_role("dialog").count() == 0
    assert len(asked) == 1, "what is asked already is waited for, not asked again"


def test_an_explicit_zero_is_a_setting_and_what_is_left_empty_is_none(page: Page) -> None:
    own = Stage(ttl=60.0)
    try:
        show(page, own)
        for name, typed, found in (("never", "0", None), ("usual", "", 60.0)):
            page.goto(f"{own.url}/#/queues")
            page.get_by_role("button", name="Create a queue").click()
            page.get_by_label("Name", exact=True).fill(name)
            page.get_by_text("Settings", exact=True).click()
            page.get_by_label("ttl (ms)", exact=True).fill(typed)
            page.get_by_role("button", name="Create", exact=True).click()
            page.get_by_role("heading", name=name, level=1).wait_for()
            assert own.call(_ttl(own, name)) == found
    finally:
        own.close()


async def _ttl(own: Stage, name: str) -> float | None:
    return own.broker.queues.settings_of(name).ttl


def test_a_failure_is_told_also_where_its_dialog_was_closed(page: Page, stage: Stage) -> None:
    stage.sends("orders", b"a")
    problem = {"code": "not-now", "detail": "the broker stops"}
    asked = held(page, "**/api/v1/queues/orders/purge")
    show(page, stage, "queues/orders")
    page.get_by_role("button", name="Purge").click()
    dialog = page.get_by_role("dialog")
    dialog.get_by_label("Type the name").fill("orders")
    with page.expect_request("**/purge"):
        dialog.get_by_role("button", name="Purge", exact=True).click()
    page.keyboard.press("Escape")
    dialog.wait_for(state="detached")
    asked[0].fulfill(status=503, body=json.dumps(problem), content_type="application/problem+json")
    told(page, "the broker stops")
    assert page.locator("#said").get_attribute("data-kind") == "error"


def test_a_failure_in_a_dialog_leaves_the_focus_in_it_and_it_is_sent_once(page: Page, stage: Stage) -> None:
    stage.sends("orders", b"a")
    asked = held(page, "**/api/v1/queues/orders/purge")
    show(page, stage, "queues/orders")
    page.get_by_role("button", name="Purge").click()
    dialog = page.get_by_role("dialog")
    typed, go = dialog.get_by_label("Type the name"), dialog.get_by_role("button", name="Purge", exact=True)
    typed.fill("orders")
    with page.expect_request("**/purge"):
        go.click()
    typed.fill("order")
    typed.fill("orders")
    assert go.is_disabled(), "it is being done"
    go.evaluate("go => { go.blur(); document.activeElement.blur(); }")
    asked[0].fulfill(status=503, body="{}", content_type="application/problem+json")
    dialog.get_by_role("alert").get_by_text("503").wait_for()
    assert page.evaluate("document.querySelector('dialog').contains(document.activeElement)")
    assert len(asked) == 1


def test_who_has_gone_elsewhere_is_not_fetched_back_by_a_queue_that_is_deleted(page: Page, stage: Stage) -> None:
    declare(stage, "orders")
    asked = held(page, "**/api/v1/queues/orders")
    show(page, stage, "queues/orders")
    page.get_by_role("button", name="Delete").click()
    dialog = page.get_by_role("dialog")
    dialog.get_by_label("Type the name").fill("orders")
    with page.expect_request("**/api/v1/queues/orders"):
        dialog.get_by_role("button", name="Delete", exact=True).click()
    page.keyboard.press("Escape")
    page.get_by_role("link", name="Connections", exact=True).click()
    page.get_by_role("heading", name="Connections").wait_for()
    asked[0].continue_()
    told(page, "Queue orders is deleted.")
    assert page.url.endswith("#/connections")
