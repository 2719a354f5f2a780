"""What a node ships of its log to each of the others: from memory at once; for who lags from the disk, a piece ahead of what is on its way.

A piece is read on a thread, and that waits for the processor, and for the interpreter, several times. Were it begun only when the piece
before it has left, whoever lags would get nothing meanwhile, and would be no faster than those who are in step. So the next piece is read
while the one before it is sent. What was read and does not fit into one message is kept for the next one.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Coroutine, Sequence
from typing import TYPE_CHECKING, Any, Final, NamedTuple, Protocol

from actors.replication import vocabulary as say
from actors.storage.node_shipping import RecordsGoneError

if TYPE_CHECKING:
    from actors.replication.vocabulary import Message
    from actors.storage.node_shipping import Records, ShippedRecord

READ_BYTES: Final = 4 << 20
"""Of records that are read from the disk at a time, for who lags. So much more than is said there may be under way to a follower
(`Limits.window_bytes`), and as much is read ahead of it."""

logger = logging.getLogger("penstock.cluster")


class ShippedLog(Protocol):
    """The log."""

    def records(self, lsn: int, most: int) -> Records:
        """Records from ``lsn`` on that any thread may read, or RecordsGoneError."""

    def end(self) -> int:
        """One more than the number of the last record."""

    def same_log(self) -> object:
        """The same object as long as the log is not cut, replaced or opened anew."""


class ShippingLinks(Protocol):
    """What carries it."""

    def send(self, peer: str, message: Message) -> bool:
        """Send a message; whether there is a connection for it."""

    def ship(self, peer: str, message: Message, shipped: Callable[[], None]) -> bool:
        """Send one with records; whether more may be sent at once. If not, ``shipped`` is called when it may."""


class _Stock:
    """What was read for one peer and is not shipped: records that follow one another.

    Attributes:
        next: the lsn of the first of them; of the record that is read next where there is none.
        log: what they were read of (`ShippedLog.same_log`).
        reading: whether more is being read.
        wanted: what waits for that.
    """

    __slots__ = ("_records", "log", "next", "reading", "wanted")

    def __init__(self, lsn: int, log: object) -> None:
        self.next = lsn
        self.log = log
        self.reading = False
        self.wanted: say.Ship | None = None
        self._records: deque[ShippedRecord] = deque()

    @property
    def empty(self) -> bool:
        """Whether there is nothing."""
        return not self._records

    def add(self, records: Sequence[ShippedRecord]) -> None:
        """These have been read."""
        self._records.extend(records)

    def take(self, most: int, nbytes: int) -> list[ShippedRecord]:
        """One, and more as long as they are no more than ``most``, and ``nbytes`` are not reached."""
        taken: list[ShippedRecord] = []
        while self._records and len(taken) < most and nbytes > 0:
            record = self._records.popleft()
            taken.append(record)
            nbytes -= record.size
        self.next += len(taken)
        return taken


class _Read(NamedTuple):
    """What was read last from memory: whoever else wants the same is sent the same list, which nobody changes.

    Attributes:
        lsn: of the first;
        most: and up to how many records;
        nbytes: and bytes: what was asked for.
        end: of the log, then.
        log: what was read (`ShippedLog.same_log`).
        records: what was found;
        size: of so many bytes.
    """

    lsn: int
    most: int
    nbytes: int
    end: int
    log: object
    records: Sequence[ShippedRecord]
    size: int


_NOTHING: Final = _Read(0, 0, 0, 0, None, (), 0)


class Shipments:
    """Of one node.

    Args:
        log: what is shipped.
        links: to whom.
        begin: has something done that takes its time; where it fails, that is the end of the node.
        shipped: told when something has left: to whom, the first lsn, the one behind the last, and the bytes. None left where the log does
            not have them any more.
    """

    def __init__(
        self,
        log: ShippedLog,
        links: ShippingLinks,
        begin: Callable[[Coroutine[Any, Any, None]], None],
        shipped: Callable[[str, int, int, int], None],
    ) -> None:
        self._log = log
        self._links = links
        self._begin = begin
        self._told = shipped
        self._stocks: dict[str, _Stock] = {}
        self._last = _NOTHING

    def lost(self, peer: str) -> None:
        """There is no connection to a peer any more."""
        self._stocks.pop(peer, None)

    def forget(self) -> None:
        """Nobody is shipped any more what it has asked for until now: another one leads, or this node ends."""
        self._stocks.clear()
        self._last = _NOTHING

    def ship(self, effect: say.Ship) -> None:
        """Ship what is said there, of it as much as there is."""
        if self._stocks:
            stock = self._stocks.get(effect.to)
            if stock is not None and stock.next == effect.lsn and stock.log is self._log.same_log():
                if stock.empty:
                    stock.wanted = effect
                else:
                    self._ship_of(stock, effect)
                return
            self._stocks.pop(effect.to, None)
        _, _, lsn, most, nbytes = effect
        last, end, log = self._last, self._log.end(), self._log.same_log()
        if last.lsn == lsn and last.end == end and last.most == most and last.nbytes == nbytes and last.log is log:
            self._send(effect, last.records, last.size)
            return
        try:
            records = self._log.records(lsn, nbytes)
            if records.in_memory:
                found = records.read()
                self._ship(effect, found if len(found) <= most else found[:most], (end, log))
                return
            records = self._log.records(lsn, READ_BYTES)
        except RecordsGoneError:
            self._ship(effect, ())
            return
        stock = self._stocks[effect.to] = _Stock(effect.lsn, self._log.same_log())
        stock.wanted = effect
        self._read(effect.to, stock, records)

    def _ship_of(self, stock: _Stock, effect: say.Ship) -> None:
        """From what was read; when that is all, the next is read while this leaves."""
        records = stock.take(effect.records, max(effect.nbytes, READ_BYTES))
        if stock.empty:
            self._read_on(effect.to, stock)
        self._ship(effect, records)

    def _read_on(self, peer: str, stock: _Stock) -> None:
        """Read what follows, if that is on the disk. What is in memory is there when it is asked for."""
        del self._stocks[peer]
        if stock.next >= self._log.end():
            return
        try:
            records = self._log.records(stock.next, READ_BYTES)
        except RecordsGoneError:
            return  # whoever asks for it is told
        if not records.in_memory:
            self._stocks[peer] = stock
            self._read(peer, stock, records)

    def _read(self, peer: str, stock: _Stock, records: Records) -> None:
        stock.reading = True
        self._begin(self._read_apart(peer, stock, records))

    async def _read_apart(self, peer: str, stock: _Stock, records: Records) -> None:
        """On a thread: whoever lags costs no more memory than a piece or two."""
        found: list[ShippedRecord] = []
        try:
            found = await asyncio.to_thread(records.read)
        except RecordsGoneError:
            logger.debug("records that were to be shipped are in a checkpoint by now")
        except Exception:
            if self._log.same_log() is stock.log:
                raise
        if self._stocks.get(peer) is not stock:
            return  # it is another connection's by now, or wants something else
        effect, stock.wanted, stock.reading = stock.wanted, None, False
        if self._log.same_log() is not stock.log or not found:
            # Its files were cut, or went, while they were read; or they are in a checkpoint.
            del self._stocks[peer]
            if effect is not None and self._log.same_log() is stock.log:
                self._ship(effect, ())
            return
        stock.add(found)
        if effect is not None:
            self._ship_of(stock, effect)

    def _ship(self, effect: say.Ship, records: Sequence[ShippedRecord], of: tuple[int, object] | None = None) -> None:
        """Ship these; ``of`` is the log, its end and which it is, where they were read from memory, so that they are there for others."""
        size = 0
        for record in records:
            size += record.size
        if of is not None:
            # One that is larger than what is shipped at a time is not held longer than it is under way.
            few = size <= READ_BYTES
            self._last = _Read(effect.lsn, effect.records, effect.nbytes, *of, records, size) if few else _NOTHING
        self._send(effect, records, size)

    def _send(self, effect: say.Ship, records: Sequence[ShippedRecord], nbytes: int) -> None:
        to, message, lsn, _, _ = effect
        if isinstance(message, say.Fetched):
            self._links.send(to, say.Fetched(message.epoch, message.lsn, records))
            return
        epoch, previous, committed, sent, _ = message
        message = say.Replicate(epoch, previous, committed, sent, records)
        stop = lsn + len(records)

        def shipped() -> None:
            self._told(to, lsn, stop, nbytes)

        if not records or self._links.ship(to, message, shipped):
            shipped()
