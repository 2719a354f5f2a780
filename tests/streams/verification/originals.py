"""The publishers, subscribers and processors that the mutants are made of: as small as the rules allow, and correct.

Each is cut into steps so that a mutant replaces the one step its rule is about. They are no part of `streams` on purpose: what the kit is
tested with must not be what it will judge.
"""

from __future__ import annotations

import asyncio
from typing import Any

from streams.contract import UNBOUNDED, Processor, Publisher, Subscriber, Subscription

BUDGET = 1024
"""Elements in one turn of the loop: an endless publisher under endless demand must let others run."""


def refuse_none(signal: Any) -> None:
    if signal is None:
        raise TypeError("None is no signal (Reactive Streams 2.13)")


class Nothing(Subscription):
    """The subscription of one who is refused."""

    def request(self, n: int) -> None:
        """Nothing."""

    def cancel(self) -> None:
        """Nothing."""


class NumbersSubscription(Subscription):
    """0, 1, 2, ... for one subscriber."""

    def __init__(self, subscriber: Subscriber[int], elements: int) -> None:
        self.subscriber: Subscriber[int] | None = subscriber
        self.elements = elements
        self.position = 0
        self.demand = 0
        self.emitting = False

    def start(self) -> None:
        self.subscribe()
        if self.position >= self.elements:
            self.complete()

    def subscribe(self) -> None:
        if self.subscriber is not None:
            self.subscriber.on_subscribe(self)

    def request(self, n: int) -> None:
        if self.subscriber is None:
            return
        if n < 1:
            self.refuse(n)
            return
        self.add(n)
        self.emit()

    def cancel(self) -> None:
        self.subscriber = None

    def add(self, n: int) -> None:
        self.demand = min(UNBOUNDED, self.demand + n)

    def refuse(self, n: int) -> None:
        self.fail(ValueError(f"request({n}): at least 1 (Reactive Streams 3.9)"))

    def emit(self) -> None:
        if self.emitting:
            return
        self.emitting = True
        budget = BUDGET
        while self.subscriber is not None and self.position < self.elements and self.demand > 0 and budget > 0:
            budget -= 1
            self.demand -= 1
            self.position += 1
            try:
                self.next(self.subscriber, self.position - 1)
            except Exception:
                self.cancel()  # one who raises is considered cancelled (2.13)
                raise
        self.emitting = False
        if self.position >= self.elements:
            self.complete()
        elif budget == 0:
            asyncio.get_running_loop().call_soon(self.emit)

    def next(self, subscriber: Subscriber[int], element: int) -> None:
        subscriber.on_next(element)

    def complete(self) -> None:
        subscriber, self.subscriber = self.subscriber, None
        if subscriber is not None:
            subscriber.on_complete()

    def fail(self, error: BaseException) -> None:
        subscriber, self.subscriber = self.subscriber, None
        if subscriber is not None:
            subscriber.on_error(error)


class Numbers(Publisher[int]):
    """``elements`` numbers for each subscriber.

    Attributes:
        subscription: what serves a subscriber; most mutants replace it.
    """

    subscription: type[NumbersSubscription] = NumbersSubscription

    def __init__(self, elements: int) -> None:
        self.elements = elements

    def subscribe(self, subscriber: Subscriber[int]) -> None:
        refuse_none(subscriber)
        self.serve(subscriber)

    def serve(self, subscriber: Subscriber[int]) -> None:
        self.subscription(subscriber, self.elements).start()


class Failed(Publisher[int]):
    """Fails every subscriber."""

    def subscribe(self, subscriber: Subscriber[int]) -> None:
        refuse_none(subscriber)
        subscriber.on_subscribe(Nothing())
        subscriber.on_error(OSError("as it is meant to"))


class Puppet:
    """What the kit steers a `Told` by."""

    def __init__(self, subscriber: Told) -> None:
        self.subscriber = subscriber

    def trigger_request(self, n: int) -> None:
        self.subscriber.ask(n)

    def signal_cancel(self) -> None:
        self.subscriber.stop()


