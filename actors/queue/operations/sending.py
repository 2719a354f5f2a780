"""The operations of senders: attach, ask for room, send."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Final

from actors.errors import InvalidRequestError, QueueError, QueueLimitError, SequenceGapError, TransactionCommittedError
from actors.limits import MAX_DELAY_SECONDS, MAX_TTL_SECONDS, time_text
from actors.queue.operations.calendar import keeps_calendar, schedule, waits_long
from actors.queue.operations.deduplicating import check_own_ids, judge, judge_staged, numbered, tell_numbers, why_not
from actors.queue.operations.dispatch import dispatch
from actors.queue.operations.dropping import drop_over, in_record, let_go
from actors.queue.operations.refusing import NoRoom, lets_die, refuse
from actors.queue.state.capacity import GRANTED_AT_ONCE
from actors.queue.state.catching_up import catch_up
from actors.queue.state.newest import OF_CLIENT, check_newest
from actors.queue.state.senders import Incoming, Sender, groups, joined, producers_of, shape_of
from actors.queue.state.unanswered import behind_rejected
from actors.queue.structures.deadlines import US_PER_SECOND, microseconds
from actors.queue.vocabulary.events import MessagesAdded, MessagesDeduplicated
from actors.queue.vocabulary.replies import SenderAttached, SentMessages, Superseded, Tell
from actors.queue.vocabulary.settings import MAX_DELAYED

if TYPE_CHECKING:
    from actors.batch import MessageBatch
    from actors.queue.operations.deduplicating import Runs
    from actors.queue.state.core import QueueCore
    from actors.queue.state.feeder import Feeder
    from actors.queue.state.senders import Producers
    from actors.queue.vocabulary.commands import AttachSender, OfferBatch, RequestCapacity
    from actors.queue.vocabulary.replies import Connection
    from actors.queue.vocabulary.settings import QueueSettings
    from actors.queue.vocabulary.stages import StageKey


WAITS: Final = "it waits in the calendar"
"""In the place of why it is rejected, of what has no number before it is due."""
NO_TIMING = "a message that is staged has no delay or time to live of its own: declare the queue with them"


def attach_sender(core: QueueCore, command: AttachSender, now: float) -> None:
    """Make a sender known that does not stage."""
    connection, producer = command.connection, command.producer
    if connection in core.senders:
        raise InvalidRequestError("this connection is attached as a sender already")
    last: int | None = None
    if producer is not None:
        older = core.sender_of.get(producer)
        check_newest(older, command, OF_CLIENT)
        if older is not None:
            detach_sender(core, older.connection, now)
            core.effects.append(Tell(older.connection, Superseded()))
        last = core.log.last_number(producer)
        core.last_event = max(core.last_event, core.log.added_by)  # others may have noted it, unseen
    sender = Sender(connection, producer, last, core.capacity, temporary=command.temporary, arrival=command.arrival)
    core.senders[connection] = sender
    if producer is not None:
        core.sender_of[producer] = sender
    if command.shared is not None:
        sender.permits.queue = command.shared
    else:
        settings = core.settings
        # One that expires may have gone with all that it knew.
        remembers = last is None and settings.durable and settings.expires is None and core.log.forgot_nobody
        core.tell(connection, SenderAttached(last, max_priority=settings.max_priority or 0, remembers=remembers))


def request_capacity(core: QueueCore, command: RequestCapacity, _now: float) -> None:
    """Want more room."""
    messages, size = command.messages, command.bytes
    if messages < 0 or size < 0:
        raise InvalidRequestError(
            f"room for {messages} messages and {size} bytes is asked for; neither may be negative"
        )
    sender = _sender(core, command.connection)
    sender.capacity.request(sender.permits, messages, size)
    core.grant()


def accept(core: QueueCore, command: OfferBatch, _now: float) -> None:
    """Take a batch in, to be stored by the next ``store``: no other command may come between."""
    client_sequence, batch, delay, ttl, connection, priority = command
    sender = _sender(core, connection)
    stage, expected = sender.stage, sender.expected
    plain = delay is None and ttl is None and batch.ids is None and batch.keys is None and batch.headers is None
    if plain and stage is None and client_sequence == expected and core.takes_all and not sender.rejecting:
        # What nearly every batch is, without asking what it is not.
        count, size = batch.count, batch.nbytes
        sender.capacity.use(sender.permits, batch, count, size)
        up_to = sender.expected = client_sequence + count
        core.incoming_messages += count
        core.incoming_bytes += size + core.batch_overhead
        delay_us, ttl_us = core.usual_timing
        core.incoming.append(Incoming(sender, up_to, batch, 0, count, size, delay_us, ttl_us, None, None))
        return
    if stage is not None or core.log.accepted is not None:
        _check(core, batch, stage, delay, ttl)
    delay_us, ttl_us = core.usual_timing if delay is None and ttl is None else timing_of(core.settings, delay, ttl)
    behind = expected is not None and client_sequence > expected
    if behind and not sender.rejecting:
        assert expected is not None
        raise SequenceGapError(expected, client_sequence)
    count, size = batch.count, batch.nbytes
    known = 0 if expected is None or behind else min(expected - client_sequence, count)
    rejected: str | None = None
    if stage is not None and known < count:
        delayed = core.delayed_batches() if delay_us else None
        core.staged.check_room(stage, count - known, size + core.log.table.overhead, delayed)
    elif known < count and (delay_us or core.rejects or behind):
        # Behind what was rejected nothing is stored, be it that the queue does not reject any more.
        rejected = behind_rejected(expected) if behind else None
        rejected = rejected or _why_not(core, known, count, size, bool(delay_us), batch)
    sender.capacity.use(sender.permits, batch, count, size)
    up_to = client_sequence + count
    stored = 0
    if known < count:
        sender.rejecting = rejected is not None
        if rejected is None:
            stored = count - known
            sender.expected = up_to
            core.incoming_delayed += bool(delay_us)
            if stage is None:
                _takes_room(core, batch, stored, size)
            else:
                core.staged.accepted(stage, stored, size + core.log.table.overhead)
        else:
            core.total_rejected += count
            if not behind:
                sender.expected = client_sequence
    level = core.settings.level_of(priority)
    shape = None if plain and stage is None and not level else shape_of(batch, stage, delay_us, ttl_us, level)
    core.incoming.append(Incoming(sender, up_to, batch, known, stored, size, delay_us, ttl_us, rejected, shape, level))


def _takes_room(core: QueueCore, batch: MessageBatch, stored: int, size: int) -> None:
    core.incoming_messages += stored
    core.incoming_bytes += size + core.log.table.overhead
    if core.rejects and core.log.accepted is not None:
        core.log.accepted.accept(batch)


def used_beside(core: QueueCore, connection: Connection, messages: int, size: int) -> None:
    """So much of a sender, which has room of several queues, is stored by others: what it was granted for it is used."""
    sender = core.senders.get(connection)
    if sender is not None:
        sender.capacity.use_beyond(sender.permits, messages, size)


def store(core: QueueCore, now: float, wall_us: int) -> None:
    """Store what was accepted, in as few batches as it takes, confirm it, and deliver."""
    incoming = core.incoming
    if not incoming:
        return
    if core.ready.known != core.log.next_sequence:
        catch_up(core, now)
    core.incoming = []
    core.incoming_messages = core.incoming_bytes = core.incoming_delayed = 0
    if core.staged.incoming_messages:
        core.staged.clear_incoming()
        incoming = _without_committed(core, incoming)
    core.note_time(now, wall_us)
    core.capacity.pass_time(now)
    first = core.log.next_sequence
    numbers: dict[int, Runs] = {}
    refused = _store_groups(core, [item for item in incoming if item.new], now, wall_us, numbers)
    incoming = incoming if core.feeder is None else _with_waiting(core.feeder, incoming)
    gone: set[Sender] = set()
    for item in incoming:
        if refused and item.sender in refused:
            if item is refused[item.sender][0]:
                gone.add(item.sender)
            if item.sender in gone:
                # Nor is anything confirmed that it sent behind it, were it known: known of what is lost.
                continue
        if numbers and (runs := numbers.get(id(item))) is not None:
            first += tell_numbers(core, item, runs, first)
            continue
        # A batch that was stored before is confirmed behind all that came before it, which is when it is durable at the latest.
        number = None if item.known or item.rejected is not None else first
        core.effects.append(
            Tell(item.sender.connection, SentMessages(item.up_to, number, item.rejected), core.last_event)
        )
        first += item.new
        if item.rejected is not None:
            _without_number(core, item, first, now, wall_us)
    for sender, (_, error) in refused.items():
        refuse_sender(core, sender, error, now)
    dispatch(core, now)
    if core.drops:
        drop_over(core, now)
    core.grant()


def _with_waiting(feeder: Feeder, incoming: list[Incoming]) -> list[Incoming]:
    """What was accepted, of which that is not new to the queue's numbers which waits in the calendar."""
    if not (waiting := feeder.came):
        return incoming
    feeder.came = set()
    return [item._replace(new=0, rejected=WAITS) if id(item) in waiting else item for item in incoming]


