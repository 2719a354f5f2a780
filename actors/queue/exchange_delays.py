"""Where the messages of a batch go that was published where messages may wait: each is looked at by itself, as by its headers.

What a sender says natively, a delay of the whole batch, goes before the header of a message.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Final, NamedTuple

from actors.errors import InvalidRequestError
from actors.exchanges.delayed import DELAY, MS_PER_SECOND, is_waiting_queue, wait_of
from actors.exchanges.message_tables import table_of
from actors.queue.state.routed import Routed
from actors.queue.state.senders import PRODUCER_BYTES
from actors.queue.structures.deadlines import microseconds
from actors.queue.vocabulary.waiting import Said, to_wait

if TYPE_CHECKING:
    from collections.abc import Iterator

    from actors.exchanges.exchanges import Exchanges
    from actors.queue.exchange_offers import Offered
    from actors.queue.state.known_numbers import Known
    from actors.queue.state.routed import Queues


NOT_STAGED: Final = (
    f"a message of a transaction that says {DELAY} would wait at an exchange, and nobody can enlist that: "
    "publish it without a transaction"
)


class Way(NamedTuple):
    """What becomes of a message.

    Attributes:
        queues: those that get it at once, in order.
        waiting: those in which it waits, likewise.
        wait: for how many milliseconds; 0 where it does not.
    """

    queues: Queues
    waiting: Queues = ()
    wait: int = 0


def each_way(exchanges: Exchanges, offered: Offered, keys: Iterator[tuple[str, ...]]) -> Iterator[Way]:
    """What becomes of each message of a batch.

    Args:
        exchanges: routes.
        offered: the batch.
        keys: the routing keys of each message.

    Raises:
        ExchangeError: it cannot be routed, or waits for longer than it may.
    """
    batch, delay, exchange = offered.offer.batch, offered.offer.delay, offered.sender.exchange
    asked = None if delay is None else math.ceil(delay * MS_PER_SECOND)
    headers = [b""] * batch.count if batch.headers is None else batch.headers.tolist()
    for packed, own in zip(headers, keys, strict=True):
        table = table_of(packed)
        if asked is not None:
            table = {**(table or {}), DELAY: asked}
        found = exchanges.route(exchange, own, table)
        waiting = tuple(filter(is_waiting_queue, found))
        if not waiting:
            yield Way(found)
            continue
        at_once = tuple(queue for queue in found if queue not in waiting)
        yield Way(at_once, waiting, wait_of((table or {}).get(DELAY)))


def waiting_parts(offered: Offered, known: Known | None, way: Way, start: int, stop: int) -> Iterator[Routed]:
    """The parts of a batch that wait, of the messages between these places, which wait alike.

    What is staged by a protocol whose transactions go with their connection cannot be stored with a delay: its wait is before it when it is
    published (``operations/passing_on.py``).

    Raises:
        InvalidRequestError: it is staged natively: whoever commits names each of the queues.
    """
    sender, offer = offered.sender, offered.offer
    if sender.stage is not None and not sender.stage.passing:
        raise InvalidRequestError(NOT_STAGED)
    batch, sequence = offer.batch, offer.sequence
    name_bytes = 0 if sender.producer is None else len(sender.producer.encode()) + PRODUCER_BYTES
    said = Said(None if offer.ttl is None else microseconds(offer.ttl), offer.priority)
    delay = way.wait / MS_PER_SECOND if sender.stage is None else None
    for new, first, end in (
        ((way.waiting, start, stop),) if known is None else known.new(way.waiting, start, stop, sequence)
    ):
        yield Routed(
            sender,
            new,
            to_wait(batch.slice(first, end), None if offer.delay is None else way.wait, said),
            sequence + end,
            delay,
            None,
            name_bytes,
            offered,
            sender.exchange,
            sender.routing_key or "",
            sender.stage,
        )
