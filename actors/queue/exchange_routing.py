"""Where the messages of a batch go that was published to an exchange. It is found in steps: keys may be many, and patterns slow."""

from __future__ import annotations

from itertools import groupby
from typing import TYPE_CHECKING, Final

from actors.errors import InvalidRequestError
from actors.exchanges.limits import MAX_ROUTING_KEY_BYTES
from actors.exchanges.message_tables import table_of
from actors.exchanges.vocabulary import DEFAULT_EXCHANGE
from actors.queue.exchange_delays import Way, each_way, waiting_parts
from actors.queue.state.routed import Routed
from actors.queue.state.senders import PRODUCER_BYTES
from actors.queue.vocabulary.distributed import OfferCopies, Unroutable

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from actors.batch import MessageBatch
    from actors.exchanges.exchanges import Exchanges
    from actors.queue.exchange_counts import ExchangeCounts
    from actors.queue.exchange_offers import Offered
    from actors.queue.exchange_port import Publisher
    from actors.queue.state.known_numbers import Known

AT_A_TIME: Final = 1_024
"""Messages whose keys are looked at together."""
_NO_QUEUE: Final = " "


class Routing:
    """Fills ``Offered.parts``. A part of ``ExchangePublishing``.

    Args:
        exchanges: routes by them.
        counts: of what has come to each exchange.
        level: the highest level that messages of a priority are of in one of some queues.
    """

    def __init__(
        self, exchanges: Exchanges, counts: ExchangeCounts, level: Callable[[Iterable[str], int], int]
    ) -> None:
        self._exchanges = exchanges
        self._counts = counts
        self._level = level

    def begin(self, offered: Offered, known: Known | None) -> Iterator[None] | None:
        """Find where a batch goes: at once, or in steps, each of which is one route that had to be looked for or one part.

        Args:
            offered: the batch.
            known: what its queues have stored of it, if it may have been sent before.

        Raises:
            ExchangeError, InvalidRequestError: it cannot be published; so do the steps.
        """
        sender, batch = offered.sender, offered.offer.batch
        key = None if self._exchanges.reached(sender.exchange).by_headers else _only_key(batch)
        if key is not None:
            queues = self._exchanges.route(sender.exchange, (_text(key, sender), *_further(offered)))
            lost = [] if queues else [(offered.offer.sequence, batch.count)]
            if queues:
                self._add(offered, known, queues, 0, batch.count)
            self._end(offered, lost)
            return None
        delays = self._exchanges.reached(sender.exchange).delays
        return (self._delayed_steps if delays else self._steps)(offered, known)

    def _steps(self, offered: Offered, known: Known | None) -> Iterator[None]:
        sequence = offered.offer.sequence
        lost: list[tuple[int, int]] = []
        for run in self._runs(offered.sender, offered.offer.batch, _further(offered)):
            if run is not None:
                queues, start, stop = run
                if queues:
                    self._add(offered, known, queues, start, stop)
                else:
                    lost.append((sequence + start, stop - start))
            yield
        self._end(offered, lost)

    def _delayed_steps(self, offered: Offered, known: Known | None) -> Iterator[None]:
        """As `_steps`, where messages may wait."""
        batch, sender = offered.offer.batch, offered.sender
        lost: list[tuple[int, int]] = []
        further = _further(offered)
        own = [b""] * batch.count if batch.keys is None else batch.keys.tolist()
        start, before = 0, None
        for at, way in enumerate(each_way(self._exchanges, offered, ((_text(key, sender), *further) for key in own))):
            if before is not None and way != before:
                self._add_way(offered, known, before, start, at, lost)
                start = at
            before = way
            yield
        if before is not None:
            self._add_way(offered, known, before, start, batch.count, lost)
        self._end(offered, lost)

    def _add_way(
        self, offered: Offered, known: Known | None, way: Way, start: int, stop: int, lost: list[tuple[int, int]]
    ) -> None:
        """Some messages go the same way."""
        if way.queues:
            self._add(offered, known, way.queues, start, stop)
        if way.waiting:
            offered.parts += waiting_parts(offered, known, way, start, stop)
        elif not way.queues:
            lost.append((offered.offer.sequence + start, stop - start))

    def _add(self, offered: Offered, known: Known | None, queues: tuple[str, ...], start: int, stop: int) -> None:
        """Some messages go to these queues: to those of them that have not stored them."""
        sender, offer = offered.sender, offered.offer
        batch, sequence = offer.batch, offer.sequence
        name_bytes = 0 if sender.producer is None else len(sender.producer.encode()) + PRODUCER_BYTES
        for new, first, end in ((queues, start, stop),) if known is None else known.new(queues, start, stop, sequence):
            part = batch if end - first == batch.count else batch.slice(first, end)
            # Where no queue has levels, what differs in priority is stored together all the same.
            level = self._level(new, offer.priority) if offer.priority else 0
            offered.parts.append(
                Routed(
                    sender,
                    new,
                    part,
                    sequence + end,
                    offer.delay,
                    offer.ttl,
                    name_bytes,
                    offered,
                    sender.exchange,
                    sender.routing_key or "",
                    sender.stage,
                    level,
                )
            )

    def _end(self, offered: Offered, lost: list[tuple[int, int]]) -> None:
        """All of a batch is routed; ``lost`` is what no queue takes, as (first number, count) pairs."""
        offered.lost = sum(count for _, count in lost)
        if lost and offered.sender.mandatory:
            offered.unroutable = Unroutable(tuple(lost), _why_lost(offered, lost[0][0] - offered.offer.sequence))

    def count(self, offered: Offered) -> None:
        """A batch is routed for good."""
        counts = self._counts.of(offered.sender.exchange)
        counts.published += offered.offer.batch.count
        counts.unroutable += offered.lost

    def _runs(
        self, sender: Publisher, batch: MessageBatch, further: tuple[str, ...]
    ) -> Iterator[tuple[tuple[str, ...], int, int] | None]:
        """The queues of a batch's messages, each with from which message to before which: neighbours that go to the same are together.

        Where a route was looked for instead, None. Each key of a batch is routed once, so there is no step of Python for a message, unless
        headers decide.
        """
        by_headers = self._exchanges.reached(sender.exchange).by_headers
        keys = [b""] * batch.count if batch.keys is None else batch.keys.tolist()
        headers = batch.headers.tolist() if by_headers and batch.headers is not None else None
        route, exchange = self._exchanges.route, sender.exchange
        routes: dict[bytes, tuple[str, ...]] = {}
        texts: dict[bytes, str] = {}
        open_run: tuple[tuple[str, ...], int] | None = None
        for start in range(0, len(keys), AT_A_TIME):
            some = keys[start : start + AT_A_TIME]
            for key in dict.fromkeys(some):
                if key in texts:
                    continue
                texts[key] = _text(key, sender)
                if not by_headers:
                    routes[key] = route(exchange, (texts[key], *further))
                    yield None
            if by_headers:
                found: list[tuple[str, ...]] = []
                for at, key in enumerate(some, start):
                    table = table_of(b"" if headers is None else headers[at])
                    found.append(route(exchange, (texts[key], *further), table))
                    yield None
                each = iter(found)
            else:
                each = map(routes.__getitem__, some)
            at = start
            for queues, same in groupby(each):
                if open_run is None:
                    open_run = queues, at
                elif queues != open_run[0]:
                    yield *open_run, at
                    open_run = queues, at
                at += sum(map(_one, same))
        if open_run is not None:
            yield *open_run, len(keys)