def _without_number(core: QueueCore, item: Incoming, first: int, now: float, wall_us: int) -> None:
    """What was just told of something holds that is rejected, or waits in the calendar."""
    assert item.rejected is not None
    if item.rejected is WAITS:
        sent = SentMessages(item.up_to, first, None, ((None, item.batch.count),))
        core.effects[-1] = Tell(item.sender.connection, sent, core.last_event)
    elif item.sender.stage is not None:
        refuse_sender(core, item.sender, TransactionCommittedError(*item.sender.stage[:2]), now)
    elif lets_die(core, item.rejected):
        refuse(core, item.batch, None, wall_us, item.level)


def _store_groups(
    core: QueueCore, incoming: list[Incoming], now: float, wall_us: int, numbers: dict[int, Runs]
) -> dict[Sender, tuple[Incoming, QueueError]]:
    """Store what was accepted; returns the senders of which something cannot be, with the first of it and why.

    What else such a sender sent is not stored either: its numbers would have a gap. Of a group with duplicates ``numbers`` gets what its
    batches have.
    """
    refused: dict[Sender, tuple[Incoming, QueueError]] = {}
    for group in groups(incoming):
        kept = [item for item in group if item.sender not in refused] if refused else group
        if not kept:
            continue
        try:
            _store_group(core, kept, now, wall_us, numbers)
        except QueueError as error:
            for item in kept:
                refused.setdefault(item.sender, (item, error))
    return refused


