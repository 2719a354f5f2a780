"""What every group of operators builds on: `via`, and the checks of what operators are given."""

from __future__ import annotations

from abc import abstractmethod
from typing import Any

from streams.errors import null_element
from streams.keep import Combine, first


class Via:
    """What a stage can be put behind. The overloads of each operator say that a source stays a source and a flow a flow."""

    @abstractmethod
    def via(self, flow: Any, combine: Combine = first) -> Any:
        """Itself with ``flow`` behind it; ``combine`` says whose materialized value is kept (`Keep`)."""


def positive(operator: str, name: str, value: float) -> None:
    """Refuses what is not more than 0, with ``ValueError``."""
    if value <= 0:
        raise ValueError(f"{operator}: {name} must be more than 0, not {value}")


def not_negative(operator: str, name: str, value: float) -> None:
    """Refuses what is less than 0, with ``ValueError``."""
    if value < 0:
        raise ValueError(f"{operator}: {name} must not be negative, but is {value}")


def not_none(operator: str, value: object) -> None:
    """Refuses None where an element is wanted, with ``TypeError``."""
    if value is None:
        raise null_element(operator)
