"""What tests of substreams share: the live objects of a kind, sources that emit within request, and substreams in a test's hands."""

from __future__ import annotations

import gc
from collections.abc import Iterable
from typing import Any

from streams import Flow, Source, Subscriber, Subscription
from streams.testkit import TestSubscriber, elapse

_NOTHING = object()


class _Immediate(Subscription):
    """Emits from within request, and ends with the last element or at once: what deepens a stack if anything does."""

    def __init__(self, subscriber: Subscriber[Any], elements: Iterable[Any]) -> None:
        self._subscriber = subscriber
        self._elements = iter(elements)
        self._next = next(self._elements, _NOTHING)
        self._demand = 0
        self._busy = False
        self._done = False

    def start(self) -> None:
        self._subscriber.on_subscribe(self)
        if self._next is _NOTHING and not self._done:
            self._done = True
            self._subscriber.on_complete()

    def request(self, n: int) -> None:
        self._demand += n
        if self._busy or self._next is _NOTHING:
            return
        self._busy = True
        while self._demand and not self._done:
            self._demand -= 1
            element, self._next = self._next, next(self._elements, _NOTHING)
            self._subscriber.on_next(element)
            if self._next is _NOTHING and not self._done:
                self._done = True
                self._subscriber.on_complete()
        self._busy = False

    def cancel(self) -> None:
        self._done = True


class _ImmediatePublisher:
    def __init__(self, elements: Iterable[Any]) -> None:
        self._elements = elements

    def subscribe(self, subscriber: Subscriber[Any]) -> None:
        _Immediate(subscriber, self._elements).start()


def immediate(elements: Iterable[Any]) -> Source[Any]:
    """A source that begins, emits and ends on the spot, without a turn of the loop."""
    return Source.from_publisher(lambda: _ImmediatePublisher(elements))


def live(*kinds: type) -> int:
    """How many objects of exactly those kinds there are."""
    gc.collect()
    return sum(1 for each in gc.get_objects() if type(each) in kinds)


def subscribed(substream: Any) -> TestSubscriber[Any]:
    """A probe that is subscribed to a substream."""
    probe: TestSubscriber[Any] = TestSubscriber()
    substream.subscribe(probe)
    return probe


def raw(description: Any) -> Flow[Any, Any]:
    """The flow of substreams that a `SubFlow` puts together again."""
    flow: Flow[Any, Any] = description._parent.via(description._splitter)
    return flow


async def later(value: int) -> int:
    """Takes a time that depends on the value, so that results come out of order."""
    await elapse((value % 7) / 10)
    return value
