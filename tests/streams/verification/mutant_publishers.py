"""Publishers, and what serves their subscribers, each with one rule broken."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from typing import Any

from streams.contract import UNBOUNDED, Subscriber
from tests.streams.verification.mutants import breaks
from tests.streams.verification.originals import Failed, Nothing, Numbers, NumbersSubscription

INT32 = 1 << 32
INT64 = 1 << 64


def in_thread(signal: Callable[[], object]) -> None:
    """Calls ``signal`` on another thread, and returns when it has."""
    thread = threading.Thread(target=signal, name="a stranger")
    thread.start()
    thread.join()


# 1.1-1.11: what a publisher signals


@breaks("1.1")
class Unasked(NumbersSubscription):
    """The first element comes without demand."""

    def subscribe(self) -> None:
        super().subscribe()
        self.add(1)
        self.emit()


@breaks("1.1")
class OneMore(NumbersSubscription):
    """One more element comes for each request."""

    def add(self, n: int) -> None:
        super().add(n + 1)


@breaks("1.1")
class NothingComes(NumbersSubscription):
    """Demand is taken, and no signal ever comes."""

    def emit(self) -> None:
        pass


@breaks("1.2")
class AllOrNothing(NumbersSubscription):
    """With more demand than elements no element comes."""

    def emit(self) -> None:
        if self.demand <= self.elements - self.position:
            super().emit()


@breaks("1.2")
class FilledUp(NumbersSubscription):
    """What is short of demand is filled up with the last element."""

    def complete(self) -> None:
        while self.demand > 0 and self.subscriber is not None:
            self.demand -= 1
            self.subscriber.on_next(self.elements)
        super().complete()


@breaks("1.3")
class FromAThread(NumbersSubscription):
    """Elements are signalled on another thread."""

    def next(self, subscriber: Subscriber[int], element: int) -> None:
        in_thread(lambda: subscriber.on_next(element))


@breaks("1.3")
class EndsFromAThread(NumbersSubscription):
    """The end is signalled on another thread."""

    def complete(self) -> None:
        if self.subscriber is not None:
            in_thread(super().complete)


@breaks("1.3")
class WithinAnother(NumbersSubscription):
    """An element that is requested within on_next is signalled within that on_next."""

    def add(self, n: int) -> None:
        super().add(n)
        self.emitting = False


@breaks("1.4")
class SilentFailure(Failed):
    """A failure is not signalled."""

    def subscribe(self, subscriber: Subscriber[int]) -> None:
        subscriber.on_subscribe(Nothing())


@breaks("1.4")
class RaisedFailure(Failed):
    """A failure is raised into subscribe instead of being signalled."""

    def subscribe(self, subscriber: Subscriber[int]) -> None:
        subscriber.on_subscribe(Nothing())
        raise OSError("not signalled")


@breaks("1.4")
class FailureAsEnd(Failed):
    """A failure is signalled as the end."""

    def subscribe(self, subscriber: Subscriber[int]) -> None:
        subscriber.on_subscribe(Nothing())
        subscriber.on_complete()


@breaks("1.4")
class FailureOnDemand(Failed):
    """A failure waits for demand."""

    def subscribe(self, subscriber: Subscriber[int]) -> None:
        class OnDemand(Nothing):
            def request(self, n: int) -> None:
                subscriber.on_error(OSError("late"))

        subscriber.on_subscribe(OnDemand())


@breaks("1.5")
class NoEnd(NumbersSubscription):
    """After the last element nothing comes."""

    def complete(self) -> None:
        pass


@breaks("1.5")
class EndAsFailure(NumbersSubscription):
    """The end is signalled as a failure."""

    def complete(self) -> None:
        self.fail(EOFError("no more numbers"))


@breaks("1.6")
class InvalidAfterTheEnd(NumbersSubscription):
    """An invalid request after the end is answered with an error."""

    def start(self) -> None:
        self.first = self.subscriber
        super().start()

    def request(self, n: int) -> None:
        if self.subscriber is None and self.first is not None and n < 1:
            self.first.on_error(ValueError("3.9"))
        super().request(n)


@breaks("1.7")
class EndTwice(NumbersSubscription):
    """A request after the end is answered with the end again."""

    def complete(self) -> None:
        if self.subscriber is not None:
            self.subscriber.on_complete()


@breaks("1.7")
class ElementsAfterTheEnd(NumbersSubscription):
    """A request after the end is answered with elements."""

    def complete(self) -> None:
        if self.subscriber is not None:
            self.subscriber.on_complete()
            self.position = 0


@breaks("1.7")
class ElementsAfterAFailure(NumbersSubscription):
    """Elements go on to come after on_error."""

    def fail(self, error: BaseException) -> None:
        if self.subscriber is not None:
            self.subscriber.on_error(error)


@breaks("1.7")
class EndAfterAFailure(NumbersSubscription):
    """on_complete follows on_error."""

    def fail(self, error: BaseException) -> None:
        if self.subscriber is not None:
            self.subscriber.on_error(error)
            self.complete()


@breaks("1.8")
class EndAfterCancel(NumbersSubscription):
    """A subscriber that has cancelled is told the end."""

    def cancel(self) -> None:
        subscriber, self.subscriber = self.subscriber, None
        if subscriber is not None:
            asyncio.get_running_loop().call_soon(subscriber.on_complete)


@breaks("1.8")
class CancelledUntilAsked(NumbersSubscription):
    """A request after cancel brings the elements back."""

    def cancel(self) -> None:
        self.demand = 0


@breaks("1.9")
class NoneTaken(Numbers):
    """subscribe(None) is passed over."""

    def subscribe(self, subscriber: Subscriber[int]) -> None:
        if subscriber is not None:
            self.serve(subscriber)


@breaks("1.9")
class NoneOfAnotherKind(Numbers):
    """subscribe(None) raises something other than TypeError."""

    def subscribe(self, subscriber: Subscriber[int]) -> None:
        if subscriber is None:
            raise ValueError("no subscriber")
        self.serve(subscriber)


@breaks("1.9")
class NoSubscription(NumbersSubscription):
    """on_subscribe is never called."""

    def subscribe(self) -> None:
        pass


@breaks("1.9")
class ElementFirst(NumbersSubscription):
    """An element comes before on_subscribe."""

    def subscribe(self) -> None:
        self.add(1)
        self.emit()
        super().subscribe()


@breaks("1.9")
class EndFirst(NumbersSubscription):
    """The end comes before on_subscribe."""

    def start(self) -> None:
        subscriber = self.subscriber
        self.complete()
        self.subscriber = subscriber
        super().start()


@breaks("1.9")
class FailureFirst(Failed):
    """A subscriber is refused without on_subscribe."""

    def subscribe(self, subscriber: Subscriber[int]) -> None:
        subscriber.on_error(OSError("without on_subscribe"))


@breaks("1.9")
class RefusesByRaising(Failed):
    """A subscriber is refused by an exception."""

    def subscribe(self, subscriber: Subscriber[int]) -> None:
        raise RuntimeError("no more subscribers")


class Once(Numbers):
    """Mutants that are broken for whoever comes second."""

    def __init__(self, elements: int) -> None:
        super().__init__(elements)
        self.first: NumbersSubscription | None = None

    def serve(self, subscriber: Subscriber[int]) -> None:
        if self.first is None:
            self.first = self.subscription(subscriber, self.elements)
            self.first.start()
        else:
            self.serve_another(self.first, subscriber)

    def serve_another(self, first: NumbersSubscription, subscriber: Subscriber[int]) -> None:
        """What is broken."""


@breaks("1.10")
class SecondRaises(Once):
    """subscribe raises the second time."""

    def serve_another(self, first: NumbersSubscription, subscriber: Subscriber[int]) -> None:
        raise RuntimeError("one subscriber only")


@breaks("1.10")
class SecondReplaces(Once):
    """The second subscriber is served in the place of the first."""

    def serve_another(self, first: NumbersSubscription, subscriber: Subscriber[int]) -> None:
        first.cancel()
        self.subscription(subscriber, self.elements).start()


@breaks("1.10")
class SecondIgnored(Once):
    """The second subscriber gets no signal, not even on_subscribe."""


@breaks("1.11")
class SecondStarves(Once):
    """The second subscriber gets a subscription, and then neither elements nor an end."""

    def serve_another(self, first: NumbersSubscription, subscriber: Subscriber[int]) -> None:
        subscriber.on_subscribe(Nothing())


@breaks("2.12")
class SubscribedTwice(NumbersSubscription):
    """on_subscribe is called twice on one subscriber."""

    def subscribe(self) -> None:
        super().subscribe()
        super().subscribe()


@breaks("2.12")
class SubscribedAgainByTheFirstElement(NumbersSubscription):
    """on_subscribe is called again with the first element."""

    def next(self, subscriber: Subscriber[int], element: int) -> None:
        if element == 0:
            subscriber.on_subscribe(self)
        super().next(subscriber, element)


@breaks("2.13")
class GoesOnAfterARaise(NumbersSubscription):
    """A subscriber that raises is sent the next element."""

    def next(self, subscriber: Subscriber[int], element: int) -> None:
        try:
            subscriber.on_next(element)
        except Exception as error:  # noqa: BLE001 - what is broken
            asyncio.get_running_loop().call_soon(subscriber.on_error, error)


# 3.1-3.17: what a subscription does


@breaks("3.2")
class DeafInOnSubscribe(NumbersSubscription):
    """A request within on_subscribe is lost."""

    def subscribe(self) -> None:
        self.emitting = True
        super().subscribe()
        self.emitting = False
        self.demand = 0


@breaks("3.2")
class DeafInOnNext(NumbersSubscription):
    """A request within on_next is lost."""

    def add(self, n: int) -> None:
        if not self.emitting:
            super().add(n)


@breaks("3.2")
class RaisesInOnNext(NumbersSubscription):
    """A request within on_next raises."""

    def add(self, n: int) -> None:
        if self.emitting:
            raise RuntimeError("not now")
        super().add(n)


@breaks("3.3")
class Recursive(NumbersSubscription):
    """A request within on_next nests the next on_next in it, without bound."""

    def emit(self) -> None:
        if self.subscriber is None or self.demand < 1:
            return
        if self.position >= self.elements:
            self.complete()
            return
        self.demand -= 1
        self.position += 1
        self.next(self.subscriber, self.position - 1)
        self.emit()


@breaks("3.4")
class AllInOneTurn(NumbersSubscription):
    """A request for everything does not return before everything has come."""

    def emit(self) -> None:
        while self.subscriber is not None and self.position < self.elements and self.demand > 0:
            super().emit()


@breaks("3.5")
class CancelEnds(NumbersSubscription):
    """cancel signals the end before it returns."""

    def cancel(self) -> None:
        self.complete()


@breaks("3.5")
class CancelDrains(NumbersSubscription):
    """cancel signals the next elements, if they were requested, before it returns."""

    def cancel(self) -> None:
        for _ in range(3):
            if self.subscriber is not None and self.position < self.elements and self.demand > 0:
                self.demand -= 1
                self.position += 1
                self.next(self.subscriber, self.position - 1)
        super().cancel()


@breaks("3.5")
class CancelCounts(NumbersSubscription):
    """cancel works through the demand that is left, one element at a time."""

    def cancel(self) -> None:
        while self.demand > 0:
            self.demand -= 1
        super().cancel()


@breaks("3.6")
class RequestAfterCancelCounts(NumbersSubscription):
    """A request after cancel brings elements."""

    def cancel(self) -> None:
        self.demand = 0


@breaks("3.6")
class InvalidAfterCancel(NumbersSubscription):
    """An invalid request after cancel brings on_error."""

    def start(self) -> None:
        self.first = self.subscriber
        super().start()

    def request(self, n: int) -> None:
        if self.subscriber is None and self.first is not None and n < 1:
            self.first.on_error(ValueError("3.9"))
        super().request(n)


@breaks("3.6")
class RaisesAfterCancel(NumbersSubscription):
    """A request after cancel raises."""

    def request(self, n: int) -> None:
        if self.subscriber is None:
            raise RuntimeError("cancelled")
        super().request(n)


@breaks("3.7")
class SecondCancelRaises(NumbersSubscription):
    """The second cancel raises."""

    def cancel(self) -> None:
        if self.subscriber is None:
            raise RuntimeError("cancelled already")
        super().cancel()


@breaks("3.7")
class SecondCancelEnds(NumbersSubscription):
    """The second cancel brings on_complete."""

    def start(self) -> None:
        self.first = self.subscriber
        super().start()

    def cancel(self) -> None:
        if self.subscriber is None and self.first is not None:
            self.first.on_complete()
        super().cancel()


@breaks("3.8")
class LastRequestCounts(NumbersSubscription):
    """A request replaces the demand there is."""

    def request(self, n: int) -> None:
        # In a turn of its own, so that several requests meet.
        self.demand = 0
        self.add(n)
        asyncio.get_running_loop().call_soon(self.emit)


@breaks("3.8")
class FirstRequestCounts(NumbersSubscription):
    """Only the first request is heard."""

    def add(self, n: int) -> None:
        if self.position == 0:
            super().add(n)


class Refusing(NumbersSubscription):
    """Mutants that answer an invalid request wrongly."""


@breaks("3.9")
class InvalidIgnored(Refusing):
    """request(0) and request(-1) are passed over."""

    def refuse(self, n: int) -> None:
        pass


@breaks("3.9")
class ZeroIgnored(Refusing):
    """request(0) is passed over."""

    def refuse(self, n: int) -> None:
        if n:
            super().refuse(n)


@breaks("3.9")
class NegativeIgnored(Refusing):
    """request(-1) is passed over."""

    def refuse(self, n: int) -> None:
        if not n:
            super().refuse(n)


@breaks("3.9")
class InvalidOfAnotherKind(Refusing):
    """An invalid request fails the stream with another error than ValueError."""

    def refuse(self, n: int) -> None:
        self.fail(RuntimeError(f"request({n})"))


@breaks("3.9")
class InvalidEnds(Refusing):
    """An invalid request ends the stream as if it were through."""

    def refuse(self, n: int) -> None:
        self.complete()


@breaks("3.9")
class InvalidRaises(Refusing):
    """An invalid request raises instead of signalling."""

    def refuse(self, n: int) -> None:
        raise ValueError(f"request({n})")


@breaks("3.12")
class CancelIgnored(NumbersSubscription):
    """cancel does nothing: what was requested goes on to come, in its time."""

    def emit(self) -> None:
        asyncio.get_running_loop().call_later(0.0 if self.position == 0 else 0.3, self.emit_one)

    def emit_one(self) -> None:
        if self.subscriber is not None and self.demand > 0 and self.position < self.elements:
            self.demand -= 1
            self.position += 1
            self.next(self.subscriber, self.position - 1)
            self.emit()

    def cancel(self) -> None:
        pass


class Kept(NumbersSubscription):
    """Refers to its subscriber even when that has cancelled."""

    def cancel(self) -> None:
        self.kept = self.subscriber
        super().cancel()


@breaks("3.13")
class KeepsSubscriptions(Numbers):
    """After cancel the publisher still refers to the subscription, and that to the subscriber."""

    def serve(self, subscriber: Subscriber[int]) -> None:
        self.kept = Kept(subscriber, self.elements)
        self.kept.start()


@breaks("3.13")
class PublisherKeepsSubscribers(Numbers):
    """After cancel the publisher still refers to its subscriber."""

    def serve(self, subscriber: Subscriber[int]) -> None:
        self.kept: list[Any] = [subscriber]
        super().serve(subscriber)


@breaks("3.14")
class MuteAfterCancel(Once):
    """Once its subscriber has cancelled, the publisher neither serves nor refuses another."""

    def serve_another(self, first: NumbersSubscription, subscriber: Subscriber[int]) -> None:
        if first.subscriber is None:
            subscriber.on_subscribe(Nothing())
        else:
            self.subscription(subscriber, self.elements).start()


@breaks("3.15")
class CancelRaises(NumbersSubscription):
    """cancel raises."""

    def cancel(self) -> None:
        super().cancel()
        raise RuntimeError("must not be cancelled")


@breaks("3.15")
class CancelAfterTheEndRaises(NumbersSubscription):
    """cancel raises when the stream has ended."""

    def complete(self) -> None:
        self.through = True
        super().complete()

    def cancel(self) -> None:
        if getattr(self, "through", False):
            raise RuntimeError("nothing to cancel")
        super().cancel()


@breaks("3.16")
class RequestRaises(NumbersSubscription):
    """A valid request serves, then raises."""

    def request(self, n: int) -> None:
        super().request(n)
        raise RuntimeError("served")


@breaks("3.16")
class RequestAfterTheEndRaises(NumbersSubscription):
    """request raises when the stream has ended."""

    def request(self, n: int) -> None:
        if self.subscriber is None:
            raise RuntimeError("nobody to serve")
        super().request(n)


@breaks("3.17")
class WrapsAround(NumbersSubscription):
    """Demand beyond 2**63 - 1 wraps around to less than none, as in a 64-bit integer."""

    def add(self, n: int) -> None:
        self.demand += n
        if self.demand > UNBOUNDED:
            self.demand -= INT64


@breaks("3.17")
class FailsBeyond(NumbersSubscription):
    """Demand beyond 2**63 - 1 fails the stream."""

    def add(self, n: int) -> None:
        self.demand += n
        if self.demand > UNBOUNDED:
            self.fail(OverflowError("too much demand"))


@breaks("3.17")
class FailsAtTheMost(NumbersSubscription):
    """Demand of 2**63 - 1 fails the stream."""

    def add(self, n: int) -> None:
        self.demand += n
        if self.demand >= UNBOUNDED:
            self.fail(OverflowError("too much demand"))


@breaks("3.17")
class ThirtyTwoBits(NumbersSubscription):
    """Demand is counted in a 32-bit integer."""

    def add(self, n: int) -> None:
        self.demand = (self.demand + n + INT32 // 2) % INT32 - INT32 // 2
