"""Demand that adds up: what was asked for, what was given, what is still owed."""

from __future__ import annotations

from streams.contract import UNBOUNDED


def add_demand(current: int, n: int) -> int:
    """``current + n``, saturating at `UNBOUNDED` (rule 3.17)."""
    total = current + n
    return total if total < UNBOUNDED else UNBOUNDED  # noqa: FURB136 - a call of min() is felt in each request


def multiply_demand(n: int, factor: int) -> int:
    """``n * factor``, saturating at `UNBOUNDED`: the elements behind ``n`` groups."""
    total = n * factor
    return total if total < UNBOUNDED else UNBOUNDED  # noqa: FURB136 - as above


def invalid_demand(n: int) -> ValueError:
    """The error of rule 3.9, made here so that it reads the same everywhere."""
    return ValueError(f"request({n}): demand must be at least 1 (Reactive Streams 3.9)")


class Demand:
    """A counter of demand in elements (or bytes), cumulative as on the wire.

    Attributes:
        requested: all that was ever asked for; `UNBOUNDED` means without limit.
        taken: all that was given.
    """

    __slots__ = ("requested", "taken")

    def __init__(self) -> None:
        self.requested = 0
        self.taken = 0

    @property
    def outstanding(self) -> int:
        """What is still owed; `UNBOUNDED` once demand has no limit."""
        return UNBOUNDED if self.requested >= UNBOUNDED else self.requested - self.taken

    def add(self, n: int) -> None:
        """Adds ``n``, saturating.

        Raises:
            ValueError: n < 1 (3.9).
        """
        if n < 1:
            raise invalid_demand(n)
        self.requested = add_demand(self.requested, n)

    def take(self, n: int = 1) -> int:
        """Takes up to ``n`` of what is owed; returns how many were."""
        given = min(n, self.outstanding)
        self.taken += given
        return given

    def __repr__(self) -> str:
        return f"Demand(requested={self.requested}, taken={self.taken})"
