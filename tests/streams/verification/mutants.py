"""What a mutant is: something correct with one thing broken, the rule that this breaks, and the verification it is put before."""

from __future__ import annotations

import unittest
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final, TypeVar

from streams.contract import Publisher, Subscriber
from streams.testkit.verification import (
    IdentityProcessorVerification,
    PublisherVerification,
    SubscriberBlackboxVerification,
    SubscriberWhiteboxVerification,
)
from tests.streams.verification.originals import Adding, AddingThree, Failed, Numbers, NumbersSubscription, PassOn, Told

C = TypeVar("C", bound=type)

PASSED: Final = "passed"
SKIPPED: Final = "skipped"
CAUGHT: Final = "caught"


class OfNumbers(PublisherVerification[int]):
    """The kit over `Numbers`, or a mutant of it."""

    strict = True
    publisher: type[Numbers] = Numbers
    failing: type[Publisher[int]] = Failed

    def create_publisher(self, elements: int) -> Publisher[int]:
        return self.publisher(elements)

    def create_failed_publisher(self) -> Publisher[int]:
        return self.failing()


class OfTold(SubscriberWhiteboxVerification[int]):
    """The kit over `Told`, or a mutant of it, from inside."""

    strict = True
    subscriber: type[Told] = Told

    def create_subscriber(self, probe: Any) -> Subscriber[int]:
        return self.subscriber(probe)

    def create_element(self, n: int) -> int:
        return n


class OfAdding(SubscriberBlackboxVerification[int]):
    """The kit over `Adding`, or a mutant of it, from outside."""

    strict = True
    subscriber: type[Adding] = Adding

    def create_subscriber(self) -> Subscriber[int]:
        return self.subscriber()

    def create_element(self, n: int) -> int:
        return n


class OfAddingThree(OfAdding):
    """One that cancels by itself."""

    subscriber = AddingThree


class OfPassOn(IdentityProcessorVerification[int]):
    """The kit over `PassOn`, or a mutant of it."""

    strict = True
    processor: type[PassOn] = PassOn

    def create_processor(self, buffer_size: int) -> PassOn:
        return self.processor()

    def create_element(self, n: int) -> int:
        return n


ORIGINALS: Final[tuple[type[Any], ...]] = (OfNumbers, OfTold, OfAdding, OfAddingThree, OfPassOn)


@dataclass(frozen=True)
class Mutant:
    """One broken thing.

    Attributes:
        name: its class.
        kind: what it is.
        rule: what it breaks.
        how: in a sentence.
        verification: what is to catch it.
        original: the verification of what it is a mutant of.
    """

    name: str
    kind: str
    rule: str
    how: str
    verification: type[Any]
    original: type[Any]

    def tests(self) -> list[str]:
        """The kit's tests of its rule."""
        major, minor = self.rule.split(".")
        mark = f"_spec{major}{int(minor):02d}_"
        return [name for name in dir(self.verification) if name.startswith("test_") and mark in name]

    def caught_by(self) -> list[str]:
        """Those of them that fail."""
        return [name for name in self.tests() if outcome(self.verification, name) == CAUGHT]


def outcome(verification: type[Any], test: str) -> str:
    """How one test of the kit ends; only an AssertionError counts as caught, whatever else is raised gets out."""
    try:
        getattr(verification(), test)()
    except unittest.SkipTest:
        return SKIPPED
    except AssertionError:
        return CAUGHT
    return PASSED


MUTANTS: Final[list[Mutant]] = []
"""In the order of their definition; `mutants_table.every_mutant` fills it."""


def _note(kind: str, rule: str, cls: type[Any], base: type[Any], **put: Any) -> None:
    how = " ".join((cls.__doc__ or "").split()).removesuffix(".")
    assert how, f"{cls.__name__} does not say what it breaks"
    MUTANTS.append(Mutant(cls.__name__, kind, rule, how, type(f"Of{cls.__name__}", (base,), put), base))


def breaks(rule: str) -> Callable[[C], C]:
    """Registers a mutant of one of the originals."""

    def register(cls: C) -> C:
        if issubclass(cls, NumbersSubscription):
            publisher = type(cls.__name__, (Numbers,), {"subscription": cls})
            _note("publisher", rule, cls, OfNumbers, publisher=publisher)
        elif issubclass(cls, Numbers):
            _note("publisher", rule, cls, OfNumbers, publisher=cls)
        elif issubclass(cls, Failed):
            _note("publisher", rule, cls, OfNumbers, failing=cls)
        elif issubclass(cls, Told):
            _note("subscriber", rule, cls, OfTold, subscriber=cls)
        elif issubclass(cls, Adding):
            base = OfAddingThree if issubclass(cls, AddingThree) else OfAdding
            _note("subscriber, black box", rule, cls, base, subscriber=cls)
        else:
            assert issubclass(cls, PassOn), f"{cls.__name__} is no mutant of an original"
            _note("processor", rule, cls, OfPassOn, processor=cls)
        return cls

    return register
