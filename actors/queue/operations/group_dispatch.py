"""Messages of a queue with groups meet consumers that wait: in turns, each in proportion to its demand, as far as its groups let it.

What everybody may have is shared out as in every queue. When there is nothing of that, those who have a group get more of it. Who has
nothing to get stands aside until the next dispatch, or until what others were given lets somebody look on: so nobody is asked twice for
what is not there, whatever waits.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

from actors.queue.operations.answering import take
from actors.queue.operations.delivering import deliver
from actors.queue.state.receivers import DemandRing, Receiver
from actors.queue.vocabulary.budgets import DISPATCH_BUDGET

if TYPE_CHECKING:
    from actors.queue.state.core import QueueCore
    from actors.queue.state.grouped_ready import GroupedReady
    from actors.queue.state.groups import Holder
    from actors.queue.state.receivers import Consumer, Take


def dispatch_groups(core: QueueCore, now: float) -> None:
    """Deliver what can be, within the budget; ``core.unfinished_at`` says that there is more to do."""
    ready, ring = cast("GroupedReady", core.ready), core.ring
    limit = len(core.effects) + DISPATCH_BUDGET
    # Who stands aside, and how many messages there were when it looked.
    aside: dict[Consumer, int] = {}
    ready.begin()
    while _goes_on(core, ready) and (ring.waiting or _come_back(core, ready, aside)):
        if not ready.is_open:
            owner = _owner(core, ready)
            if owner is None:
                break
            ring.leave(owner)
            limit = _serve(core, owner, owner.demand, limit, now, aside)
        else:
            available, total = ready.open_messages(), ring.total
            for _ in range(len(ring.waiting)):
                consumer = ring.next()
                share = -(-available * consumer.demand // total) if available < total else consumer.demand
                limit = _serve(core, consumer, share, limit, now, aside)
                if len(core.effects) >= limit or not (_goes_on(core, ready) and ring.waiting and ready.is_open):
                    break
        if len(core.effects) >= limit:
            if core.unfinished_at is None and ready.messages and (ring.waiting or aside):
                core.unfinished_at = now
            break
    for consumer in aside:
        ring.join(consumer)
    if ready.reading:
        ring.reading = True
    elif ready.tired and core.unfinished_at is None:
        core.unfinished_at = now


def _come_back(core: QueueCore, ready: GroupedReady, aside: dict[Consumer, int]) -> bool:
    """Have those wait again who stand aside, where less is passed over than when they looked, and so somebody may look on past it."""
    if not aside or ready.messages >= next(iter(aside.values())) or core.ring.reading or not ready.is_open:
        return False
    for consumer in aside:
        core.ring.join(consumer)
    aside.clear()
    return True


def _goes_on(core: QueueCore, ready: GroupedReady) -> bool:
    return bool(ready.messages) and core.unfinished_at is None and not (ready.tired or ready.reading)


def _serve(core: QueueCore, consumer: Consumer, share: int, limit: int, now: float, aside: dict[Consumer, int]) -> int:
    """Serve one that is out of the ring, up to ``share`` messages; returns the limit of effects, less what it took of that."""
    ready = cast("GroupedReady", core.ready)
    before = ready.messages
    ready.turn(_speaks_for(consumer), share)
    if isinstance(consumer, Receiver):
        deliver(core, consumer, share, limit, now)
        waits = consumer.demand > 0 and consumer.byte_credit > 0
    else:
        parts = take(core, cast("Take", consumer), share, limit - len(core.effects), now)
        waits = not parts
        limit -= max(0, parts - 1)
    ready.end_turn()
    if waits:
        if ready.messages < before:
            core.ring.join(consumer)
        else:
            aside[consumer] = ready.messages
    return limit


def _owner(core: QueueCore, ready: GroupedReady) -> Consumer | None:
    """Somebody who waits, and has a group of which more waits: a receiver, or a request of its own. A taker's requests have none."""
    own, waiting = ready.groups.own, core.ring.waiting
    if isinstance(core.ring, DemandRing) and len(waiting) < len(own):
        for consumer in core.ring.waiting:
            if _speaks_for(consumer) in own:
                return consumer
        return None
    for holder in own:
        if holder in waiting:
            return holder
        if not isinstance(holder, Receiver) or holder.by_request:
            continue
        for asked in (holder.takes or {}).values():
            if asked in waiting:
                return asked
    return None


def _speaks_for(consumer: Consumer) -> Holder:
    """Who has what a consumer is given."""
    return consumer if isinstance(consumer, Receiver) else cast("Take", consumer).holder


def what_keeps(core: QueueCore) -> str:
    """Why a receiver that wants messages gets none, though some are ready."""
    ready = cast("GroupedReady", core.ready)
    passed = f"{ready.passed_over:,} messages wait behind others of their groups"
    return f"{passed}, and nobody looks on past so many" if ready.is_full else passed
