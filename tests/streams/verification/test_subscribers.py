"""The rules for subscribers, over every sink from outside, and over the stage of every operator from inside."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from streams import Publisher, Sink, Subscriber, Subscription
from streams.testkit import TestSubscriber
from streams.testkit.verification import (
    ProbingSubscriber,
    SubscriberBlackboxVerification,
    SubscriberWhiteboxVerification,
    WhiteboxProbe,
)
from streams.testkit.verification.blackbox import MOST_ELEMENTS
from tests.streams.catalogue import every
from tests.streams.catalogue.case import FlowCase, SinkCase
from tests.streams.verification.runs import Captured, Runs, mostly, verify_each_rule


def observed(observable: Any, pulling: list[Any]) -> Any:
    return None if pulling else observable.subscribe(on_error=lambda _error: None)


def subscribed(publisher: Publisher[int], pulling: list[Any]) -> Any:
    probe: TestSubscriber[int] = pulling[0] if pulling else TestSubscriber()
    if not pulling:
        publisher.subscribe(probe)
    probe.request(1)
    return None if pulling else probe


PULLS: dict[str, Callable[[Any, list[Any]], Any]] = {
    "queue": lambda queue, _: asyncio.ensure_future(queue.pull()),
    "as_async_iterator": lambda iterator, _: asyncio.ensure_future(anext(iterator)),
    "as_observable": observed,
    "as_publisher": subscribed,
}
"""How the sinks are made to ask that wait for somebody: with what they have materialized, and those that have pulled already."""


class Sinks(Runs, SubscriberBlackboxVerification[int]):
    case: SinkCase

    test_untested_spec202_blackbox_signals_are_dispatched_asynchronously_where_they_take_long = None

    def create_subscriber(self) -> Subscriber[int]:
        self.pulling: list[Any] = []
        return self.subscriber_of(self.case.sink())

    def trigger_request(self, subscriber: Subscriber[int]) -> None:
        if (pull := PULLS.get(self.case.name)) and (puller := pull(self.value(), self.pulling)) is not None:
            self.pulling.append(puller)

    async def tear_down(self) -> None:
        await super().tear_down()
        tasks = [puller for puller in getattr(self, "pulling", []) if isinstance(puller, asyncio.Task)]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def create_element(self, n: int) -> int:
        return n


@pytest.mark.parametrize("case", every.sinks(), ids=lambda case: case.name)
def test_a_sink_keeps_each_rule_for_subscribers(case: SinkCase) -> None:
    verify_each_rule(Sinks, case)


class Greedy(Subscriber[Any]):
    """Asks for more than the kit sends, and takes it."""

    def on_subscribe(self, subscription: Subscription) -> None:
        subscription.request(MOST_ELEMENTS)

    def on_next(self, element: Any) -> None:
        """Nothing is to be done."""

    def on_error(self, error: BaseException) -> None:
        """Nothing is to be done."""

    def on_complete(self) -> None:
        """Nothing is to be done."""


WITHOUT_IDENTITY = [case for case in every.flows() if not case.identity]


class EveryStage(Runs, SubscriberBlackboxVerification[int]):
    """The operators in forms that make something else of what comes in: what goes up is bound by the same rules.

    Those that have a form that lets everything through are verified in that one, from inside.
    """

    case: FlowCase

    test_untested_spec202_blackbox_signals_are_dispatched_asynchronously_where_they_take_long = None

    def create_subscriber(self) -> Subscriber[int]:
        return self.subscriber_of(self.case.flow().to(Sink.from_subscriber(Greedy)))

    def create_element(self, n: int) -> int:
        return n


@pytest.mark.parametrize("case", mostly(WITHOUT_IDENTITY), ids=lambda case: case.name)
def test_a_stage_in_another_form_keeps_each_rule_for_subscribers(case: FlowCase) -> None:
    verify_each_rule(EveryStage, case)


class Stages(Runs, SubscriberWhiteboxVerification[int]):
    case: FlowCase

    test_untested_spec202_signals_are_dispatched_asynchronously_where_they_take_long = None

    def create_subscriber(self, probe: WhiteboxProbe[int]) -> Subscriber[int]:
        assert self.case.identity is not None
        upstream = Captured()
        self.publisher_of(upstream.as_source().via(self.case.identity())).subscribe(ProbingSubscriber(probe))
        return upstream.taken()

    def create_element(self, n: int) -> int:
        return n


@pytest.mark.parametrize("case", [case for case in every.flows() if case.identity], ids=lambda case: case.name)
def test_a_stage_keeps_each_rule_for_subscribers(case: FlowCase) -> None:
    verify_each_rule(Stages, case)
