"""Which materialized value a joined graph keeps: the left part's, the right part's, both, or the first that there is.

The names are those of Akka Streams. A part's materialized value is what a run of it gives its starter to hold: a `SourceQueue`, a kill
switch, a probe. Most parts have none (None); a sink that has no handle of its own has the future of its result.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

A = TypeVar("A")
B = TypeVar("B")

Combine = Callable[[Any, Any], Any]
"""Makes one materialized value of two: the left part's and the right part's."""


def first(left: Any, right: Any) -> Any:
    """The left part's, or where it has none the right part's: what `via` and `to` keep unless they are told otherwise."""
    return right if left is None else left


class Keep:
    """The combinations that `via`, `to` and `Graph` are given by name. Type checkers know of each what comes of two values."""

    @staticmethod
    def left(left: A, right: object) -> A:  # noqa: ARG004 - one of four with the same signature
        """The left part's."""
        return left

    @staticmethod
    def right(left: object, right: B) -> B:  # noqa: ARG004 - as above
        """The right part's."""
        return right

    @staticmethod
    def both(left: A, right: B) -> tuple[A, B]:
        """The pair of them."""
        return left, right

    @staticmethod
    def none(left: object, right: object) -> None:
        """Neither."""