def _store_group(core: QueueCore, group: list[Incoming], now: float, wall_us: int, told: dict[int, Runs]) -> None:
    log, item = core.log, group[0]
    sender = item.sender
    if len(group) == 1:
        named: Producers = () if sender.producer is None else ((sender.producer, item.up_to),)
        known, passing = ((), named) if sender.temporary else (named, ())
    else:
        known, passing = producers_of(group)
    delay_us, ttl_us = item.delay_us, item.ttl_us
    first = log.next_sequence
    stage = sender.stage
    before = log.staged_bytes
    batch, level, until_us = joined(group), item.level, 0
    if log.accepted is not None:
        log.accepted.coming.clear()
        judged = judge(log.accepted, batch, wall_us) if stage is None else judge_staged(log.accepted, batch)
        if judged.duplicates:
            told |= numbered(group, judged.duplicates, first)
        if judged.batch is None:
            if known or passing:
                core.commit(MessagesDeduplicated(known, passing))
            return
        batch, until_us = judged.batch, judged.until_us
    if core.drops and stage is None and not delay_us:
        added = MessagesAdded(
            first, batch, wall_us, known, 0, ttl_us, temporary=passing, priority=level, ids_until_us=until_us
        )
        _store_dropping(core, added)
        return
    if delay_us and stage is None and waits_long(core, delay_us):
        added = MessagesAdded(
            first, batch, wall_us, known, 0, ttl_us, temporary=passing, priority=level, ids_until_us=until_us
        )
        schedule(core, added, delay_us, now, set(map(id, group)), told)
        return
    core.commit(
        MessagesAdded(
            first, batch, wall_us, known, delay_us, ttl_us, stage, passing, priority=level, ids_until_us=until_us
        )
    )
    count = log.next_sequence - first
    if stage is not None:
        numbers = first, log.next_sequence
        core.staged.added(stage, log.stages[stage], numbers, log.staged_bytes - before, bool(delay_us))
        core.ready.add_staged(log.next_sequence, count)
    elif delay_us:
        core.ready.add_delayed(log.next_sequence, count, now + delay_us / US_PER_SECOND)
    else:
        core.ready.add(log.next_sequence, count)
    if ttl_us is not None:
        core.ttl_below = log.next_sequence


