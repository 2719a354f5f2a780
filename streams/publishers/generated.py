"""Sources that are made of a function or a state: unfold, cycle. Generators, so that they cost what an iterable costs."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Iterator
from typing import Any, Final, TypeVar

from streams.errors import FAILURES
from streams.stages.stage import describe

S = TypeVar("S")
T = TypeVar("T")

_NOTHING: Final[Any] = object()


def unfolded(state: S, f: Callable[[S], tuple[S, T] | None]) -> Iterator[T]:
    """The elements of ``state, element = f(state)``, until that is None."""
    while True:
        try:
            step = f(state)
            if step is None:
                return
            state, element = step
        except FAILURES as error:
            error.add_note(f"in the source {describe('unfold', f)}")
            raise
        yield element


async def unfolded_async(state: S, f: Callable[[S], Awaitable[tuple[S, T] | None]]) -> AsyncIterator[T]:
    """The elements of ``state, element = await f(state)``, until that is None."""
    while True:
        try:
            step = await f(state)
            if step is None:
                return
            state, element = step
        except FAILURES as error:
            error.add_note(f"in the source {describe('unfold_async', f)}")
            raise
        yield element


def cycled(opened: Callable[[], Iterable[T]]) -> Iterator[T]:
    """What ``opened()`` gives, then again, and again.

    Raises:
        ValueError: it gives nothing, and would for ever.
    """
    while True:
        elements = iter(opened())
        first = next(elements, _NOTHING)
        if first is _NOTHING:
            raise ValueError("cycle: the iterable gave no element, so there is nothing to repeat")
        yield first
        yield from elements


def repeatable(iterable: Iterable[T] | Callable[[], Iterable[T]]) -> Callable[[], Iterable[T]]:
    """What opens ``iterable`` again for each turn of `cycled`.

    Raises:
        TypeError: it cannot be gone through twice, or is neither iterable nor callable.
    """
    if isinstance(iterable, Iterable):
        if iterable is iter(iterable):
            raise TypeError(
                f"cycle: a {type(iterable).__name__} can be gone through once only: give a function that makes it"
            )
        return lambda: iterable
    if callable(iterable):
        return iterable
    raise TypeError(f"cycle needs an iterable or a function that returns one, not {type(iterable).__name__}")
