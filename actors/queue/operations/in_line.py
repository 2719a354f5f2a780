"""Which receivers may have messages now: all of them, or of a queue that one has at a time that one; and those of higher priority first.

An exclusive queue has one receiver at a time, in strict order, and the next ones wait in line. Who came first holds the queue until it
leaves, whether it wants messages or not. The others may state their demand meanwhile; it is served when it is their turn. A queue with a
single active consumer has a line too. Who consumes no more leaves that, though it may still hold something; one of a higher priority has
the queue before the others; and single messages are taken beside it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

from actors.queue.state.priority_ring import PriorityRing
from actors.queue.vocabulary.turns import TurnChanged

if TYPE_CHECKING:
    from actors.queue.state.core import QueueCore
    from actors.queue.state.receivers import Receiver
    from actors.queue.vocabulary.replies import Connection
    from actors.queue.vocabulary.turns import HearTurns


def waits_in_line(core: QueueCore, receiver: Receiver) -> bool:
    """Whether a receiver gets nothing because another has the queue."""
    line = core.line
    return line is not None and line.served is not receiver and receiver in line


def hear_turns(core: QueueCore, command: HearTurns, _now: float) -> None:
    """A receiver wants to hear when it comes to wait, and when its turn has come."""
    receiver = core.receiver(cast("Connection", command.connection))
    receiver.told_waiting = command.waiting
    _tell(core, receiver)


def takes_wait(core: QueueCore, receiver: Receiver) -> bool:
    """Whether its requests for single messages wait until it is its turn."""
    line = core.line
    return line is not None and line.exclusive and line.served is not receiver


def join_ring(core: QueueCore, receiver: Receiver) -> bool:
    """Have a receiver with demand wait for messages; False where it does already, has none, or stands in line."""
    if receiver.demand <= 0 or receiver.byte_credit <= 0 or receiver in core.ring.waiting:
        return False
    if core.line is not None and core.line.served is not receiver:
        return False
    core.ring.join(receiver)
    return True


def come(core: QueueCore, receiver: Receiver) -> None:
    """A receiver has come, or a taker: it has its place in the line, and those of other priorities have an order."""
    if receiver.priority:
        ring = core.ring if isinstance(core.ring, PriorityRing) else PriorityRing.of(core.ring)
        ring.receivers += 1
        core.ring = ring
    line = core.line
    if line is not None and (line.exclusive or not receiver.by_request):
        before = line.served
        line.come(receiver)
        _turn(core, before)


def consume_no_more(core: QueueCore, receiver: Receiver, now: float) -> None:
    """A receiver gets nothing more but single messages: it keeps its queue from expiring no more, and from others if that is exclusive."""
    if receiver.consumes:
        receiver.consumes = False
        core.use.go(now)
        if core.line is not None and not core.line.exclusive:
            leave_line(core, receiver)


def leave_line(core: QueueCore, receiver: Receiver) -> None:
    """A receiver stands in line no more, if it does; whose turn it is now can have messages."""
    line = core.line
    if line is not None:
        before = line.served
        line.go(receiver)
        _turn(core, before)


def forget_priority(core: QueueCore, receiver: Receiver) -> None:
    """A receiver has gone, and waits for nothing: where no other has a priority there are no levels."""
    ring = core.ring
    if receiver.priority and isinstance(ring, PriorityRing):
        ring.receivers -= 1
        if not ring.receivers:
            core.ring = ring.plain()


def look_at_line(core: QueueCore) -> None:
    """Who gives way may hold nothing any more: the next one has the queue then."""
    line = core.line
    if line is not None and line.live:
        line.look()
        _turn(core, None)


def _turn(core: QueueCore, before: Receiver | None) -> None:
    """Have those wait for messages who may have them, where that is another than ``before``."""
    line = core.line
    assert line is not None, "the caller has looked"
    served = line.served
    if served is before:
        return
    if before is not None:
        core.ring.leave(before)
        if before in line:
            _tell(core, before)
    if served is not None:
        _tell(core, served)
        join_ring(core, served)
        for take in (served.takes or {}).values() if line.exclusive else ():
            if take not in core.ring.waiting:
                core.ring.join(take)


def _tell(core: QueueCore, receiver: Receiver) -> None:
    """Tell a receiver that wants to hear of it whether it waits, where that is not what it was told last."""
    if receiver.told_waiting is not None and receiver.told_waiting != (waiting := waits_in_line(core, receiver)):
        receiver.told_waiting = waiting
        core.tell(receiver.connection, TurnChanged(waiting))