def _store_dropping(core: QueueCore, added: MessagesAdded) -> None:
    """Store what can be received at once in a queue that drops, and let go in the same instant of what that is too much for."""
    dropped = in_record(core, len(added.batch), added.batch.nbytes, added.ttl_us)
    core.commit(replace(added, dropped=dropped.ranges) if dropped.ranges else added)
    let_go(core, dropped)
    first, stop = added.first, core.log.next_sequence
    if dropped.ranges and dropped.ranges[-1][1] > first:
        # Some of its own are gone as they come.
        first = dropped.ranges[-1][1]
        core.ready.add_staged(first, first - added.first)
    core.ready.add(stop, stop - first)
    if added.ttl_us is not None:
        core.ttl_below = core.log.next_sequence


def _check(
    core: QueueCore, batch: MessageBatch, stage: StageKey | None, delay: float | None, ttl: float | None
) -> None:
    """Raise the QueueError for which nothing, or not this, can be staged, or its ids cannot be; NextTurnError for too many ids at once."""
    if stage is not None and core.is_committed(stage):
        raise TransactionCommittedError(stage.writer, stage.version)
    if stage is not None and (delay is not None or ttl is not None):
        raise InvalidRequestError(NO_TIMING)
    if core.log.accepted is not None:
        check_own_ids(core, core.log.accepted, batch, stage)


def _without_committed(core: QueueCore, incoming: list[Incoming]) -> list[Incoming]:
    """What was accepted, of which that is not stored whose version was committed since: it is confirmed as rejected."""
    kept: list[Incoming] = []
    for item in incoming:
        stage = item.sender.stage
        if stage is not None and item.new and core.is_committed(stage):
            text = str(TransactionCommittedError(stage.writer, stage.version))
            kept.append(item._replace(new=0, rejected=text))
        else:
            kept.append(item)
    return kept


def refusal_of(
    core: QueueCore, count: int, size: int, *, delayed: bool, batch: MessageBatch | None = None
) -> str | None:
    """Why a queue does not store a batch of so much that comes beside its senders; None where it does.

    Whoever has the ``batch`` itself gives it: what is stored already needs no room.

    Raises:
        QueueLimitError: there is no room for its delay, and the queue does not reject.
    """
    return _why_not(core, 0, count, size, delayed, batch) if delayed or core.rejects else None


def timing_of(settings: QueueSettings, delay: float | None, ttl: float | None) -> tuple[int, int | None]:
    """Delay and time to live of a batch, as the queue declares them where the sender does not say; microseconds.

    Raises:
        InvalidRequestError: one that cannot be.
    """
    if delay is None:
        delay = settings.delay
    elif not 0 <= delay <= MAX_DELAY_SECONDS:
        raise InvalidRequestError(f"a delay of {time_text(delay)} is not between 0 and {time_text(MAX_DELAY_SECONDS)}")
    if ttl is None:
        ttl = settings.ttl
    elif not 0 <= ttl <= MAX_TTL_SECONDS:
        raise InvalidRequestError(
            f"a time to live of {time_text(ttl)} is not between 0 and {time_text(MAX_TTL_SECONDS)}"
        )
    elif settings.ttl is not None:
        ttl = min(ttl, settings.ttl)
    return microseconds(delay), None if ttl is None else microseconds(ttl)


