"""What a queue drops for a batch that is stored beside its senders, where it is the only one that takes it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from actors.queue.operations.dropping import NOTHING, Dropped, in_record, let_go

if TYPE_CHECKING:
    from collections.abc import Mapping

    from actors.batch import MessageBatch
    from actors.queue.queue_state import QueueState
    from actors.queue.vocabulary.stages import StageKey


def let_go_beside(taking: Mapping[str, tuple[QueueState, int, int | None]], dropped: Dropped) -> None:
    """What was dropped is ready no more, in the only queue that takes the batch."""
    for state, _, _ in taking.values() if dropped.ranges else ():
        let_go(state, dropped)


def dropped_for(
    batch: MessageBatch | None, taking: Mapping[str, tuple[QueueState, int, int | None]], stage: StageKey | None
) -> Dropped:
    """What the only queue that takes a batch drops for it in its record.

    Where several take it, its drops follow: what all get alike stands in the record once. So it is where the queue has not noticed yet what
    others have stored.
    """
    if batch is None or stage is not None or len(taking) != 1:
        return NOTHING
    ((state, delay_us, ttl_us),) = taking.values()
    if not state.drops or delay_us or state.ready.known != state.log.next_sequence:
        return NOTHING
    return in_record(state, batch.count, batch.nbytes, ttl_us)
