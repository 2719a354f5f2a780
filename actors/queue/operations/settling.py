"""What a transaction does to a queue in the instant of its commit: what receivers held is settled, and what was staged comes.

A commit concerns many queues, and is one record. So each of them is asked first what it comes to, and whether it takes that. Then all of
it is recorded, and each queue's leases end in the same instant: nothing else that the queue hears comes between. What others see of that
comes when it is told ``SettledBeside``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from actors.queue.operations.dead_letters import hand_over
from actors.queue.operations.deduplicating import why_not_staged
from actors.queue.operations.dispatch import dispatch
from actors.queue.operations.dropping import drop_over
from actors.queue.operations.failing import put_back_beside, returned_beside
from actors.queue.structures.ranges import merged
from actors.queue.vocabulary.events import MessagesAcknowledged, MessagesReturned
from actors.queue.vocabulary.settings import REJECTED_FAILURES

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from actors.queue.state.core import QueueCore
    from actors.queue.state.stage import Stage
    from actors.queue.structures.ranges import Range
    from actors.queue.vocabulary.distributed import SettledBeside, Settlement
    from actors.queue.vocabulary.events import Event


def settled_events(core: QueueCore, settlements: Iterable[Settlement]) -> list[Event]:
    """What will have happened to the queue when these are settled; nothing has yet. What is returned leaves an event where that counts.

    Raises:
        UnknownAcknowledgementError, InvalidRequestError: a receiver does not hold what it is said to hold.
    """
    acknowledged: list[Range] = []
    refused: list[Range] = []
    returned: list[Event] = []
    for each in settlements:
        receiver = core.receiver(each.receiver)
        for ranges in (each.acknowledged, each.refused, each.returned):
            core.leases.check(receiver, ranges)
        acknowledged += each.acknowledged
        # Whether the queue has a place for dead letters is asked here alone.
        (refused if core.settings.keeps_dead_letters else acknowledged).extend(each.refused)
        if each.returned and (event := returned_beside(core, receiver, each.returned)) is not None:
            returned.append(event)
    events: list[Event] = []
    if acknowledged:
        events.append(MessagesAcknowledged(merged(sorted(acknowledged))))
    if refused:
        events.append(MessagesReturned(tuple((*part, REJECTED_FAILURES) for part in merged(sorted(refused)))))
    return events + returned


def settle(core: QueueCore, settlement: Settlement, now: float) -> None:
    """Have a receiver hold no more what is settled, which has happened to the log. It has no deadline for that, so all of it is there."""
    receiver, leaves = core.receiver(settlement.receiver), core.settings.keeps_dead_letters
    for part in settlement.acknowledged:
        core.leases.take(receiver, *part)
    for part in settlement.refused:
        for span in core.leases.take(receiver, *part):
            if leaves:
                span.failures, span.reason, span.replayed = REJECTED_FAILURES, settlement.reason, True
                core.put_back(span, None)
    for part in settlement.returned:
        put_back_beside(core, core.leases.take(receiver, *part), now)


def settled_beside(core: QueueCore, _command: SettledBeside, now: float) -> None:
    """Hand over what leaves, deliver what came back, and grant the room that there is."""
    hand_over(core, now)
    if core.drops:
        drop_over(core, now)
    dispatch(core, now)
    core.grant()


def why_not_published(core: QueueCore, stages: Sequence[Stage], leaving: int) -> str | None:
    """Why a queue that rejects what it has no room for does not take what a transaction has staged; None where it does.

    Args:
        core: the queue.
        stages: what the transaction has staged there.
        leaving: messages of the queue that the same transaction acknowledges: there is room in their place.
    """
    if not core.rejects:
        return None
    if core.paused is not None:
        return f"queue {core.name!r} takes nothing now: {core.paused}"
    if (no_room := why_not_staged(core, stages)) is not None:
        return no_room
    settings, log, promised = core.settings, core.log, core.capacity.promised
    # What leaves has as many bytes as the others, about.
    leaving_bytes = log.stored_bytes * leaving // log.stored_messages if log.stored_messages else 0
    for unit, amount, there, most in (
        ("messages", sum(each.messages for each in stages), log.stored_messages - leaving, settings.max_messages),
        ("bytes", sum(each.bytes for each in stages), log.stored_bytes - leaving_bytes, settings.max_bytes),
    ):
        beside = (
            core.incoming_messages + promised.messages if unit == "messages" else core.incoming_bytes + promised.bytes
        )
        if most is not None and there + beside + amount > most:
            return (
                f"queue {core.name!r} is full: {there + beside} of max_{unit} {most} {unit} are stored, and the {amount} that the "
                "transaction publishes there do not fit"
            )
    return None
