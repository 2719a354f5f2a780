"""A request for messages is answered: at once, or where it asks for very many pieces a part of it in each turn.

What it has of them is leased in the turn in which it gets it. The answer comes when it has all, or there is no more for it. Until then
nobody else is given anything: so it has what it would have had at once, but for what has gone meanwhile, as by a purge.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from actors.queue.operations.delivering import end_wait, within
from actors.queue.operations.expiring import is_at_hand
from actors.queue.operations.heads import expire_heads, next_ready
from actors.queue.operations.in_line import takes_wait
from actors.queue.state.grouped_ready import GroupedReady
from actors.queue.state.receivers import Answering
from actors.queue.vocabulary.budgets import DISPATCH_BUDGET
from actors.queue.vocabulary.replies import MessagesTaken, ReceivedMessages, Tell
from actors.queue.vocabulary.takes import MAX_TAKEN_MESSAGES

if TYPE_CHECKING:
    from actors.queue.state.core import QueueCore
    from actors.queue.state.receivers import Take


def take(core: QueueCore, asked: Take, share: int, parts: int, now: float) -> int:
    """Answer a request with up to ``share`` messages, in this turn with up to ``parts`` parts; ``core.answering`` says that it goes on.

    Returns:
        how many parts; 0, and nothing is done, if none is ready.
    """
    receiver = asked.receiver
    if receiver.by_request:
        # Others of the same taker may have been served since this one was let in.
        share = min(share, max(1, MAX_TAKEN_MESSAGES - receiver.in_flight))
    answering = Answering(asked, share, asked.bytes, 0)
    taken = _take_on(core, answering, parts, now)
    if taken:
        end_wait(core, asked)
        _answer_or_go_on(core, answering, taken == parts, now)
    return taken


def answer_on(core: QueueCore, now: float) -> None:
    """Go on with a request that is being answered, if there is one; others have their turn behind it, in another one."""
    answering, core.answering = core.answering, None
    if answering is None:
        return
    receiver, ready = answering.asked.receiver, core.ready
    if core.receivers.get(receiver.connection) is not receiver:
        # It has left, and what it had is ready again.
        return
    taken = 0
    # What is on its way to another queue may come back.
    if not core.parcels and not takes_wait(core, receiver):
        if isinstance(ready, GroupedReady):
            ready.begin()
            ready.turn(answering.asked.holder, answering.share)
            taken = _take_on(core, answering, DISPATCH_BUDGET, now)
            ready.end_turn()
        else:
            taken = _take_on(core, answering, DISPATCH_BUDGET, now)
    _answer_or_go_on(core, answering, taken == DISPATCH_BUDGET, now)
    if taken and core.ready.messages and core.ring.waiting:
        core.unfinished_at = now


def _take_on(core: QueueCore, answering: Answering, most: int, now: float) -> int:
    """Have a request have more of what is ready, in up to so many parts; returns in how many."""
    ready, receiver, taken = core.ready, answering.asked.receiver, answering.taken
    deadline, after, before = now + answering.asked.visibility, max(answering.after, core.barrier), len(taken)
    while answering.share > 0 and len(taken) - before < most:
        span = next_ready(core, now)
        if span is None:
            break
        entry, start = span.entry, span.start
        if entry.large and not is_at_hand(core, entry):
            break
        batch = entry.part(start, start + min(answering.share, span.stop - start))
        count = within(batch, answering.room, len(batch), not taken)
        if not count:
            # The next one does not fit.
            answering.share = 0
            break
        if count < len(batch):
            batch = batch.slice(0, count)
        span = ready.take(span, count)
        span.deliveries += 1
        span.since = now
        core.leases.grant(receiver, span, deadline)
        receiver.messages += count
        if not receiver.by_request:
            # Of a taker it counts when somebody has seen it.
            core.total_out += count
            if span.deliveries > 1:
                core.total_redelivered += count
        taken.append(
            ReceivedMessages(
                start,
                batch,
                entry.enqueued_us,
                span.deliveries,
                span.replayed,
                entry.published,
                span.failures,
                entry.level,
            )
        )
        after = max(after, entry.event)
        answering.share -= count
        answering.room -= batch.nbytes
    answering.after = after
    return len(taken) - before


def _answer_or_go_on(core: QueueCore, answering: Answering, may_go_on: bool, now: float) -> None:
    if may_go_on and answering.share > 0 and core.ready.messages:
        core.answering = answering
        core.unfinished_at = now
        return
    if core.ttl_below:
        # What is behind it and has expired is not counted.
        expire_heads(core, now)
    asked = answering.asked
    answer = MessagesTaken(asked.request, tuple(answering.taken), core.ready.messages)
    core.effects.append(Tell(asked.receiver.connection, answer, answering.after))
