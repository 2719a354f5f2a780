"""Rule 2.4 over every operator: once upstream has ended, nothing is asked of its subscription any more."""

from __future__ import annotations

import asyncio
import contextlib
from typing import Any

import pytest

from streams import Flow, Publisher, Sink, Source, Subscriber, Subscription
from streams.stages.stage import ControlledStage
from streams.testkit import run_in_virtual_time, settle
from tests.streams.catalogue import every
from tests.streams.catalogue.case import FlowCase

CASES = [case for case in every.flows() if case.virtual_time]


class Upstream(Publisher[int], Subscription):
    """Sends 0, 1, 2, ... and notes what is asked of it after its end."""

    def __init__(self) -> None:
        self.subscriber: Subscriber[int] | None = None
        self.demand = 0
        self.sent = 0
        self.over = False
        self.late: list[str] = []

    def subscribe(self, subscriber: Subscriber[int]) -> None:
        self.subscriber = subscriber
        subscriber.on_subscribe(self)

    def request(self, n: int) -> None:
        self.demand += n
        if self.over:
            self.late.append(f"request({n})")

    def cancel(self) -> None:
        if self.over:
            self.late.append("cancel()")
        self.demand = 0
        self.subscriber = None

    def send(self, count: int) -> None:
        for _ in range(count):
            if self.subscriber is not None and self.demand:
                self.demand -= 1
                self.sent += 1
                self.subscriber.on_next(self.sent - 1)

    def end(self, error: BaseException | None) -> None:
        subscriber = self.subscriber
        if subscriber is None:
            return
        self.over = True
        if error is None:
            subscriber.on_complete()
        else:
            subscriber.on_error(error)


class Downstream(Subscriber[Any]):
    """Keeps the rules itself: does nothing to its subscription after the end. What it does before is the test's business."""

    def __init__(self, within: str) -> None:
        self.within = within
        self.left = 20
        self.subscription: Subscription | None = None

    def on_subscribe(self, subscription: Subscription) -> None:
        self.subscription = subscription

    def on_next(self, _element: Any) -> None:
        if self.within == "request" and self.left:
            self.left -= 1  # some operators have no end
            self.request(1)
        elif self.within == "cancel":
            self.cancel()

    def on_error(self, _error: BaseException) -> None:
        self.subscription = None

    def on_complete(self) -> None:
        self.subscription = None

    def request(self, n: int) -> None:
        if self.subscription is not None:
            self.subscription.request(n)

    def cancel(self) -> None:
        subscription, self.subscription = self.subscription, None
        if subscription is not None:
            subscription.cancel()


async def late_calls(case: FlowCase, sent: int, demand: int, error: BaseException | None, within: str) -> list[str]:
    """What the operator asks of an upstream that has ended, while downstream requests and then cancels."""
    upstream, downstream = Upstream(), Downstream(within)
    source: Source[int] = Source(lambda _m: (upstream, None))
    running = source.via(case.flow()).to(Sink.from_subscriber(lambda: downstream)).run()
    await settle()
    if demand:
        downstream.request(demand)
        await settle()
    upstream.send(sent)
    upstream.end(error)
    if within == "request":
        downstream.request(1)
        await settle(1)
        downstream.request(20)
    await settle()
    downstream.cancel()
    await settle()
    running.abandon()
    with contextlib.suppress(Exception, asyncio.CancelledError):
        await running
    return upstream.late


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_nothing_is_asked_of_an_upstream_that_has_ended_rule_2_4(case: FlowCase) -> None:
    async def main() -> None:
        for error in (None, OSError("broken")):
            for sent in (0, 1, 5):
                for demand in (0, 3):
                    for within in ("nothing", "request", "cancel"):
                        late = await late_calls(case, sent, demand, error, within)
                        assert not late, (
                            f"after {sent} elements, {demand} asked for, {error!r}, {within} within on_next: {late}"
                        )

    run_in_virtual_time(main())


def test_the_check_sees_a_stage_that_cancels_late() -> None:

    class Late(ControlledStage[int, int]):
        def on_next(self, element: int) -> None:
            self._push(element)

        def on_complete(self) -> None:
            """Forgets that it is over."""

        def _demanded(self, n: int) -> None:
            self._upstream.request(n)

    async def main() -> None:
        case = FlowCase("late", lambda: Flow.from_stage(lambda downstream, _m: Late(downstream, "late")))
        assert await late_calls(case, 1, 1, None, "nothing") == ["cancel()"]

    run_in_virtual_time(main())
