"""A transfer goes from one node to another over a link, piece by piece, and goes on behind whatever came in between."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Coroutine, Iterable, Iterator
from typing import Any, NamedTuple

import pytest

from actors.replication import vocabulary as say
from actors.replication.positions import Position
from journal import JournalOptions, ShippedRecord, TransferHead, TransferTarget, verify
from tests.fault.disk import ROOT, SimulatedDisk
from tests.journal.replicas import Node
from tests.transport.cluster.link_nodes import LinkNode, nodes
from transport.cluster import transfers as module
from transport.cluster.records import MAX_RECORDS, Record
from transport.cluster.transfer_messages import (
    AskRecords,
    AskState,
    GivenHead,
    GivenRecords,
    GivenState,
    NoTransfer,
    Wait,
)
from transport.cluster.transfers import TransferRefusedError, Transfers

Run = Callable[[Callable[[], Coroutine[Any, Any, None]]], None]
A, B = "a" * 32, "b" * 32
STATE = bytes(range(256)) * 10


class FakeSource:
    """Records with gaps, and a state; in small pieces."""

    def __init__(self, lsn: int = 100, state: bytes = STATE, piece: int = 7) -> None:
        self.lsn = lsn
        self.begun: list[int] = []
        self.failure: Exception | None = None
        self.gate: threading.Event | None = None
        self._state = state
        self._piece = piece

    def records(self, lsn: int = 0) -> Iterator[list[Any]]:
        self.begun.append(lsn)
        wanted = [Record(n, n // 40, 2, 1, (b"%d" % n,)) for n in range(1, self.lsn, 2) if n >= lsn]
        for at in range(0, len(wanted), self._piece):
            if self.gate is not None:
                assert self.gate.wait(30)
            if self.failure is not None and at:
                raise self.failure
            yield wanted[at : at + self._piece]

    def head(self) -> TransferHead:
        return TransferHead(self.lsn, 3, 80, len(self._state))

    def state(self, most: int = 0) -> Iterator[memoryview]:
        for at in range(0, len(self._state), 1000):
            yield memoryview(self._state)[at : at + 1000]


class FakeTarget:
    """Keeps what came."""

    def __init__(self) -> None:
        self.next_lsn = 0
        self.lsns: list[int] = []
        self.state = b""
        self.head: Any = None
        self.closed = 0
        self.failure: Exception | None = None

    def add(self, records: Iterable[Any]) -> None:
        if self.failure is not None:
            raise self.failure
        for each in records:
            if each.lsn >= self.next_lsn:
                assert b"".join(each.payload) == b"%d" % each.lsn
                self.lsns.append(each.lsn)
                self.next_lsn = each.lsn + 1

    def begin_state(self) -> None:
        self.state = b""

    def add_state(self, piece: Any) -> None:
        self.state += piece

    def finish(self, head: Any) -> None:
        self.head = head

    def close(self) -> None:
        self.closed += 1


class Told(NamedTuple):
    what: str
    peer: str
    about: Any = None


class End:
    """One node with transfers: what it was told, and where its messages go."""

    def __init__(self, directory: str) -> None:
        self.directory = directory
        self.other: End | None = None
        self.connected = True
        self.said: list[Any] = []
        self.told: list[Told] = []
        self.pieces = 0
        self.breaks_after = 0
        self.later: FakeSource | None = None
        self.changed = asyncio.Event()
        self.transfers = Transfers(self, self)

    def send(self, peer: str, message: Any) -> bool:
        self.said.append(message)
        self.changed.set()
        if self.connected and self.other is not None:
            asyncio.get_running_loop().call_soon(self.other.transfers.received, self.directory, message)
        return self.connected

    def taking(self, peer: str) -> None:
        self.pieces += 1
        if self.pieces == self.breaks_after and self.other is not None:
            self.connected = self.other.connected = False
        self.changed.set()

    def taken(self, peer: str, head: Any) -> None:
        self._tell(Told("taken", peer, head))

    def take_failed(self, peer: str, error: Exception) -> None:
        self._tell(Told("take failed", peer, error))

    def give_failed(self, peer: str, error: Exception) -> None:
        self._tell(Told("give failed", peer, error))

    def renewed(self, peer: str, source: Any) -> bool:
        later, self.later = self.later, None
        if later is not None:
            self.transfers.give(peer, later)
        return later is not None

    def _tell(self, told: Told) -> None:
        self.told.append(told)
        self.changed.set()

    async def until(self, condition: Callable[[], bool]) -> None:
        while not condition():
            self.changed.clear()
            await self.changed.wait()

    async def ends(self) -> Told:
        await self.until(lambda: bool(self.told))
        return self.told.pop(0)


async def pair() -> tuple[End, End]:
    giver, taker = End(A), End(B)
    giver.other, taker.other = taker, giver
    return giver, taker


def transferring(main: Callable[[End, End], Coroutine[Any, Any, None]]) -> Callable[[], Coroutine[Any, Any, None]]:
    async def run() -> None:
        giver, taker = await pair()
        try:
            await main(giver, taker)
        finally:
            await giver.transfers.close()
            await taker.transfers.close()

    return run


def test_everything_that_is_wanted_comes_and_the_state_behind_it(run: Run) -> None:
    async def main(giver: End, taker: End) -> None:
        source, target = FakeSource(), FakeTarget()
        giver.transfers.give(B, source)
        taker.transfers.take(A, target)
        assert await taker.ends() == Told("taken", A, GivenHead(100, 3, 80, len(STATE), 100))
        assert target.lsns == [*range(1, 100, 2)]
        assert target.state == STATE
        assert target.head[:4] == tuple(source.head())
        assert source.begun == [0], "one piece goes on where the last one ended"
        assert taker.pieces == len(giver.said)

    run(transferring(main))


@pytest.mark.parametrize("size", [0, 1, 1000, 1001])
def test_a_state_of_any_size_comes_whole(run: Run, size: int) -> None:
    async def main(giver: End, taker: End) -> None:
        target = FakeTarget()
        giver.transfers.give(B, FakeSource(lsn=1, state=STATE[:size]))
        taker.transfers.take(A, target)
        assert (await taker.ends()).what == "taken"
        assert (target.lsns, target.state) == ([], STATE[:size])

    run(transferring(main))


def test_one_piece_is_under_way_at_a_time(run: Run) -> None:
    async def main(giver: End, taker: End) -> None:
        giver.transfers.give(B, FakeSource())
        taker.transfers.take(A, FakeTarget())
        await taker.ends()
        asked = [each for each in taker.said if isinstance(each, AskRecords | AskState)]
        assert len(asked) == len(giver.said)
        assert len(set(asked)) == len(asked)

    run(transferring(main))


def test_what_is_being_prepared_is_waited_for(run: Run, jump: Callable[[float], None]) -> None:
    async def main(giver: End, taker: End) -> None:
        giver.transfers.give(B, None)
        taker.transfers.take(A, FakeTarget())
        await taker.until(lambda: taker.pieces == 1)
        assert giver.said == [Wait()]
        giver.transfers.give(B, FakeSource())
        jump(module.ASK_AGAIN_SECONDS)
        assert (await taker.ends()).what == "taken"

    run(transferring(main))


def test_where_nothing_is_given_it_fails_at_once_and_says_why(run: Run) -> None:
    async def main(giver: End, taker: End) -> None:
        target = FakeTarget()
        taker.transfers.take(A, target)
        what, peer, error = await taker.ends()
        assert (what, peer, type(error)) == ("take failed", A, TransferRefusedError)
        assert "gives no transfer" in str(error)
        assert target.closed == 1
        giver.transfers.give(B, FakeSource())
        taker.transfers.take(A, FakeTarget())
        assert (await taker.ends()).what == "taken"

    run(transferring(main))


def test_a_file_that_cannot_be_read_is_told_on_both_sides(run: Run) -> None:
    async def main(giver: End, taker: End) -> None:
        source, target = FakeSource(), FakeTarget()
        source.failure = OSError("a sector is gone")
        giver.transfers.give(B, source)
        taker.transfers.take(A, target)
        what, _, error = await taker.ends()
        assert (what, "a sector is gone" in str(error)) == ("take failed", True)
        assert await giver.ends() == Told("give failed", B, source.failure)
        assert target.closed == 1

    run(transferring(main))


def test_a_disk_that_takes_nothing_is_told_and_the_target_closed(run: Run) -> None:
    async def main(giver: End, taker: End) -> None:
        target = FakeTarget()
        target.failure = OSError("no space")
        giver.transfers.give(B, FakeSource())
        taker.transfers.take(A, target)
        assert await taker.ends() == Told("take failed", A, target.failure)
        assert target.closed == 1

    run(transferring(main))


@pytest.mark.parametrize("pieces", [0, 1, 3, 9])
def test_it_goes_on_behind_a_connection_that_ended(run: Run, pieces: int) -> None:
    """The leader says again that one is to be taken, with what it gives then."""

    async def main(giver: End, taker: End) -> None:
        source, target = FakeSource(), FakeTarget()
        giver.transfers.give(B, source)
        taker.breaks_after = pieces
        giver.connected = taker.connected = pieces > 0
        taker.transfers.take(A, target)
        await taker.until(lambda: taker.pieces == pieces and isinstance(taker.said[-1], AskRecords | AskState))
        asked = len(taker.said)
        await taker.until(lambda: len(taker.said) > asked or not taker.connected)
        giver.transfers.stop_giving(B)
        giver.transfers.give(B, FakeSource())
        giver.connected = taker.connected = True
        assert not taker.transfers.received(A, say.TakeTransfer(3, Position(2, 7)))
        assert (await taker.ends()).what == "taken"
        assert target.lsns == [*range(1, 100, 2)]
        assert target.state == STATE

    run(transferring(main))


def test_another_checkpoint_brings_what_has_become_wanted_and_its_own_state(run: Run) -> None:
    async def main(giver: End, taker: End) -> None:
        target = FakeTarget()
        giver.transfers.give(B, FakeSource())
        taker.transfers.take(A, target)
        await giver.until(lambda: any(isinstance(each, GivenState) for each in giver.said))
        giver.transfers.give(B, FakeSource(lsn=140, state=b"newer"))
        assert (await taker.ends()).about.lsn == 140
        assert target.lsns == [*range(1, 140, 2)]
        assert target.state == b"newer"

    run(transferring(main))


def test_a_checkpoint_whose_log_may_go_is_not_given_and_a_later_one_brings_only_what_has_come_since(
    run: Run, jump: Callable[[float], None]
) -> None:
    async def main(giver: End, taker: End) -> None:
        first, second, target = FakeSource(), FakeSource(lsn=140, state=b"newer"), FakeTarget()
        giver.later = second
        giver.transfers.give(B, first)
        taker.transfers.take(A, target)
        await giver.until(lambda: Wait() in giver.said)
        assert not any(isinstance(each, GivenHead) for each in giver.said)
        await taker.until(lambda: taker.pieces == len(giver.said))
        jump(module.ASK_AGAIN_SECONDS)
        assert await taker.ends() == Told("taken", A, GivenHead(140, 3, 80, 5, 140))
        assert target.lsns == [*range(1, 140, 2)]
        assert target.state == b"newer"
        assert (first.begun, second.begun) == ([0], [100])

    run(transferring(main))


def test_what_is_dropped_is_closed_and_nothing_is_told(run: Run) -> None:
    async def main(giver: End, taker: End) -> None:
        target = FakeTarget()
        giver.transfers.give(B, FakeSource())
        taker.transfers.take(A, target)
        await taker.until(lambda: taker.pieces >= 2)
        taker.transfers.drop(A)
        await taker.transfers.close()
        assert target.closed == 1
        assert taker.told == []
        assert target.head is None

    run(transferring(main))


def test_another_transfer_takes_the_place_of_the_one_before(run: Run) -> None:
    async def main(giver: End, taker: End) -> None:
        first, second = FakeTarget(), FakeTarget()
        giver.transfers.give(B, FakeSource())
        taker.transfers.take("e" * 32, first)
        taker.transfers.take(A, second)
        assert (await taker.ends()).what == "taken"
        assert (first.lsns, second.lsns) == ([], [*range(1, 100, 2)])
        await taker.transfers.close()
        assert first.closed == 1

    run(transferring(main))


def test_what_takes_long_to_be_read_is_told_to_who_waits(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "STILL_SECONDS", 0.01)

    async def main(giver: End, taker: End) -> None:
        source, target = FakeSource(), FakeTarget()
        source.gate = threading.Event()
        giver.transfers.give(B, source)
        taker.transfers.take(A, target)
        await taker.until(lambda: taker.pieces >= 2)
        assert {*giver.said} == {Wait()}
        for _ in range(3):
            giver.transfers.received(B, AskRecords(0))
        source.gate.set()
        assert (await taker.ends()).what == "taken"
        assert source.begun == [0], "what is asked for twice is read once"
        assert target.lsns == [*range(1, 100, 2)]

    run(transferring(main))


def test_more_records_than_a_message_may_have_go_in_several(run: Run) -> None:
    async def main(giver: End, taker: End) -> None:
        target = FakeTarget()
        giver.transfers.give(B, FakeSource(lsn=2 * 3 * MAX_RECORDS, piece=10**9))
        taker.transfers.take(A, target)
        await taker.ends()
        given = [len(each.records) for each in giver.said if isinstance(each, GivenRecords)]
        assert given == [MAX_RECORDS] * 3
        assert target.lsns == [*range(1, 6 * MAX_RECORDS, 2)]

    run(transferring(main))


@pytest.mark.parametrize("offset", [1, 999, len(STATE), len(STATE) + 1, 10**12])
def test_a_piece_that_there_is_none_of_is_refused(run: Run, offset: int) -> None:
    async def main(giver: End, taker: End) -> None:
        giver.transfers.give(B, FakeSource())
        giver.transfers.received(B, AskState(100, offset))
        assert (await giver.ends()).what == "give failed"
        assert isinstance(giver.said[-1], NoTransfer)

    run(transferring(main))


def test_answers_that_nobody_has_asked_for_change_nothing(run: Run) -> None:
    async def main(giver: End, taker: End) -> None:
        target = FakeTarget()
        giver.transfers.give(B, None)
        taker.transfers.take(A, target)
        for stray in (
            GivenRecords(7, 9, [Record(7, 1, 2, 1, (b"7",))]),
            GivenHead(50, 1, 1, 0, 7),
            GivenState(100, 0, b"state"),
        ):
            assert taker.transfers.received(A, stray)
            assert taker.transfers.received("e" * 32, stray)
        assert taker.pieces == 0
        assert not taker.transfers.received(A, say.Follow(1))
        taker.transfers.drop("e" * 32)
        giver.transfers.give(B, FakeSource())
        assert taker.transfers.received(A, Wait())
        await taker.ends()
        assert target.lsns == [*range(1, 100, 2)]

    run(transferring(main))


# Over a link, from one journal into another


class TransferNode(LinkNode):
    """A node with links and transfers."""

    def begin(self) -> None:
        self.transfers = Transfers(self.links, self)
        self.ended: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        self.on_message = self.transfers.received

    def taking(self, peer: str) -> None:
        pass

    def taken(self, peer: str, head: Any) -> None:
        self.ended.set_result(head)

    def take_failed(self, peer: str, error: Exception) -> None:
        self.ended.set_exception(error)

    def give_failed(self, peer: str, error: Exception) -> None:
        raise AssertionError(error)

    def renewed(self, peer: str, source: Any) -> bool:
        return False


def test_a_journal_is_filled_over_a_link_while_signs_of_life_go_on(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tests.transport.cluster.link_nodes.LinkNode", TransferNode)
    options = JournalOptions(segment_bytes=1 << 20, spare_segments=1)
    leader = Node(options=options).lead(2)
    for number in range(200):
        leader.items(number % 3, number, 1, b"%d." % number + bytes(20_000))
    leader.items(0, 1_000, 1, bytes(900_000))
    leader.commit()
    ready: list[Any] = []
    source = leader.journal.begin_transfer(ready.append)
    leader.checkpoint(b"s" * 2_500_000)
    assert ready == [source]
    disk = SimulatedDisk()
    folder = ROOT / "new"

    async def main() -> None:
        beats = 0
        async with nodes("a", "b", a={"transfer_bytes_a_second": 40_000_000}, b={"make_record": ShippedRecord}) as both:
            a, b = both
            assert isinstance(a, TransferNode)
            assert isinstance(b, TransferNode)
            a.begin()
            b.begin()
            a.transfers.give(B, source)
            b.transfers.take(A, TransferTarget(folder, options, disk))
            while not b.ended.done():
                a.links.send(B, say.Replicate(2, Position(2, 9), 0, float(beats)))
                beats += 1
                await b.until(
                    lambda: sum(isinstance(message, say.Replicate) for _, message in b.got) >= beats  # noqa: B023
                )
            head = await b.ended
            assert tuple(head)[:4] == tuple(source.head())
            assert beats > 3
            await a.transfers.close()
            await b.transfers.close()

    run(main)
    source.release()
    assert [found for found in verify(folder, disk.restart()) if found.fatal] == []
    filled = Node(disk, options, directory=folder)
    assert filled.journal.checkpoint_payload == b"s" * 2_500_000
    assert filled.journal.next_lsn == source.lsn
    for stream, item in ((0, 0), (1, 100), (2, 197), (0, 1_000)):
        assert filled.journal.read(stream, item).payload == leader.journal.read(stream, item).payload
    assert ShippedRecord._fields == Record._fields
