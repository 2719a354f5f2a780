"""Subscribers with one rule broken: `Told`'s are looked into (white box), `Adding`'s are seen from outside (black box)."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from typing import Any

from streams.contract import Subscription
from tests.streams.verification.mutants import breaks
from tests.streams.verification.originals import Adding, AddingThree, Told, refuse_none


def in_thread(call: Callable[[], object]) -> None:
    """Calls ``call`` on another thread, and returns when it has."""
    thread = threading.Thread(target=call, name="a stranger")
    thread.start()
    thread.join()


def later(call: Callable[..., object], *arguments: Any) -> None:
    """Calls it in a turn of the loop of its own."""
    asyncio.get_running_loop().call_soon(call, *arguments)


# White box


@breaks("2.1")
class AsksForNothing(Told):
    """What is to be requested is not."""

    def ask(self, n: int) -> None:
        pass


@breaks("2.1")
class AsksForLessThanOne(Told):
    """It begins with request(0)."""

    def ask(self, n: int) -> None:
        if self.subscription is not None and not self.over:
            self.subscription.request(0)
        super().ask(n)


@breaks("2.3")
class CancelsInOnComplete(Told):
    """on_complete cancels the subscription."""

    def on_complete(self) -> None:
        if self.subscription is not None:
            self.subscription.cancel()
        super().on_complete()


@breaks("2.3")
class AsksInOnComplete(Told):
    """on_complete requests more."""

    def on_complete(self) -> None:
        self.ask(1)
        super().on_complete()


@breaks("2.3")
class CancelsInOnError(Told):
    """on_error cancels the subscription."""

    def on_error(self, error: BaseException) -> None:
        if self.subscription is not None and error is not None:
            self.subscription.cancel()
        super().on_error(error)


@breaks("2.3")
class AsksInOnError(Told):
    """on_error requests more."""

    def on_error(self, error: BaseException) -> None:
        if error is not None:
            self.ask(1)
        super().on_error(error)


@breaks("2.4")
class AsksAfterTheEnd(Told):
    """After on_complete more is requested, in a later turn."""

    def on_complete(self) -> None:
        super().on_complete()
        if self.subscription is not None:
            later(self.subscription.request, 1)


@breaks("2.4")
class CancelsAfterAFailure(Told):
    """After on_error the subscription is cancelled, in a later turn."""

    def on_error(self, error: BaseException) -> None:
        super().on_error(error)
        if self.subscription is not None:
            later(self.subscription.cancel)


@breaks("2.5")
class KeepsBoth(Told):
    """A second subscription is passed over, not cancelled."""

    def second(self, subscription: Subscription) -> None:
        pass


@breaks("2.5")
class Replaces(Told):
    """A second subscription takes the place of the first, which is cancelled."""

    def second(self, subscription: Subscription) -> None:
        if self.subscription is not None:
            self.subscription.cancel()
        self.subscription = subscription


@breaks("2.5")
class CancelsBoth(Told):
    """With the second subscription the first is cancelled too."""

    def second(self, subscription: Subscription) -> None:
        subscription.cancel()
        if self.subscription is not None:
            self.subscription.cancel()


@breaks("2.6")
class NeverCancels(Told):
    """A subscription that is not needed any more is not cancelled."""

    def stop(self) -> None:
        self.over = True


@breaks("2.7")
class AsksInAThread(Told):
    """request is called on another thread."""

    def ask(self, n: int) -> None:
        in_thread(lambda: Told.ask(self, n))


@breaks("2.7")
class CancelsInAThread(Told):
    """cancel is called on another thread."""

    def stop(self) -> None:
        in_thread(lambda: Told.stop(self))


@breaks("2.8")
class RaisesAfterCancel(Told):
    """An element that was on its way when it cancelled makes it raise."""

    def on_next(self, element: int) -> None:
        if self.over and element is not None:
            raise RuntimeError("cancelled")
        super().on_next(element)


class AskedBefore(Told):
    """Mutants that are ready for the end only when they have requested."""

    asked = False

    def ask(self, n: int) -> None:
        self.asked = True
        super().ask(n)


@breaks("2.9")
class DeafToAnEarlyEnd(AskedBefore):
    """An end that comes before any request is lost."""

    def on_complete(self) -> None:
        if self.asked:
            super().on_complete()


@breaks("2.9")
class RaisesAtAnEarlyEnd(AskedBefore):
    """An end that comes before any request makes it raise."""

    def on_complete(self) -> None:
        if not self.asked:
            raise RuntimeError("not yet")
        super().on_complete()


@breaks("2.9")
class DeafToALateEnd(AskedBefore):
    """An end that comes where elements were requested is lost."""

    def on_complete(self) -> None:
        if not self.asked:
            super().on_complete()


@breaks("2.10")
class DeafToAnEarlyFailure(AskedBefore):
    """A failure that comes before any request is lost."""

    def on_error(self, error: BaseException) -> None:
        if self.asked or error is None:
            super().on_error(error)


@breaks("2.10")
class RaisesAtAFailure(Told):
    """A failure is raised to the publisher."""

    def on_error(self, error: BaseException) -> None:
        super().on_error(error)
        raise error


@breaks("2.10")
class TakesFailureForEnd(Told):
    """A failure is told on as the end."""

    def on_error(self, error: BaseException) -> None:
        refuse_none(error)
        self.on_complete()


@breaks("2.11")
class EndOvertakes(Told):
    """Elements are dealt with in a later turn, the end at once: it overtakes them."""

    def on_next(self, element: int) -> None:
        refuse_none(element)
        later(super().on_next, element)


@breaks("2.11")
class Shuffles(Told):
    """Elements are dealt with in pairs, the later one first."""

    held: int | None = None

    def on_next(self, element: int) -> None:
        if element is None or self.held is None:
            refuse_none(element)
            self.held = element
            later(self.release)
            return
        held, self.held = self.held, None
        super().on_next(element)
        super().on_next(held)

    def release(self) -> None:
        held, self.held = self.held, None
        if held is not None:
            super().on_next(held)


@breaks("2.13")
class NoSubscriptionTaken(Told):
    """on_subscribe(None) is passed over."""

    def on_subscribe(self, subscription: Subscription) -> None:
        if subscription is not None:
            super().on_subscribe(subscription)


@breaks("2.13")
class NoElementTaken(Told):
    """on_next(None) is passed over."""

    def on_next(self, element: int) -> None:
        if element is not None:
            super().on_next(element)


@breaks("2.13")
class NoErrorTaken(Told):
    """on_error(None) is passed over."""

    def on_error(self, error: BaseException) -> None:
        if error is not None:
            super().on_error(error)


@breaks("2.13")
class NoneOfAnotherKind(Told):
    """on_next(None) raises something other than TypeError."""

    def on_next(self, element: int) -> None:
        if element is None:
            raise ValueError("no element")
        super().on_next(element)


@breaks("2.13")
class RaisesAtElements(Told):
    """on_next raises where it should cancel."""

    def on_next(self, element: int) -> None:
        super().on_next(element)
        raise RuntimeError("I do not like this one")


@breaks("3.1")
class UsesTheOther(Told):
    """It requests from a subscription that it was given second, and has cancelled."""

    def second(self, subscription: Subscription) -> None:
        super().second(subscription)
        self.subscription = subscription


@breaks("3.1")
class SharesItsSubscription(Told):
    """Its subscription is used by others, on their own thread."""

    def on_subscribe(self, subscription: Subscription) -> None:
        super().on_subscribe(subscription)
        if self.subscription is subscription:
            in_thread(lambda: subscription.request(1))


@breaks("3.8")
class AsksOnlyOnce(Told):
    """Of several requests only the first is made."""

    asked = False

    def ask(self, n: int) -> None:
        if not self.asked:
            self.asked = True
            super().ask(n)


class Busy(Told):
    """Mutants that are not ready for signals from within their own request."""

    asking = False

    def ask(self, n: int) -> None:
        self.asking = True
        super().ask(n)
        self.asking = False


@breaks("3.10")
class DeafWhileItAsks(Busy):
    """An element that comes from within its request is lost."""

    def on_next(self, element: int) -> None:
        if element is None or not self.asking:
            super().on_next(element)


@breaks("3.11")
class DeafToTheEndWhileItAsks(Busy):
    """An end that comes from within its request is lost."""

    def on_complete(self) -> None:
        if not self.asking:
            super().on_complete()


@breaks("3.11")
class DeafToAFailureWhileItAsks(Busy):
    """A failure that comes from within its request is lost."""

    def on_error(self, error: BaseException) -> None:
        if error is None or not self.asking:
            super().on_error(error)


# Black box


@breaks("2.1")
class NeverAsks(Adding):
    """It requests nothing."""

    def ask(self) -> None:
        pass


@breaks("2.3")
class AsksForMoreAtTheEnd(Adding):
    """on_complete requests more."""

    def on_complete(self) -> None:
        self.ask()
        super().on_complete()


@breaks("2.3")
class CancelsAtAFailure(Adding):
    """on_error cancels the subscription."""

    def on_error(self, error: BaseException) -> None:
        super().on_error(error)
        if self.subscription is not None:
            self.subscription.cancel()


@breaks("2.4")
class AsksOnAfterTheEnd(Adding):
    """After on_complete more is requested, in a later turn."""

    def on_complete(self) -> None:
        super().on_complete()
        if self.subscription is not None:
            later(self.subscription.request, 1)


@breaks("2.5")
class TakesASecond(Adding):
    """A second subscription takes the place of the first."""

    def second(self, subscription: Subscription) -> None:
        self.subscription = subscription
        self.ask()


@breaks("2.5")
class IgnoresASecond(Adding):
    """A second subscription is passed over, not cancelled."""

    def second(self, subscription: Subscription) -> None:
        pass


@breaks("2.9")
class NotReadyForTheEnd(Adding):
    """An end before the first element makes it raise."""

    def on_complete(self) -> None:
        if self.total == 0:
            raise RuntimeError("no element at all")
        super().on_complete()


@breaks("2.10")
class NotReadyForAFailure(Adding):
    """A failure is raised to the publisher."""

    def on_error(self, error: BaseException) -> None:
        super().on_error(error)
        raise error


@breaks("2.13")
class AddsNothing(Adding):
    """on_next(None) counts as an element."""

    def on_next(self, element: int) -> None:
        super().on_next(0)


@breaks("2.13")
class FailsOnNothing(Adding):
    """on_error(None) counts as a failure."""

    def on_error(self, error: BaseException) -> None:
        self.result = error


@breaks("2.13")
class SubscribedToNothing(Adding):
    """on_subscribe(None) counts as a subscription."""

    def on_subscribe(self, subscription: Subscription) -> None:
        if subscription is not None:
            super().on_subscribe(subscription)


@breaks("2.7")
class AsksFromAThread(Adding):
    """request is called on another thread."""

    def ask(self) -> None:
        in_thread(super().ask)


@breaks("2.8")
class RaisesWhenItHasEnough(AddingThree):
    """An element that was on its way when it cancelled makes it raise."""

    def on_next(self, element: int) -> None:
        if element is not None and self.result is not None:
            raise RuntimeError("I have enough")
        super().on_next(element)


@breaks("3.10")
class LosesWhatComesAtOnce(Adding):
    """An element that comes from within its request makes it raise."""

    asking = False

    def ask(self) -> None:
        self.asking = True
        super().ask()
        self.asking = False

    def on_next(self, element: int) -> None:
        if self.asking and element is not None:
            raise RuntimeError("not ready")
        super().on_next(element)


@breaks("3.11")
class NotReadyForTheEndAtOnce(Adding):
    """An end that comes from within its request makes it raise."""

    asking = False

    def ask(self) -> None:
        self.asking = True
        super().ask()
        self.asking = False

    def on_complete(self) -> None:
        if self.asking:
            raise RuntimeError("not ready")
        super().on_complete()
