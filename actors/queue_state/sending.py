"""The operations of senders: attach, ask for room, send."""

from __future__ import annotations

from typing import TYPE_CHECKING

from actors.errors import InvalidRequestError, SequenceGapError
from actors.queue_state.consumers import Sender
from actors.queue_state.dispatch import dispatch
from actors.queue_state.effects import Confirm, Supersede
from actors.queue_state.events import MessagesAdded

if TYPE_CHECKING:
    from actors.batch import MessageBatch
    from actors.queue_state.core import QueueCore
    from actors.queue_state.effects import Connection


def attach_sender(core: QueueCore, connection: Connection, producer: str | None) -> int | None:
    """Make a sender known; see ``QueueState.attach_sender``."""
    if connection in core.senders:
        raise InvalidRequestError("this connection is attached as a sender already")
    last: int | None = None
    if producer is not None:
        older = core.sender_of.get(producer)
        if older is not None:
            detach_sender(core, older.connection)
            core.effects.append(Supersede(older.connection))
        last = core.log.producers.get(producer)
    sender = core.senders[connection] = Sender(connection, producer, last)
    if producer is not None:
        core.sender_of[producer] = sender
    return last


def request_capacity(core: QueueCore, connection: Connection, messages: int, size: int) -> None:
    """Want more room; see ``QueueState.request_capacity``."""
    if messages < 0 or size < 0:
        raise InvalidRequestError(
            f"room for {messages} messages and {size} bytes is asked for; neither may be negative"
        )
    core.capacity.request(_sender(core, connection).permits, messages, size)
    core.grant()


def send(
    core: QueueCore, connection: Connection, client_sequence: int, batch: MessageBatch, *, now: float, wall_us: int
) -> int | None:
    """Store a batch; see ``QueueState.send``."""
    sender = _sender(core, connection)
    expected = sender.expected
    if expected is not None and client_sequence > expected:
        raise SequenceGapError(expected, client_sequence)
    count = len(batch)
    core.capacity.use(sender.permits, batch, count)
    first: int | None = None
    up_to = client_sequence + count
    known = 0 if expected is None else min(expected - client_sequence, count)
    if known < count:
        log = core.log
        first = log.next_sequence
        # What was cut off stays in memory with the rest, whose buffers it shares, until that is acknowledged.
        stored = batch.slice(known, count) if known else batch
        core.clocks = now, wall_us
        core.commit(MessagesAdded(first, stored, wall_us, sender.producer, client_sequence + known))
        sender.expected = up_to
        core.ready.add(log.entries[first])
        if known:
            first = None
    core.effects.append(Confirm(connection, up_to, first))
    if known < count:
        dispatch(core, now)
    core.grant()
    return first


def detach_sender(core: QueueCore, connection: Connection) -> None:
    """Forget a sender, if it is one; others get its permits."""
    sender = core.senders.pop(connection, None)
    if sender is not None:
        if sender.producer is not None:
            del core.sender_of[sender.producer]
        core.capacity.give_back(sender.permits)
        core.grant()


def _sender(core: QueueCore, connection: Connection) -> Sender:
    try:
        return core.senders[connection]
    except KeyError:
        raise InvalidRequestError("this connection is not attached as a sender: attach it first") from None