class Told(Subscriber[int]):
    """Tells a probe all it gets, and does what the probe's puppet is told."""

    def __init__(self, probe: Any) -> None:
        self.probe = probe
        self.subscription: Subscription | None = None
        self.over = False

    def on_subscribe(self, subscription: Subscription) -> None:
        refuse_none(subscription)
        if self.subscription is not None:
            self.second(subscription)
            return
        self.subscription = subscription
        self.probe.register_on_subscribe(Puppet(self))

    def second(self, subscription: Subscription) -> None:
        subscription.cancel()

    def on_next(self, element: int) -> None:
        refuse_none(element)
        self.probe.register_on_next(element)

    def on_error(self, error: BaseException) -> None:
        refuse_none(error)
        self.over = True
        self.probe.register_on_error(error)

    def on_complete(self) -> None:
        self.over = True
        self.probe.register_on_complete()

    def ask(self, n: int) -> None:
        if self.subscription is not None and not self.over:
            self.subscription.request(n)

    def stop(self) -> None:
        if self.subscription is not None and not self.over:
            self.over = True
            self.subscription.cancel()


class Adding(Subscriber[int]):
    """Adds up what it gets, one request for each element: a subscriber that nobody looks into."""

    def __init__(self) -> None:
        self.subscription: Subscription | None = None
        self.total = 0
        self.result: int | BaseException | None = None

    def on_subscribe(self, subscription: Subscription) -> None:
        refuse_none(subscription)
        if self.subscription is not None:
            self.second(subscription)
            return
        self.subscription = subscription
        self.ask()

    def second(self, subscription: Subscription) -> None:
        subscription.cancel()

    def ask(self) -> None:
        if self.subscription is not None and self.result is None:
            self.subscription.request(1)

    def on_next(self, element: int) -> None:
        refuse_none(element)
        self.total += 1
        self.ask()

    def on_error(self, error: BaseException) -> None:
        refuse_none(error)
        self.result = error

    def on_complete(self) -> None:
        self.result = self.total


class AddingThree(Adding):
    """Has enough with three elements."""

    def on_next(self, element: int) -> None:
        refuse_none(element)
        if self.result is not None:
            return
        self.total += 1
        if self.total < 3:
            self.ask()
        else:
            self.result = self.total
            if self.subscription is not None:
                self.subscription.cancel()

    def on_error(self, error: BaseException) -> None:
        refuse_none(error)
        if self.result is None:
            self.result = error

    def on_complete(self) -> None:
        if self.result is None:
            self.result = self.total


class PassOn(Processor[int, int], Subscription):
    """Hands everything through to one subscriber, demand the other way; the two sides come in any order."""

    def __init__(self) -> None:
        self.upstream: Subscription | None = None
        self.downstream: Subscriber[int] | None = None
        self.taken = False
        self.over = False
        self.failure: BaseException | None = None

    # Publisher

    def subscribe(self, subscriber: Subscriber[int]) -> None:
        refuse_none(subscriber)
        if self.taken:
            subscriber.on_subscribe(Nothing())
            subscriber.on_error(RuntimeError("a processor for one subscriber"))
            return
        self.taken = True
        self.downstream = subscriber
        self.join()

    def join(self) -> None:
        """Downstream gets its subscription when there is something behind it."""
        if self.downstream is None or (self.upstream is None and not self.over):
            return
        self.downstream.on_subscribe(self)
        if self.over:
            self.end()

    # Subscription

    def request(self, n: int) -> None:
        if self.downstream is None:
            return
        if n < 1:
            self.refuse(n)
        elif self.upstream is not None:
            self.upstream.request(n)

    def refuse(self, n: int) -> None:
        self.over = True
        self.failure = ValueError(f"request({n}): at least 1 (Reactive Streams 3.9)")
        if self.upstream is not None:
            self.upstream.cancel()
        self.end()

    def cancel(self) -> None:
        if self.downstream is None:
            return
        self.downstream = None
        if self.upstream is not None and not self.over:
            self.upstream.cancel()
        self.over = True

    # Subscriber

    def on_subscribe(self, subscription: Subscription) -> None:
        refuse_none(subscription)
        if self.upstream is not None or self.over:
            self.second(subscription)
            return
        self.upstream = subscription
        self.join()

    def second(self, subscription: Subscription) -> None:
        subscription.cancel()

    def on_next(self, element: int) -> None:
        refuse_none(element)
        if self.downstream is not None:
            self.next(self.downstream, element)

    def next(self, downstream: Subscriber[int], element: int) -> None:
        downstream.on_next(element)

    def on_error(self, error: BaseException) -> None:
        refuse_none(error)
        self.failure = error
        self.over = True
        self.end()

    def on_complete(self) -> None:
        self.over = True
        self.end()

    def end(self) -> None:
        downstream, self.downstream = self.downstream, None
        if downstream is None:
            return
        if self.failure is None:
            downstream.on_complete()
        else:
            downstream.on_error(self.failure)
