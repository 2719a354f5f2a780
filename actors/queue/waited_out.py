"""What has waited at an exchange, on its way through that: as dead letters go to one, step by step, each record one instant.

It is no dead letter, and says nothing of a death. Where a message was published, its keys, its time to live and its priority hold for the
queues that it goes to. What no queue takes is dropped, as by any exchange. What the broker cannot route goes to the queue ``NAME.dead`` of
the exchange. A queue that is full holds back all that is due, until it has room.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from actors.errors import QueueError
from actors.exchanges.delayed import is_waiting_queue
from actors.exchanges.errors import ExchangeNotFoundError
from actors.queue.letter_parts import Leaving
from actors.queue.letters_out import NOWHERE, LettersOut
from actors.queue.state.routed import joined_parts
from actors.queue.structures.deadlines import US_PER_SECOND
from actors.queue.vocabulary.published import Published
from actors.queue.vocabulary.waiting import first_said, without_said

if TYPE_CHECKING:
    from collections.abc import Iterator

    from actors.batch import MessageBatch
    from actors.exchanges.tables import Table
    from actors.queue.letters_out import Routes
    from actors.queue.queue_output import QueueOutput
    from actors.queue.queue_state import QueueState
    from actors.queue.state.routed import Queues as Names
    from actors.queue.state.routed import Routed
    from actors.queue.vocabulary.replies import DeadLetter


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

    def _next(self) -> list[DeadLetter]:
        # What goes to the same queues is one record, though each message had a record of its own.
        return [self._pending[start] for start in sorted(self._pending)]

    def _what(self, letter: DeadLetter) -> str:
        return f"messages that have waited at exchange {letter.exchange}"

    def _whose(self, letter: DeadLetter) -> str:
        return letter.exchange or ""

    def _alike(self, part: Routed, letter: DeadLetter) -> Iterator[Routed]:
        """A part with what its messages say of themselves: neighbours that say the same together."""
        exchange, key = letter.published or Published(letter.exchange or "", "")
        start, batch = 0, part.batch
        while start < len(batch):
            count, said = first_said(batch.slice(start, len(batch)))
            some = without_said(batch.slice(start, start + count))
            up_to = part.up_to - len(batch) + start + count
            ttl = None if said.ttl_us is None else said.ttl_us / US_PER_SECOND
            yield part._replace(
                batch=some, up_to=up_to, ttl=ttl, exchange=exchange, routing_key=key, priority=said.priority
            )
            start += count

    def _leaving(self, _letter: DeadLetter, parts: list[Routed]) -> Leaving:
        first, (batch, key) = parts[0], joined_parts(parts)
        published = Published(first.exchange, key)
        return Leaving(batch, published, first.priority, first.ttl, published, 0)

    def _addressed(self, _letter: DeadLetter, batch: MessageBatch) -> MessageBatch:
        return batch

    def _lose(self, routes: Routes, letter: DeadLetter, count: int) -> None:
        routes.distributor.lost(letter.exchange or "", count)


def letters_out(state: QueueState, output: QueueOutput, routes: Routes | None) -> LettersOut:
    """How what leaves a queue by itself gets to exchanges."""
    return (WaitedOut if is_waiting_queue(state.name) else LettersOut)(state, output, routes)
