"""What has waited at an exchange, on its way through that: as dead letters go to one, step by step, each record one instant.

It is no dead letter, and says nothing of a death. Where a message was published, its keys, its time to live and its priority hold for the
queues that it goes to. What no queue takes is dropped, as by any exchange. What the broker cannot route goes to the queue ``NAME.dead`` of
the exchange. A queue that is full holds back all that is due, until it has room.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from actors.errors import QueueError, RecordTooLargeError, TooMuchTogetherError
from actors.exchanges.delayed import is_waiting_queue
from actors.exchanges.errors import ExchangeNotFoundError
from actors.queue.letters_out import NOWHERE, OWN, LettersOut, first_of
from actors.queue.operations.dead_letters import drop_letters
from actors.queue.state.senders import joined_batches
from actors.queue.structures.deadlines import US_PER_SECOND
from actors.queue.structures.ranges import merged
from actors.queue.vocabulary.commands import DeadLettersMoved
from actors.queue.vocabulary.settings import dead_letter_name
from actors.queue.vocabulary.waiting import first_said, without_said

if TYPE_CHECKING:
    from actors.exchanges.tables import Table
    from actors.queue.letters_out import Routes
    from actors.queue.queue_output import QueueOutput
    from actors.queue.queue_state import QueueState
    from actors.queue.state.routed import Queues as Names
    from actors.queue.state.routed import Routed
    from actors.queue.vocabulary.replies import DeadLetter
    from actors.runtime.loop_actor import LoopActor


class WaitedOut(LettersOut):
    """Of the queue that waits for one exchange."""

    def _route(self, routes: Routes, letter: DeadLetter, keys: Names, headers: Table | None, before: Names) -> Names:  # noqa: ARG002 - it has died nowhere
        try:
            names = routes.exchanges.route(letter.exchange or "", keys, headers, outside=False)
        except ExchangeNotFoundError:
            # It was deleted, and this queue is about to be.
            return NOWHERE
        except QueueError as error:
            return self._own(error.code, str(error))
        return tuple([name for name in names if routes.queues.state(name) is not None]) or NOWHERE

    def _store_group(self, actor: LoopActor, routes: Routes, letter: DeadLetter, parts: list[Routed]) -> str | None:
        """Store the first of what goes to the same queues, of which the same is said; the name of one that has no room for all of it."""
        names, batches = parts[0].queues, [part.batch for part in parts]
        batch = batches[0] if len(batches) == 1 else joined_batches(batches)
        ranges = merged([(part.up_to - len(part.batch), part.up_to) for part in parts])
        if names == NOWHERE:
            routes.distributor.lost(letter.exchange or "", len(batch))
            drop_letters(self._state, ranges, actor.loop.time())
            return None
        count, said = first_said(batch)
        full: str | None = None
        if names != OWN:
            room, full = self._room(routes, names, batch)
            if not room:
                return full
            count = min(count, room)
        if count < len(batch):
            batch, ranges = batch.slice(0, count), first_of(ranges, count)
        batch = without_said(batch)
        ttl = None if said.ttl_us is None else said.ttl_us / US_PER_SECOND
        event = 0
        try:
            if names != OWN:
                event = routes.distributor.move_dead_letters(
                    self._state, ranges, names, batch, letter.published, said.priority, ttl
                )
        except (RecordTooLargeError, TooMuchTogetherError) as error:
            names, full = self._own(error.code, str(error)), None
        if names == OWN:
            name = dead_letter_name(letter.exchange or "")
            routes.own_queue(name)
            event = routes.distributor.move_dead_letters(self._state, ranges, (name,), batch, letter.published)
        self._output.tell(actor.actor_ref, DeadLettersMoved(ranges), event)
        return full


def letters_out(state: QueueState, output: QueueOutput, routes: Routes | None) -> LettersOut:
    """How what leaves a queue by itself gets to exchanges."""
    return (WaitedOut if is_waiting_queue(state.name) else LettersOut)(state, output, routes)
