"""The same operators on the same elements, in plain reactivex and under demand: what came out and how it ended, to be compared."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Iterator
from typing import Any, NamedTuple

from reactivex.subject import Subject

from streams import Flow, Sink, Source, Subscriber, Subscription
from streams.testkit import run_in_virtual_time, settle


class Outcome(NamedTuple):
    """What came out.

    Attributes:
        elements: in order.
        end: "complete", or the failure's type and text.
    """

    elements: list[Any]
    end: object

    def comparable(self) -> tuple[str, str]:
        """Text, as the elements may be objects without equality: reactivex's notifications, say."""
        return str([str(element) for element in self.elements]), str(self.end)


def failure(error: BaseException) -> tuple[str, str]:
    return type(error).__name__, str(error)


def given(elements: Iterable[Any], error: Exception | None) -> Iterator[Any]:
    yield from elements
    if error is not None:
        raise error


def plain(
    operators: Iterable[Callable[[Any], Any]], elements: Iterable[Any], error: Exception | None = None
) -> Outcome:
    """What reactivex itself makes of it, when each element comes after what the one before has caused is through."""
    out: list[Any] = []
    end: list[object] = []
    subject: Subject[Any] = Subject()
    try:
        subject.pipe(*operators).subscribe(out.append, lambda e: end.append(failure(e)), lambda: end.append("complete"))
        for element in elements:
            subject.on_next(element)
        if error is None:
            subject.on_completed()
        else:
            subject.on_error(error)
    except Exception as raised:  # noqa: BLE001 - an operator that does not catch what its function raises
        end.append(failure(raised))
    assert len(end) == 1, "the operators have not ended"
    return Outcome(out, end[0])


class Recorder(Subscriber[Any]):
    """Asks by hand; an element beyond demand, or anything after the end, fails the test."""

    def __init__(self) -> None:
        self.asked = 0
        self.elements: list[Any] = []
        self.ends: list[object] = []
        self.subscription: Subscription | None = None

    def on_subscribe(self, subscription: Subscription) -> None:
        self.subscription = subscription

    def on_next(self, element: Any) -> None:
        assert not self.ends, f"{element!r} after the end"
        self.elements.append(element)
        assert len(self.elements) <= self.asked, f"{element!r} was not asked for"

    def on_error(self, error: BaseException) -> None:
        self.ends.append(failure(error))

    def on_complete(self) -> None:
        self.ends.append("complete")

    def request(self, n: int) -> None:
        assert self.subscription is not None
        self.asked += n
        self.subscription.request(n)


def under_demand(
    flow: Flow[Any, Any],
    elements: Iterable[Any],
    error: Exception | None = None,
    requests: tuple[int, ...] = (1,),
) -> Outcome:
    """What the flow makes of it when it is asked for as many at a time as ``requests`` says, over and over."""
    recorder = Recorder()

    async def main() -> None:
        source = Source.from_iterable(lambda: given(elements, error))
        running = source.via(flow).to(Sink.from_subscriber(lambda: recorder)).run()
        await settle()
        for n in itertools.cycle(requests):
            if recorder.ends:
                break
            assert len(recorder.elements) == recorder.asked, "less than was asked for, and no end"
            recorder.request(n)
            await settle()
        running.abandon()
        await settle()

    run_in_virtual_time(main(), io_grace=0)
    assert len(recorder.ends) == 1
    return Outcome(recorder.elements, recorder.ends[0])
