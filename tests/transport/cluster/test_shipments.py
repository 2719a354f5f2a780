"""What lies on the disk is shipped piece by piece, and the next piece is read while the one before it leaves."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Coroutine
from typing import Any

from actors.replication import vocabulary as say
from actors.replication.positions import Position
from actors.storage import ShippedRecord
from actors.storage.node_shipping import RecordsGoneError
from transport.cluster import shipments
from transport.cluster.shipments import Shipments

RECORD_BYTES = 5
DEADLINE = 10.0


class Piece:
    """Records that are there when they are let go."""

    def __init__(self, log: Log, lsn: int, stop: int, *, in_memory: bool) -> None:
        self.in_memory = in_memory
        self._log = log
        self._lsn, self._stop = lsn, stop

    def read(self) -> list[ShippedRecord]:
        if not self.in_memory:
            self._log.reads.append(self._lsn)
            assert self._log.go.wait(DEADLINE)
            if self._log.goes:
                raise RecordsGoneError("they are in a checkpoint")
        return [ShippedRecord(lsn, 1, 1, 0, (b"12345",)) for lsn in range(self._lsn, self._stop)]


class Log:
    """A log from record 5 on; those below ``memory`` are on the disk."""

    def __init__(self, end: int, memory: int) -> None:
        self.last, self.memory = end, memory
        self.asked: list[int] = []
        self.reads: list[int] = []
        self.go = threading.Event()
        self.go.set()
        self.goes = False
        self.same = object()

    def records(self, lsn: int, most: int) -> Any:
        if lsn < 5:
            raise RecordsGoneError("gone")
        assert lsn < self.last, "there is no such record"
        self.asked.append(lsn)
        in_memory = lsn >= self.memory
        stop = min(lsn + most // RECORD_BYTES, self.last if in_memory else self.memory)
        return Piece(self, lsn, stop, in_memory=in_memory)

    def end(self) -> int:
        return self.last

    def same_log(self) -> object:
        return self.same


class Links:
    """A link that is full when it has taken one message."""

    def __init__(self) -> None:
        self.sent: list[tuple[str, list[int]]] = []
        self.lists: list[Any] = []
        self.later: list[Callable[[], None]] = []
        self.came = asyncio.Event()

    def send(self, peer: str, message: Any) -> bool:
        return self.ship(peer, message, lambda: None)

    def ship(self, peer: str, message: Any, shipped: Callable[[], None]) -> bool:
        self.sent.append((peer, [each.lsn for each in message.records]))
        self.lists.append(message.records)
        self.later.append(shipped)
        self.came.set()
        return False

    async def message(self, number: int) -> list[int]:
        """The lsns of one that comes."""
        async with asyncio.timeout(DEADLINE):
            while len(self.sent) < number:
                self.came.clear()
                await self.came.wait()
        return self.sent[number - 1][1]


class Bench:
    def __init__(self, monkeypatch: Any, end: int, memory: int, piece: int) -> None:
        monkeypatch.setattr(shipments, "READ_BYTES", piece * RECORD_BYTES)
        self.log = Log(end, memory)
        self.links = Links()
        self.told: list[tuple[str, int, int, int]] = []
        self.tasks: list[asyncio.Task[None]] = []
        self.shipments = Shipments(self.log, self.links, self._begin, lambda *told: self.told.append(told))

    def _begin(self, work: Coroutine[Any, Any, None]) -> None:
        self.tasks.append(asyncio.get_running_loop().create_task(work))

    def want(self, lsn: int, records: int = 100, peer: str = "b") -> None:
        message = say.Replicate(1, Position(1, lsn - 1), 5, 0.0)
        self.shipments.ship(say.Ship(peer, message, lsn, records, RECORD_BYTES))

    async def done(self) -> None:
        """What was begun is done."""
        async with asyncio.timeout(DEADLINE):
            await asyncio.gather(*self.tasks)


def test_the_next_piece_is_read_while_the_one_before_it_is_on_its_way(monkeypatch: Any) -> None:
    async def body() -> None:
        bench = Bench(monkeypatch, end=40, memory=30, piece=4)
        bench.want(10)
        assert await bench.links.message(1) == [10, 11, 12, 13]
        await bench.done()
        # Nothing was asked for since, and the link has taken nothing.
        assert bench.log.reads == [10, 14]
        assert bench.told == []
        bench.links.later[0]()
        assert bench.told == [("b", 10, 14, 20)]
        bench.want(14)
        # Without waiting for a thread.
        assert bench.links.sent[1] == ("b", [14, 15, 16, 17])

    asyncio.run(body())


def test_what_was_read_and_is_more_than_a_message_has_is_shipped_with_the_next_and_not_read_again(
    monkeypatch: Any,
) -> None:
    async def body() -> None:
        bench = Bench(monkeypatch, end=40, memory=30, piece=8)
        bench.want(10, records=3)
        await bench.links.message(1)
        bench.want(13, records=3)
        bench.want(16, records=3)
        assert [lsns for _, lsns in bench.links.sent] == [[10, 11, 12], [13, 14, 15], [16, 17]]
        await bench.done()
        assert bench.log.reads == [10, 18]

    asyncio.run(body())


def test_one_who_has_come_to_what_is_in_memory_is_given_that(monkeypatch: Any) -> None:
    async def body() -> None:
        bench = Bench(monkeypatch, end=14, memory=12, piece=4)
        bench.want(10)
        assert await bench.links.message(1) == [10, 11]
        bench.want(12, records=2)
        assert bench.links.sent[1] == ("b", [12])  # as many bytes as it may have
        await bench.done()
        assert bench.log.reads == [10]

    asyncio.run(body())


def test_nothing_is_read_behind_the_end_of_the_log(monkeypatch: Any) -> None:
    async def body() -> None:
        bench = Bench(monkeypatch, end=12, memory=12, piece=4)
        bench.want(10)
        assert await bench.links.message(1) == [10, 11]
        await bench.done()
        assert bench.log.reads == [10]

    asyncio.run(body())


def test_what_is_asked_for_while_it_is_read_ahead_is_shipped_when_it_is_there(monkeypatch: Any) -> None:
    async def body() -> None:
        bench = Bench(monkeypatch, end=40, memory=30, piece=4)
        bench.want(10)
        bench.log.go.set()
        await bench.links.message(1)
        await bench.done()
        bench.log.go.clear()
        bench.want(14)  # was read; the piece behind it is held up
        bench.want(18)
        assert len(bench.links.sent) == 2
        bench.log.go.set()
        assert await bench.links.message(3) == [18, 19, 20, 21]
        await bench.done()

    asyncio.run(body())


def test_another_place_than_was_read_ahead_is_read_anew(monkeypatch: Any) -> None:
    async def body() -> None:
        bench = Bench(monkeypatch, end=40, memory=30, piece=4)
        bench.want(10)
        await bench.links.message(1)
        bench.want(20)
        assert await bench.links.message(2) == [20, 21, 22, 23]
        await bench.done()
        assert bench.log.reads == [10, 14, 20, 24]

    asyncio.run(body())


def test_what_was_read_for_a_connection_that_is_lost_is_not_sent(monkeypatch: Any) -> None:
    async def body() -> None:
        bench = Bench(monkeypatch, end=40, memory=30, piece=4)
        bench.log.go.clear()
        bench.want(10)
        bench.shipments.lost("b")
        bench.log.go.set()
        await bench.done()
        assert bench.links.sent == []
        assert bench.told == []

    asyncio.run(body())


def test_what_was_read_ahead_of_a_log_that_is_another_one_by_now_is_not_sent(monkeypatch: Any) -> None:
    async def body() -> None:
        bench = Bench(monkeypatch, end=40, memory=30, piece=4)
        bench.want(10)
        await bench.links.message(1)
        await bench.done()
        bench.log.same = object()
        bench.want(14)
        assert await bench.links.message(2) == [14, 15, 16, 17]
        await bench.done()
        assert bench.log.reads == [10, 14, 14, 18]

    asyncio.run(body())


def test_that_records_are_gone_is_said_when_they_are_asked_for(monkeypatch: Any) -> None:
    async def body() -> None:
        bench = Bench(monkeypatch, end=40, memory=30, piece=4)
        bench.want(3)
        assert bench.told == [("b", 3, 3, 0)]
        bench.log.goes = True
        bench.want(10)
        await bench.done()
        assert bench.told[1:] == [("b", 10, 10, 0)]
        assert bench.links.sent == []

    asyncio.run(body())


def test_each_of_two_peers_has_what_it_is_to_have(monkeypatch: Any) -> None:
    async def body() -> None:
        bench = Bench(monkeypatch, end=40, memory=30, piece=4)
        bench.want(10, peer="b")
        bench.want(20, peer="c")
        await bench.links.message(2)
        await bench.done()
        bench.want(14, peer="b")
        bench.want(24, peer="c")
        assert sorted(bench.links.sent) == [
            ("b", [10, 11, 12, 13]),
            ("b", [14, 15, 16, 17]),
            ("c", [20, 21, 22, 23]),
            ("c", [24, 25, 26, 27]),
        ]
        await bench.done()

    asyncio.run(body())


def test_what_two_peers_are_sent_from_memory_is_read_once_and_is_the_same_list(monkeypatch: Any) -> None:
    bench = Bench(monkeypatch, end=40, memory=5, piece=4)
    for peer in "bc":
        bench.want(39, peer=peer)
    assert bench.links.sent == [("b", [39]), ("c", [39])]
    assert bench.log.asked == [39]
    assert bench.links.lists[0] is bench.links.lists[1]
    assert [each() for each in bench.links.later] == [None, None]
    assert bench.told == [("b", 39, 40, RECORD_BYTES), ("c", 39, 40, RECORD_BYTES)]


def test_what_was_read_for_another_peer_is_read_anew_where_it_is_not_what_is_wanted_now(monkeypatch: Any) -> None:
    bench = Bench(monkeypatch, end=40, memory=5, piece=100)
    bench.want(38, peer="b")
    bench.want(39, peer="c")  # another beginning
    bench.want(39, records=1, peer="d")  # other limits
    bench.log.last = 41
    bench.want(39, records=1, peer="e")  # the log has grown
    bench.log.same = object()
    bench.want(39, records=1, peer="b")  # it was cut, and has others there
    bench.shipments.forget()
    bench.want(39, records=1, peer="b")
    assert bench.log.asked == [38, 39, 39, 39, 39, 39]


def test_records_that_are_larger_than_what_is_read_at_a_time_are_not_held_for_others(monkeypatch: Any) -> None:
    bench = Bench(monkeypatch, end=40, memory=5, piece=100)
    monkeypatch.setattr(shipments, "READ_BYTES", RECORD_BYTES - 1)
    for peer in "bc":
        bench.want(39, peer=peer)
    assert bench.log.asked == [39, 39]
