"""The operations of senders: attach, ask for room, send."""

from __future__ import annotations

from typing import TYPE_CHECKING

from actors.errors import InvalidRequestError, SequenceGapError
from actors.queue_state.consumers import Sender
from actors.queue_state.dispatch import dispatch
from actors.queue_state.effects import Confirm, Supersede
from actors.queue_state.events import MessagesAdded
from actors.queue_state.incoming import Incoming, groups, joined

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


def accept(core: QueueCore, connection: Connection, client_sequence: int, batch: MessageBatch) -> Incoming:
    """Take a batch in, to be stored by the next ``store``; see ``QueueState.accept``."""
    sender = _sender(core, connection)
    expected = sender.expected
    if expected is not None and client_sequence > expected:
        raise SequenceGapError(expected, client_sequence)
    count = len(batch)
    core.capacity.use(sender.permits, batch, count)
    known = 0 if expected is None else min(expected - client_sequence, count)
    item = Incoming(sender, client_sequence + count, batch, known, 0, None)
    if known < count:
        sender.expected = item.up_to
    core.incoming.append(item)
    return item


def store(core: QueueCore, now: float, wall_us: int) -> None:
    """Store what was accepted, confirm it, and deliver; see ``QueueState.store``."""
    incoming = core.incoming
    if not incoming:
        return
    core.incoming = []
    core.clocks = now, wall_us
    log = core.log
    for group in groups([item for item in incoming if item.known < len(item.batch)]):
        producers = {item.sender.producer: item.up_to for item in group if item.sender.producer is not None}
        batch = joined(group)
        first = log.next_sequence
        core.commit(MessagesAdded(first, batch, wall_us, tuple(producers.items())))
        core.ready.add(log.next_sequence, len(batch))
    first = log.next_sequence - sum(len(item.batch) - item.known for item in incoming)
    for item in incoming:
        # A batch that was stored before is confirmed behind all that came before it, which is when it is durable at the latest.
        core.effects.append(
            Confirm(item.sender.connection, item.up_to, None if item.known else first, None, core.last_event)
        )
        first += len(item.batch) - item.known
    dispatch(core, now)
    core.grant()


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
