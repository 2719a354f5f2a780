"""Why a connection gets nothing: what a queue answers a sender that may not send, or a receiver that nothing comes to, when it asks."""

from __future__ import annotations

from typing import TYPE_CHECKING

from actors.queue.operations.calendar import delayed_messages
from actors.queue.operations.group_dispatch import what_keeps
from actors.queue.operations.in_line import waits_in_line
from actors.queue.state.deduplication import held_by_ids
from actors.queue.vocabulary.replies import Tell, WaitExplained

if TYPE_CHECKING:
    from actors.queue.state.core import QueueCore
    from actors.queue.state.receivers import Receiver
    from actors.queue.state.senders import Sender
    from actors.queue.vocabulary.commands import ExplainWait

FULL, PAUSED, STAGED, GRANTED = "full", "paused", "staged", "granted"
LINE, EMPTY, UNREADY = "line", "empty", "unready"
"""The reasons, by their words on the wire."""
MIB = 2**20
HELD = "for a moment, so that a node of the cluster that lags comes in step"

Reason = tuple[str, str] | None


def explain(core: QueueCore, command: ExplainWait, _now: float) -> None:
    """Tell a connection what it waits for; None where nothing of the queue keeps it waiting."""
    connection = command.connection
    reason: Reason = None
    if (sender := core.senders.get(connection)) is not None:
        reason = _of_sender(core, sender)
    elif (receiver := core.receivers.get(connection)) is not None:
        reason = _of_receiver(core, receiver)
    word, text = reason or (None, "")
    # It tells how things are, not what has happened: it waits for no disk.
    core.effects.append(Tell(connection, WaitExplained(command.request, word, text)))


def _of_sender(core: QueueCore, sender: Sender) -> Reason:
    if not sender.permits.is_stuck():
        return None
    name, settings, log = core.name, core.settings, core.log
    if core.paused is not None:
        return PAUSED, f"queue {name} takes nothing now: {core.paused}"
    stored, size = log.stored_messages, log.stored_bytes
    if (ids := _of_ids(core)) is not None:
        return ids
    if core.capacity.closed(stored, size):
        in_messages = settings.nearer_in_messages(stored, size)
        there, most = (stored, settings.max_messages or 0) if in_messages else (size, settings.max_bytes or 0)
        amounts = f"{there:,} of {most:,} messages" if in_messages else f"{there / MIB:,.1f} of {most / MIB:,.1f} MiB"
        if there >= most:
            why = f"queue {name} is full ({amounts}): waiting for receivers"
        else:
            why = f"queue {name} was full, and takes more when more of it is acknowledged ({amounts}): waiting for receivers"
        return FULL, why
    # Behind what holds senders back all the time: this comes and goes within a second.
    if core.held.on and not core.rejects:
        reason = PAUSED, f"queue {name} takes nothing now: {HELD}"
    elif sender.stage is not None:
        text = f"open transactions hold back as much of queue {name} as they may: waiting for one of them to end"
        reason = STAGED, text
    elif core.capacity.holds_back:
        reason = FULL, f"queue {name} has refused much, which waits to be dead letters: waiting for that"
    else:
        reason = GRANTED, f"the room that queue {name} has is granted to other senders: waiting for a turn"
    return reason


def _of_ids(core: QueueCore) -> Reason:
    """What holds senders back where a queue has no more room for ids, and has for messages."""
    accepted, settings = core.log.accepted, core.settings
    most = None if core.drops else settings.max_messages
    if accepted is None or not held_by_ids(accepted, most, core.log.stored_messages):
        return None
    if core.capacity.closed(0, core.log.stored_bytes) or not core.capacity.closed(*core.taken()):
        return None
    return FULL, (
        f"queue {core.name} remembers as many ids as it may ({len(accepted):,} of {accepted.limit:,}): "
        "waiting for the oldest to be forgotten"
    )


def _of_receiver(core: QueueCore, receiver: Receiver) -> Reason:
    name, log = core.name, core.log
    if waits_in_line(core, receiver):
        if core.line is not None and core.line.holder is receiver:
            text = f"queue {name} goes to a receiver of a higher priority as soon as this one holds nothing"
        else:
            kind = "is exclusive" if core.settings.exclusive else "has a single active consumer"
            text = f"queue {name} {kind}, and another receiver has it: waiting in line"
        return LINE, text
    if receiver.demand <= 0 or receiver.byte_credit <= 0:
        return None
    if not log.stored_messages:
        staged = f", and {log.staged_messages:,} of open transactions are not committed" if log.staged_messages else ""
        return EMPTY, f"queue {name} is empty{staged}: waiting for messages"
    if core.ready.messages:
        return _of_what_is_ready(core, receiver)
    others = (
        (core.leases.in_flight, "with receivers"),
        (log.reserved_messages, "reserved by subscriptions"),
        (delayed_messages(core), "waiting for a delay"),
        (core.outbox.messages, "leaving for the dead-letter queue"),
    )
    where = ", ".join(f"{number:,} {what}" for number, what in others if number)
    return UNREADY, f"queue {name} has no message that is ready: {where or 'it looks them over'}"


def _of_what_is_ready(core: QueueCore, receiver: Receiver) -> Reason:
    span = core.ready.first()
    if span is not None and core.settings.exclusive and core.ready.skips(span):
        return UNREADY, f"queue {core.name} is exclusive, and its next message waits for its delay"
    if core.groups is not None and core.unfinished_at is None and receiver in core.ring.waiting:
        return UNREADY, f"queue {core.name} has nothing for this receiver: {what_keeps(core)}"
    return None