def _only_key(batch: MessageBatch) -> bytes | None:
    """The key that all messages of a batch have; None where they have several."""
    return b"" if batch.keys is None else batch.keys.same()


def _further(offered: Offered) -> tuple[str, ...]:
    """The routing keys that each message of a batch has beside its own."""
    if not isinstance(offered.offer, OfferCopies):
        return ()
    within = offered.sender.within
    return tuple(_within(within, key) for key in offered.offer.further) if within else offered.offer.further


def _text(key: bytes, sender: Publisher) -> str:
    """The routing key of a message: its own, or else what all of its sender's have in common."""
    text = key.decode("utf-8", "replace") if key else sender.routing_key or ""
    if len(text) * 4 > MAX_ROUTING_KEY_BYTES and len(text.encode()) > MAX_ROUTING_KEY_BYTES:
        # The same comes of it however often it is sent.
        raise InvalidRequestError(
            f"a routing key of {len(text.encode())} bytes exceeds {MAX_ROUTING_KEY_BYTES}: "
            "use a shorter one, and put the rest into a header"
        )
    return text if not sender.within else _within(sender.within, text)


def _within(beginning: str, key: str) -> str:
    """The name of the queue that a key leads to; for no key, and for one that makes too long a name, one that no queue can have."""
    name = beginning + key
    return name if key and len(name.encode()) <= MAX_ROUTING_KEY_BYTES else _NO_QUEUE


def _why_lost(offered: Offered, index: int) -> str:
    """Why no queue takes a message of a batch; of the others it may be another key."""
    sender, keys = offered.sender, offered.offer.batch.keys
    key = keys[index].decode("utf-8", "replace") if keys is not None else ""
    key = key or sender.routing_key or ""
    if sender.exchange == DEFAULT_EXCHANGE:
        return f"there is no queue {key!r:.300}, which the default exchange would send it to"
    return f"no queue is bound to exchange {sender.exchange!r} that takes the routing key {key!r:.300}"


def _one(_: object) -> int:
    return 1
