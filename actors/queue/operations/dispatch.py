"""Messages that are ready meet consumers that wait: in turns, each in proportion to its demand."""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

from actors.queue.operations.answering import answer_on, take
from actors.queue.operations.delivering import deliver, reserve
from actors.queue.operations.group_dispatch import dispatch_groups
from actors.queue.operations.heads import expire_heads, next_ready
from actors.queue.operations.judging import judge_on
from actors.queue.state.priority_ring import PriorityRing
from actors.queue.state.receivers import Receiver, Take
from actors.queue.vocabulary.budgets import DISPATCH_BUDGET

if TYPE_CHECKING:
    from actors.queue.state.core import QueueCore
    from actors.queue.state.receivers import DemandRing
    from actors.queue.state.subscriptions import Reservation


def dispatch(core: QueueCore, now: float, *, within: bool = False) -> None:  # noqa: PLR0912 - one loop, whose steps are counted
    """Deliver what can be, within the budget; ``core.unfinished_at`` says that there is more to do.

    In a round, consumer i with demand d_i out of D gets min(d_i, ceil(ready * d_i / D)) messages. A round is left as soon
    as nothing is ready, and the next begins with who comes after: nobody is always first.

    With ``within`` nothing is dropped that nobody waits for: whoever calls this drops what is expired, before and behind it.

    What is on its way to another queue may come back, for that one may be full. Nothing passes it meanwhile: whoever settles it
    dispatches what waits.
    """
    if core.unfinished_at is not None or core.parcels:
        return
    if core.ttl_below and not within:
        _dispatch_timed(core, now)
        return
    ready, ring, effects = core.ready, core.ring, core.effects
    limit = len(effects) + DISPATCH_BUDGET
    while ready.messages and ring.waiting and core.unfinished_at is None:
        if core.groups is not None:
            # Asked here, where there is something to deliver: what is only stored pays nothing for it.
            dispatch_groups(core, now)
            return
        available, total = ready.messages, ring.total
        for _ in range(len(ring.waiting)):
            consumer = ring.next()
            # At most its demand either way: what is ready is shared out only where it does not suffice.
            share = -(-available * consumer.demand // total) if available < total else consumer.demand
            if isinstance(consumer, Receiver):
                deliver(core, consumer, share, limit, now)
                if consumer.demand > 0 and consumer.byte_credit > 0:
                    ring.join(consumer)
            else:
                parts = (
                    take(core, consumer, share, limit - len(effects), now)
                    if isinstance(consumer, Take)
                    else reserve(core, cast("Reservation", consumer), share, now)
                )
                if not parts:
                    ring.join(consumer)
                # Each is as much work as a delivery.
                limit -= max(0, parts - 1)
            if len(effects) >= limit:
                if ready.messages and ring.waiting:
                    core.unfinished_at = now
                return
            if not ready.messages or core.unfinished_at is not None:
                return
        if ready.messages == available:
            # What is ready is not for those who wait, or waits itself for what comes before it.
            _dispatch_below(core, ring, now)
            return


def _dispatch_below(core: QueueCore, ring: DemandRing | PriorityRing, now: float) -> None:
    """Those whose turn it is do not want what is ready, as reservations may not: so it is the turn of a lower priority."""
    if isinstance(ring, PriorityRing) and not ring.reading and next_ready(core, now) is not None:
        aside = ring.set_aside()
        dispatch(core, now, within=True)
        ring.put_back(*aside)


def _dispatch_timed(core: QueueCore, now: float) -> None:
    """As `dispatch`, and what is expired is dropped though nobody waits for it."""
    expire_heads(core, now)
    dispatch(core, now, within=True)
    if core.unfinished_at is None and core.arrived_from < core.ready.known:
        # Whoever could take what has come has it.
        core.arrived_from = core.ready.known
        expire_heads(core, now)


def resume(core: QueueCore, now: float) -> None:
    """Go on with a judging, an answer or a dispatch that used up its budget, if there is one, and with whatever can be delivered."""
    core.unfinished_at, core.ring.reading = None, False
    judge_on(core, now)
    answer_on(core, now)
    dispatch(core, now)
