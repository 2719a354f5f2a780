"""Values that are due at once: what a function gives that nobody awaits."""

from __future__ import annotations

from collections.abc import Awaitable
from inspect import iscoroutine
from typing import TypeVar

T = TypeVar("T")


def plain(value: T) -> T:
    """``value`` itself, unless it would have to be awaited: then the function behind it was meant for another operator.

    Raises:
        TypeError: it is awaitable. As a predicate's answer it would be taken for true, as a key for one of its own.
    """
    if isinstance(value, Awaitable):
        if iscoroutine(value):
            value.close()  # it is never awaited, which is said here
        raise TypeError(
            f"the function has returned an awaitable ({type(value).__name__}), which nobody here awaits: use a plain function, or "
            "find the answer in a map_async in front of this"
        )
    return value


def truth(answer: object) -> bool:
    """Whether a predicate's ``answer`` is true.

    Raises:
        TypeError: it is awaitable, as in `plain`.
    """
    return answer is True or (answer is not False and bool(plain(answer)))
