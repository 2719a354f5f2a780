"""Exclusive queues: one receiver at a time has all of it, in strict order, and the next ones wait in line.

Who came first holds the queue until it detaches, whether it wants messages or not. The others may state their demand meanwhile; it is
served when it is their turn. Nothing is passed over: while a message waits for a delay, its own or one that it was returned with,
nothing after it is delivered. A subscription cannot be owned on such a queue: reserving is taking messages out of turn.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from actors.queue.state.core import QueueCore
    from actors.queue.state.leases import Receiver


def waits_in_line(core: QueueCore, receiver: Receiver) -> bool:
    """Whether another receiver holds the queue."""
    # Receivers are in the order in which they came.
    return core.settings.exclusive and next(iter(core.receivers.values())) is not receiver


def join_ring(core: QueueCore, receiver: Receiver) -> bool:
    """Have a receiver with demand wait for messages; False where it does already, has none, or stands in line."""
    if receiver.demand <= 0 or receiver.byte_credit <= 0 or receiver in core.ring.waiting:
        return False
    if waits_in_line(core, receiver):
        return False
    core.ring.join(receiver)
    return True


def pass_on(core: QueueCore) -> None:
    """After a receiver has left: whose turn it is now can have messages."""
    if core.settings.exclusive and core.receivers:
        join_ring(core, next(iter(core.receivers.values())))
