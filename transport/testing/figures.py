"""The figures of a queue that a test waits for."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from actors.queue.vocabulary.statistics import QueueStatistics
from transport.errors import LocalProtocolError

if TYPE_CHECKING:
    from actors.queue.vocabulary.statistics import QueueStatistics as Statistics

GROWING = "total_"
"""What figures begin with that never fall."""
KNOWN = tuple(name for name, field in QueueStatistics.__dataclass_fields__.items() if str(field.type) == "int")


def condition_of(figures: Mapping[str, int]) -> Callable[[Statistics], bool]:
    """Whether a queue stands as ``figures`` say; raises LocalProtocolError where a queue has none of that name."""
    if not figures:
        raise LocalProtocolError(f"wait_until: say for what, as ready=0; a queue has {', '.join(KNOWN)}")
    for name, wanted in figures.items():
        if name not in KNOWN:
            raise LocalProtocolError(f"wait_until: a queue has no figure {name!r}; it has {', '.join(KNOWN)}")
        if not isinstance(wanted, int):
            raise LocalProtocolError(f"wait_until: {name} is to be {wanted!r:.40}; give a whole number")

    def holds(statistics: Statistics) -> bool:
        return all(reached(name, getattr(statistics, name), wanted) for name, wanted in figures.items())

    return holds


def reached(name: str, value: int, wanted: int) -> bool:
    """Whether a figure is as wanted; one that only grows may be beyond it."""
    return value >= wanted if name.startswith(GROWING) else value == wanted


def shortfall(figures: Mapping[str, int], seen: Mapping[str, Any]) -> str:
    """How a queue stands that does not stand as it should."""
    if not seen:
        return "there is no such queue; nobody has sent to it or received from it"
    return ", ".join(f"{name} is {seen[name]}, not {wanted}" for name, wanted in figures.items())
