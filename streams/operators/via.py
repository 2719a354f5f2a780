"""What every group of operators builds on: `via`, and the checks of what operators are given."""

from __future__ import annotations

from abc import abstractmethod
from enum import Enum
from inspect import iscoroutinefunction
from numbers import Real
from operator import index
from typing import Any

from streams.errors import null_element
from streams.keep import Combine, first


class Via:
    """What a stage can be put behind. The overloads of each operator say that a source stays a source and a flow a flow."""

    @abstractmethod
    def via(self, flow: Any, combine: Combine = first) -> Any:
        """Itself with ``flow`` behind it; ``combine`` says whose materialized value is kept (`Keep`)."""

    @abstractmethod
    def _split(self, splitter: Any, breadth: int) -> Any:
        """The substreams that the flow ``splitter`` makes of it, of which ``breadth`` may be at work at once."""

    @abstractmethod
    def _supervised(self, decider: Any) -> Any:
        """The same with stages that go by ``decider``."""

    @abstractmethod
    def _source(self, create: Any, name: str) -> Any:
        """A `Source`, which what is put behind it may give as an element."""


def positive(operator: str, name: str, value: int) -> None:
    """Refuses what is no whole number, with ``TypeError``, and what is less than 1, with ``ValueError``."""
    _whole(operator, name, value)
    if value < 1:
        raise ValueError(f"{operator}: {name} must be more than 0, not {value}")


def not_negative(operator: str, name: str, value: int) -> None:
    """Refuses what is no whole number, with ``TypeError``, and what is less than 0, with ``ValueError``."""
    _whole(operator, name, value)
    if value < 0:
        raise ValueError(f"{operator}: {name} must not be negative, but is {value}")


def _whole(operator: str, name: str, value: object) -> None:
    try:
        index(value)  # type: ignore[arg-type]  # it is asked whether it has that
    except TypeError:
        raise TypeError(f"{operator}: {name} must be a whole number, not {value!r}") from None


def positive_amount(operator: str, name: str, value: float) -> None:
    """Refuses what is no number, with ``TypeError``, and what is not more than 0, with ``ValueError``: for seconds and weights."""
    _number(operator, name, value)
    if not value > 0:  # so that NaN is refused
        raise ValueError(f"{operator}: {name} must be more than 0, not {value}")


def _number(operator: str, name: str, value: object) -> None:
    if not isinstance(value, Real):
        raise TypeError(f"{operator}: {name} must be a number, not {value!r}")


def functions(operator: str, **given: object) -> None:
    """Refuses what cannot be called, and coroutine functions, whose result would be taken for an element, with ``TypeError``."""
    awaiting_functions(operator, **given)
    for name, f in given.items():
        if iscoroutinefunction(f):
            raise TypeError(
                f"{operator}: {name} is a coroutine function, which nobody here would await: map_async, Sink.foreach_async and "
                "Sink.fold_async take those"
            )


def awaiting_functions(operator: str, **given: object) -> None:
    """Refuses what cannot be called, with ``TypeError``: here, and not when the first element comes."""
    for name, f in given.items():
        if not callable(f):
            raise TypeError(f"{operator}: {name} must be a function, not {type(f).__name__}")


def member(operator: str, name: str, value: object, of: type[Enum]) -> None:
    """Refuses what is no member of the enum ``of``, with ``TypeError``."""
    if not isinstance(value, of):
        raise TypeError(f"{operator}: {name} must be one of {of.__name__}, not {value!r}")


def not_none(operator: str, value: object) -> None:
    """Refuses None where an element is wanted, with ``TypeError``."""
    if value is None:
        raise null_element(operator)
