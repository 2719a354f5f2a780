"""What all queues of a broker have counted since it started, those that are gone included: sums that never go back."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from actors.queue.operations.counting import Counters, counters_of, recovered_of

if TYPE_CHECKING:
    from actors.queue.queue_state import QueueState
    from actors.queue.state.log import QueueLog
    from actors.runtime.loop_ref import LoopActorRef

NOTHING = Counters()


class Count(NamedTuple):
    """What all queues have counted beside what those that there are say themselves, as of one instant.

    Attributes:
        gone: the sum of queues that are no more.
        recovered: the sum of what was found at the start, of the queues that there were.
    """

    gone: Counters
    recovered: Counters


class Counts:
    """Keeps what a broker's queues had counted before they were recovered, and what those had that are no more."""

    def __init__(self) -> None:
        # One for each, so that a queue that goes leaves no object more than there were.
        self._gone, self._recovered = Counters(), Counters()
        self._bases: dict[str, Counters] = {}

    def recovered(self, name: str, log: QueueLog) -> None:
        """A queue was found at the start."""
        base = self._bases[name] = recovered_of(log)
        self._recovered = plus(self._recovered, base)

    def deleted(self, name: str, state: QueueState | None, queue: LoopActorRef[Any] | None) -> None:
        """A queue is deleted, and hears of it behind what it was told before, which counts too."""
        base = self._bases.pop(name, NOTHING)
        if state is not None:
            counted = counters_of(state)
            self._gone = plus(self._gone, less(counted, base))
            if queue is not None and queue.is_alive():
                queue.watch(lambda _failure: self._left(state, counted))

    def _left(self, state: QueueState, counted: Counters) -> None:
        """A queue that was deleted has ended."""
        self._gone = plus(self._gone, less(counters_of(state), counted))

    def begins_anew(self, state: QueueState, log: QueueLog) -> None:
        """A queue that failed for good goes on with another state, and with ``log``, its own or an empty one."""
        kept = recovered_of(log) if state.log is log else NOTHING
        self._gone = plus(self._gone, less(counters_of(state), kept))

    def begin(self) -> Count:
        """What is to be added to what the queues say."""
        return Count(self._gone, self._recovered)

    def base(self, name: str) -> Counters:
        """What a queue had counted when it was found at the start; it is to be taken off what it says."""
        return self._bases.get(name, NOTHING)


def plus(one: Counters, other: Counters) -> Counters:
    """The sum, each for itself."""
    return Counters(*map(int.__add__, one, other))


def less(one: Counters, other: Counters) -> Counters:
    """The difference, each for itself."""
    return Counters(*map(int.__sub__, one, other))