def _why_not(
    core: QueueCore, known: int, count: int, size: int, delayed: bool, batch: MessageBatch | None
) -> str | None:
    """Why a queue that rejects what it has no room for does not store a batch; None where it does.

    Raises:
        QueueLimitError: there is no room for its delay, and the queue does not reject.
    """
    if delayed and not known and core.delayed_batches() >= MAX_DELAYED and not keeps_calendar(core):
        # Its sender could not be made to wait: what it was granted it was granted before anybody knew of a delay.
        error = QueueLimitError(
            "MAX_DELAYED", MAX_DELAYED, "send delayed messages in larger batches, or once earlier delays are over"
        )
        if not core.rejects:
            raise error
        return str(error)
    if not core.rejects or known:
        # Half a batch is not left behind: the beginning of this one was stored while there was room for all of it.
        return None
    if core.log.accepted is not None:
        new, no_room = why_not(core, core.log.accepted, batch)
        if not new or no_room is not None:
            return no_room
    if core.paused is not None:
        return f"queue {core.name!r} takes nothing now: {core.paused}"
    return _no_room(core, count, size + core.log.table.overhead)


def _no_room(core: QueueCore, count: int, size: int) -> str | None:
    """Why a batch does not fit; None where it does. ``size`` is with its overhead."""
    settings, log = core.settings, core.log
    promised = core.capacity.promised
    stored = log.stored_messages + core.incoming_messages + promised.messages
    stored_bytes = log.stored_bytes + core.incoming_bytes + promised.bytes
    for unit, amount, there, most in (
        ("messages", count, stored, settings.max_messages),
        ("bytes", size, stored_bytes, settings.max_bytes),
    ):
        with_overhead = " with its overhead" if unit == "bytes" else ""
        if most is None:
            continue
        if amount > most:
            return NoRoom(
                f"a batch of {amount} {unit}{with_overhead} is larger than queue {core.name!r} may hold, max_{unit} {most}: "
                f"send smaller batches (max_batch_{unit})"
            )
        if there + amount > most:
            return NoRoom(
                f"queue {core.name!r} is full: {there} of max_{unit} {most} {unit} are stored, "
                f"and a batch of {amount}{with_overhead} does not fit"
            )
    return None


def detach_sender(core: QueueCore, connection: Connection, now: float) -> None:
    """Forget a sender, if it is one; others get its permits, at once or in `grant_put_off`."""
    sender = core.senders.pop(connection, None)
    if sender is not None:
        if sender.producer is not None:
            del core.sender_of[sender.producer]
        sender.capacity.give_back(sender.permits)
        if len(core.capacity.waiting) <= GRANTED_AT_ONCE:
            core.grant()
        elif core.capacity.put_off is None:
            core.capacity.put_off = now


def grant_put_off(core: QueueCore) -> None:
    """Grant what those have left who have gone since."""
    if core.capacity.put_off is not None:
        core.capacity.put_off = None
        core.grant()


def refuse_sender(core: QueueCore, sender: Sender, error: QueueError, now: float) -> None:
    """Let a sender go, one of a stage among them, and say why."""
    if core.senders.get(sender.connection) is not sender:
        return
    core.staged.detached(sender, now)
    detach_sender(core, sender.connection, now)
    core.refuse(sender.connection, error, core.last_event)


def _sender(core: QueueCore, connection: Connection) -> Sender:
    try:
        return core.senders[connection]
    except KeyError:
        raise InvalidRequestError("this connection is not attached as a sender: attach it first") from None
