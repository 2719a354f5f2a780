"""Parts of dead letters: of those that go to the same queues, and of as many as there is time and room for."""

from __future__ import annotations

from itertools import groupby
from typing import TYPE_CHECKING, Any, NamedTuple, cast

from actors.exchanges.message_tables import further_keys, table_of
from actors.headers import readable_headers
from actors.queue.state.routed import Routed
from actors.queue.vocabulary.deaths import history_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from actors.batch import MessageBatch
    from actors.exchanges.tables import Table
    from actors.queue.state.routed import Queues as Names
    from actors.queue.structures.ranges import Range
    from actors.queue.vocabulary.published import Published
    from actors.runtime.loop_actor import LoopActor


class Leaving(NamedTuple):
    """What goes to the same queues by one record, and what is said of it there.

    Attributes:
        batch: the messages.
        published: where, and by which routing key.
        priority: the level that they are of.
        ttl: seconds after which they are of no use; None for what each queue declares.
        again: what is said of the publishing where they go to a dead-letter queue in place of where they should.
        level: of which level they are there.
    """

    batch: MessageBatch
    published: Published
    priority: int
    ttl: float | None
    again: Published | None
    level: int


def over_in(actor: LoopActor, seconds: float) -> Callable[[], bool]:
    """Whether so much time is over, as of now."""
    clock = actor.loop.time
    until = clock() + seconds
    return lambda: clock() >= until


def always() -> bool:
    """That time is up: one is looked at."""
    return True


def parts_of(queues: Iterable[Names], batch: MessageBatch, first: int) -> Iterator[Routed]:
    """Neighbours that go to the same queues together, each part with the number behind its last."""
    start = 0
    for names, messages in groupby(queues):
        stop = start + len(list(messages))
        yield Routed(cast("Any", None), names, batch.slice(start, stop), first + stop)
        start = stop


def first_of(ranges: Iterable[Range], count: int) -> tuple[Range, ...]:
    """The first ``count`` numbers of ranges."""
    found = []
    for start, stop in ranges:
        if count <= 0:
            break
        found.append((start, min(stop, start + count)))
        count -= stop - start
    return tuple(found)


def further(batch: MessageBatch, index: int) -> tuple[str, ...]:
    """The routing keys that a message has beside its own, unless a dead-letter exchange has given it another in place of all."""
    assert batch.headers is not None, "it was looked at"
    more = further_keys(batch.headers[index])
    history = history_of(readable_headers(batch.headers[index]) or {}) if more else None
    return more if history is None or history.own_keys else ()


def headers_of(batch: MessageBatch, index: int) -> Table | None:
    """What a message says in its headers; None where it has none."""
    return table_of(batch.headers[index]) if batch.headers is not None else None
