"""Processors with one rule broken: rule 4.1 is both other sets of rules, so they break one on either side, and 4.2."""

from __future__ import annotations

from streams.contract import Subscriber, Subscription
from tests.streams.verification.mutants import breaks
from tests.streams.verification.originals import PassOn, refuse_none


@breaks("4.1")
class Doubles(PassOn):
    """Each element is signalled twice, whatever was requested."""

    def next(self, downstream: Subscriber[int], element: int) -> None:
        downstream.on_next(element)
        downstream.on_next(element)


@breaks("4.1")
class Loses(PassOn):
    """Every second element is dropped and none requested in its place."""

    count = 0

    def next(self, downstream: Subscriber[int], element: int) -> None:
        self.count += 1
        if self.count % 2:
            downstream.on_next(element)


@breaks("1.1")
class AsksForTwice(PassOn):
    """Upstream is asked for twice what downstream has asked for, and downstream gets it."""

    def request(self, n: int) -> None:
        super().request(n * 2)


@breaks("4.1")
class LosesTheEnd(PassOn):
    """The end of upstream is not signalled."""

    def on_complete(self) -> None:
        self.over = True


@breaks("4.1")
class KeepsUpstream(PassOn):
    """cancel does not reach upstream."""

    def cancel(self) -> None:
        self.downstream = None
        self.over = True


@breaks("1.1")
class DoublesOut(Doubles):
    """Each element is signalled twice, whatever was requested."""


@breaks("1.5")
class LosesTheEndOut(LosesTheEnd):
    """The end of upstream is not signalled."""


@breaks("1.9")
class TakesNobody(PassOn):
    """subscribe(None) is passed over."""

    def subscribe(self, subscriber: Subscriber[int]) -> None:
        if subscriber is not None:
            super().subscribe(subscriber)


@breaks("2.5")
class TwoUpstreams(PassOn):
    """A second subscription is passed over, not cancelled."""

    def second(self, subscription: Subscription) -> None:
        pass


@breaks("2.13")
class PassesNothingOn(PassOn):
    """on_next(None) is passed over."""

    def on_next(self, element: int) -> None:
        if element is not None:
            super().on_next(element)


@breaks("3.9")
class PassesInvalidDemandOn(PassOn):
    """An invalid request is passed over."""

    def refuse(self, n: int) -> None:
        pass


@breaks("3.13")
class KeepsDownstream(PassOn):
    """After cancel it still refers to its subscriber."""

    def cancel(self) -> None:
        self.kept = self.downstream
        super().cancel()


@breaks("4.2")
class SwallowsAFailure(PassOn):
    """A failure of upstream is neither recovered from nor signalled."""

    def on_error(self, error: BaseException) -> None:
        refuse_none(error)


@breaks("4.2")
class HoldsAFailureBack(PassOn):
    """A failure of upstream waits until downstream requests again."""

    def on_error(self, error: BaseException) -> None:
        refuse_none(error)
        self.failure = error

    def request(self, n: int) -> None:
        if self.failure is not None:
            self.over = True
            self.end()
        else:
            super().request(n)


@breaks("4.2")
class RecoversAndAsksOn(PassOn):
    """It recovers from a failure, but goes on to request from upstream."""

    def on_error(self, error: BaseException) -> None:
        refuse_none(error)
        if self.upstream is not None:
            self.upstream.request(1)
        self.on_complete()
