"""A node carries out what its replica wants in order, tells it what was done when it is done, and ends where anything fails."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from actors.replication import vocabulary as say
from actors.replication.document import MAX_EPOCH, ClusterDocument, Member
from actors.replication.positions import Position
from actors.replication.register import (
    RegisterMovedError,
    RegisterUnavailableError,
    SwapUnknownError,
    Versioned,
)
from actors.storage import ShippedRecord
from actors.storage.node_shipping import RecordsGoneError
from journal import JournalDamagedError
from transport.cluster.node import Node

DOCUMENT = ClusterDocument("c" * 32, 1, "a", {"a": Member("a" * 32, "h:1", "h:2", "h:3")})


class Scripted:
    """A replica that wants what it is told to, whatever is said to it; it notes what that was."""

    role = "leader"
    me = "a" * 32

    def __init__(self) -> None:
        self.heard: list[tuple[Any, ...]] = []
        self.wants: dict[str, list[Any]] = {}
        self.document: ClusterDocument | None = None
        self.log: Any = None
        self.due = 3600.0
        self.told = asyncio.Event()

    def next_tick(self, now: float) -> float:
        return now + self.due

    def __getattr__(self, name: str) -> Callable[..., list[Any]]:
        def call(_now: float, *given: Any) -> list[Any]:
            self.heard.append((name, *given))
            self.told.set()
            return self.wants.pop(name, [])

        return call

    async def until(self, *heard: Any) -> None:
        """Wait until that was heard."""
        async with asyncio.timeout(10):
            while heard not in self.heard:
                self.told.clear()
                await self.told.wait()


class Records:
    def __init__(self, records: list[ShippedRecord], *, in_memory: bool) -> None:
        self.in_memory = in_memory
        self._records = records

    def read(self) -> list[ShippedRecord]:
        return self._records


def record(lsn: int) -> ShippedRecord:
    return ShippedRecord(lsn, 1, 1, 0, (b"12345",))


class Store:
    """Notes what it is asked for; what takes its time waits for ``go``."""

    def __init__(self) -> None:
        self.done: list[tuple[Any, ...]] = []
        self.go = asyncio.Event()
        self.fails: Exception | None = None
        self.in_memory = True
        self.log: object = object()

    def __getattr__(self, name: str) -> Any:
        if name in ("promise", "end_doubt", "truncate", "open", "step_down", "install"):

            async def later(*given: Any, **more: Any) -> None:
                self.done.append((f"{name} begun", *given, *more.values()))
                await self.go.wait()
                if self.fails is not None:
                    raise self.fails
                self.done.append((name, *given))

            return later

        def at_once(*given: Any) -> None:
            if self.fails is not None:
                raise self.fails
            self.done.append((name, *given))

        return at_once

    def records(self, lsn: int, most: int) -> Records:
        if lsn < 5:
            raise RecordsGoneError("gone")
        return Records([record(each) for each in range(lsn, lsn + most // 5)], in_memory=self.in_memory)

    def end(self) -> int:
        return 7 + 3  # what `ship` asks for ends there

    def same_log(self) -> object:
        return self.log


class Links:
    def __init__(self) -> None:
        self.sent: list[tuple[str, Any]] = []
        self.peers: dict[str, str] = {}
        self.full = False
        self.later: list[Callable[[], None]] = []

    connected: frozenset[str] = frozenset()

    def set_peers(self, peers: Any, _names: Any) -> None:
        self.peers = dict(peers)

    def send(self, peer: str, message: Any) -> bool:
        self.sent.append((peer, message))
        return True

    def ship(self, peer: str, message: Any, shipped: Callable[[], None]) -> bool:
        self.sent.append((peer, message))
        if self.full:
            self.later.append(shipped)
        return not self.full


class Register:
    def __init__(self, *outcomes: Any) -> None:
        self.outcomes = list(outcomes)

    async def read(self) -> Any:
        return self._next()

    async def swap(self, _version: int, _document: ClusterDocument) -> Any:
        return self._next()

    def _next(self) -> Any:
        outcome = self.outcomes.pop(0)
        if isinstance(outcome, Exception):
            raise outcome
        return outcome


class Bench:
    """A node with all that it has replaced."""

    def __init__(self, *outcomes: Any) -> None:
        self.replica = Scripted()
        self.store = Store()
        self.links = Links()
        self.failed: asyncio.Future[Exception] = asyncio.get_running_loop().create_future()
        replica: Any = self.replica
        self.node = Node(replica, self.store, self.links, Register(*outcomes), self.failed.set_result)

    def want(self, *effects: Any, at: str = "synced") -> None:
        """Have the replica want these, when something is said to it."""
        self.replica.wants[at] = list(effects)
        if at == "synced":
            self.node.synced()


def run(body: Callable[[], Any]) -> None:
    asyncio.run(body())


def ship(lsn: int = 7, records: int = 3, nbytes: int = 100) -> say.Ship:
    return say.Ship("b", say.Replicate(1, Position(1, lsn - 1), 5, 0.0), lsn, records, nbytes)


def test_effects_are_carried_out_in_order_before_anything_else_is_said() -> None:
    async def body() -> None:
        bench = Bench()
        bench.replica.wants["appended"] = [say.Confirm(9)]
        bench.want(say.Lead(2), say.Commit(8), say.Send("b", say.Seal(2)), say.Keep(4))
        assert bench.store.done == [("lead", 2), ("commit", 8), ("keep", 4), ("confirm", 9)]
        assert bench.links.sent == [("b", say.Seal(2))]
        assert bench.replica.heard == [("synced",), ("appended",)]

    run(body)


@pytest.mark.parametrize(
    ("effect", "asked", "told"),
    [
        (say.Promise(4), ("promise", 4), [("synced",), ("promised", 4)]),
        (say.EndDoubt(3), ("end_doubt", 3), [("doubt_ended",)]),
        (say.Truncate(6), ("truncate", 6), [("truncated",)]),
        (say.Install("b"), ("install", "b"), [("installed",)]),
    ],
)
def test_what_takes_the_disks_time_is_told_when_it_is_done(effect: Any, asked: Any, told: Any) -> None:
    async def body() -> None:
        bench = Bench()
        bench.want(effect)
        await asyncio.sleep(0)
        assert bench.store.done == [(f"{asked[0]} begun", *asked[1:])]
        assert bench.replica.heard == [("synced",)]
        bench.store.go.set()
        await bench.replica.until(*told[-1])
        assert bench.store.done[-1] == asked
        assert bench.replica.heard == [("synced",), *told]

    run(body)


def test_a_lead_that_ends_confirms_nothing_from_that_instant_and_the_directory_is_told_when_it_is_open_again() -> None:
    async def body() -> None:
        bench = Bench()
        bench.want(say.StepDown("enough"))
        assert bench.store.done == [("lead_no_more", "enough")]
        bench.store.go.set()
        await bench.replica.until("reopened")

    run(body)


def test_why_a_lead_ends_is_told_to_all_with_the_names_of_members(caplog: pytest.LogCaptureFixture) -> None:
    async def body() -> None:
        bench = Bench()
        bench.replica.document = DOCUMENT
        bench.node.start()
        bench.want(say.StepDown(f"{'a' * 32} has promised epoch 3"))
        assert bench.store.done == [("lead_no_more", "a has promised epoch 3")]
        assert "this node leads no more: a has promised epoch 3" in caplog.text
        bench.store.go.set()
        await bench.replica.until("reopened")

    run(body)


def test_records_in_memory_are_shipped_at_once_and_no_more_than_asked_for() -> None:
    async def body() -> None:
        bench = Bench()
        bench.want(ship(records=3))
        ((peer, message),) = bench.links.sent
        assert (peer, [each.lsn for each in message.records]) == ("b", [7, 8, 9])
        assert bench.replica.heard[-1] == ("shipped", "b", 7, 10, 15)

    run(body)


def test_a_link_that_is_full_holds_back_what_would_be_shipped_next() -> None:
    async def body() -> None:
        bench = Bench()
        bench.links.full = True
        bench.want(ship())
        assert bench.replica.heard == [("synced",)]
        bench.links.later[0]()
        assert bench.replica.heard[-1] == ("shipped", "b", 7, 10, 15)

    run(body)


def test_records_of_the_disk_are_read_on_a_thread() -> None:
    async def body() -> None:
        bench = Bench()
        bench.store.in_memory = False
        bench.want(ship())
        assert bench.links.sent == []
        await bench.replica.until("shipped", "b", 7, 10, 15)

    run(body)


def test_what_was_read_from_a_log_that_is_another_one_by_now_is_not_sent() -> None:
    async def body() -> None:
        bench = Bench()
        bench.store.in_memory = False
        bench.want(ship())
        await asyncio.sleep(0)
        bench.store.log = object()
        await bench.node.stop()
        assert bench.links.sent == []
        assert bench.replica.heard == [("synced",)]

    run(body)


def test_what_was_read_ahead_for_one_that_took_over_is_not_kept_when_there_is_a_leader() -> None:
    async def body() -> None:
        bench = Bench()
        bench.store.in_memory = False
        asked: list[int] = []
        records = bench.store.records
        bench.store.records = lambda lsn, most: (asked.append(lsn), records(lsn, 10))[1]  # type: ignore[method-assign]
        fetched = say.Ship("b", say.Fetched(1, 5), 5, 1, 100)
        bench.want(fetched)
        await asyncio.gather(*bench.node._tasks)
        assert [len(message.records) for _, message in bench.links.sent] == [1]
        before = len(asked)
        # What was read with the first is not read again, until somebody leads.
        bench.want(say.Ship("b", say.Fetched(1, 6), 6, 1, 100))
        assert 6 not in asked[before:]
        bench.want(fetched)
        await asyncio.gather(*bench.node._tasks)
        bench.want(say.LeaderKnown("b", 2))
        bench.want(say.Ship("b", say.Fetched(1, 6), 6, 1, 100))
        assert asked[-1] == 6
        await bench.node.stop()

    run(body)


@pytest.mark.parametrize("another", [True, False])
def test_damage_that_is_read_ends_the_node_unless_the_log_was_replaced_meanwhile(*, another: bool) -> None:
    class Damaged(Records):
        def read(self) -> list[ShippedRecord]:
            raise JournalDamagedError(Path("segment"), 7, "a half of it is gone")

    async def body() -> None:
        bench = Bench()
        bench.store.records = lambda _lsn, _most: Damaged([], in_memory=False)  # type: ignore[method-assign]
        bench.want(ship())
        await asyncio.sleep(0)
        if another:
            bench.store.log = object()
        await asyncio.gather(*bench.node._tasks)
        assert bench.failed.done() is not another
        assert bench.links.sent == []

    run(body)


def test_records_that_are_gone_are_said_to_be() -> None:
    async def body() -> None:
        bench = Bench()
        bench.want(ship(lsn=3))
        assert bench.links.sent == []
        assert bench.replica.heard[-1] == ("shipped", "b", 3, 3, 0)
        bench.want(say.Ship("b", say.Fetched(1, 3), 3, 5, 100))
        assert bench.links.sent == [("b", say.Fetched(1, 3, ()))]

    run(body)


@pytest.mark.parametrize(
    ("outcome", "told"),
    [
        (Versioned(3, DOCUMENT), ("register_read", 7, 3, DOCUMENT)),
        (RegisterUnavailableError("away"), ("register_failed", 7)),
    ],
)
def test_what_a_read_comes_to_is_told(outcome: Any, told: Any) -> None:
    async def body() -> None:
        bench = Bench(outcome)
        bench.want(say.ReadRegister(7))
        await bench.replica.until(*told)
        assert bench.replica.heard == [("synced",), told]

    run(body)


@pytest.mark.parametrize(
    "read",
    [None, replace(DOCUMENT, cluster="e" * 32), replace(DOCUMENT, epoch=MAX_EPOCH)],
    ids=["none", "another cluster's", "of an epoch far ahead"],
)
def test_what_is_not_this_clusters_document_is_no_answer(
    read: ClusterDocument | None, caplog: pytest.LogCaptureFixture
) -> None:
    async def body() -> None:
        bench = Bench(Versioned(9, read), Versioned(10, DOCUMENT))
        bench.replica.document = DOCUMENT
        bench.replica.log = SimpleNamespace(promised=DOCUMENT.epoch)
        bench.want(say.ReadRegister(7))
        await bench.replica.until("register_failed", 7)
        assert "the register does not answer" in caplog.text
        bench.want(say.ReadRegister(8))
        await bench.replica.until("register_read", 8, 10, DOCUMENT)
        assert "the register answers again" in caplog.text

    run(body)


@pytest.mark.parametrize(
    ("outcome", "told"),
    [
        (4, ("register_swapped", 8, 4)),
        (RegisterMovedError(5), ("register_moved", 8)),
        (SwapUnknownError("lost"), ("register_failed", 8)),
        (RegisterUnavailableError("away"), ("register_failed", 8)),
    ],
)
def test_what_a_swap_comes_to_is_told(outcome: Any, told: Any) -> None:
    async def body() -> None:
        bench = Bench(outcome)
        bench.want(say.SwapRegister(8, 3, DOCUMENT))
        await bench.replica.until(*told)
        assert bench.replica.heard == [("synced",), told]

    run(body)


def test_links_follow_the_document_and_who_it_names_has_a_name() -> None:
    async def body() -> None:
        bench = Bench()
        assert bench.node.name_of("a" * 32) == "a" * 32
        bench.replica.document = DOCUMENT
        bench.node.start()
        assert bench.links.peers == {"a" * 32: "h:3"}
        assert [bench.node.name_of(each * 32) for each in "ab"] == ["a", "b" * 32]

    run(body)


def told_without(document: ClusterDocument, caplog: pytest.LogCaptureFixture) -> list[str]:
    """What a node of `DOCUMENT` logs that hears of another one, twice."""

    async def body() -> None:
        bench = Bench()
        for each in (DOCUMENT, document, replace(document, epoch=9)):
            bench.replica.document = each
            bench.node.appended()

    run(body)
    return [line for line in caplog.messages if "no member" in line]


def test_a_node_that_was_removed_says_once_that_it_can_be_stopped_and_how_it_can_come_back(
    caplog: pytest.LogCaptureFixture,
) -> None:
    other = {"b": Member("b" * 32, "h:4", "h:5", "h:6")}
    [line] = told_without(replace(DOCUMENT, leader="b", members=other), caplog)
    assert "was removed: its process can be stopped" in line
    assert "`penstock cluster add a=h:3`" in line


def test_a_node_whose_member_lives_elsewhere_says_once_that_it_can_be_stopped(caplog: pytest.LogCaptureFixture) -> None:
    moved = {"a": Member("b" * 32, "h:4", "h:5", "h:6")}
    [line] = told_without(replace(DOCUMENT, members=moved), caplog)
    assert "the member 'a' lives in another one now, at h:6: the process of this one can be stopped" in line


def test_a_node_that_stays_a_member_says_nothing_of_it(caplog: pytest.LogCaptureFixture) -> None:
    assert told_without(replace(DOCUMENT, epoch=8), caplog) == []


def test_a_defect_at_the_register_is_logged_and_harms_nothing_else(caplog: pytest.LogCaptureFixture) -> None:
    async def body() -> None:
        bench = Bench(KeyError("a defect"))
        bench.want(say.ReadRegister(7))
        await asyncio.gather(*bench.node.register_calls._tasks, return_exceptions=True)
        await asyncio.sleep(0)
        assert not bench.failed.done()
        assert "has ended on a defect" in caplog.text

    run(body)


def test_links_that_cannot_go_where_the_document_says_end_the_node() -> None:
    async def body() -> None:
        bench = Bench()
        bench.replica.document = DOCUMENT
        fails = OSError("no such place")

        def set_peers(_: Any, _names: Any) -> None:
            raise fails

        bench.links.set_peers = set_peers  # type: ignore[method-assign]
        bench.node.synced()
        assert await asyncio.wait_for(bench.failed, 10) is fails

    run(body)


def test_time_is_told_when_it_is_due_and_no_sooner() -> None:
    async def body() -> None:
        bench = Bench()
        bench.replica.due = 0.01
        bench.node.start()
        bench.replica.heard.clear()
        began = asyncio.get_running_loop().time()
        await bench.replica.until("tick")
        assert asyncio.get_running_loop().time() - began >= bench.replica.due
        await bench.node.stop()

    run(body)


@pytest.mark.parametrize("effect", [say.Append([]), say.Promise(4)])
def test_a_directory_that_fails_ends_the_node_and_nothing_is_carried_out_any_more(effect: Any) -> None:
    async def body() -> None:
        bench = Bench()
        bench.store.fails = OSError(5, "the disk")
        bench.store.go.set()
        bench.want(effect, say.Send("b", say.Seal(4)))
        assert await asyncio.wait_for(bench.failed, 10) is bench.store.fails
        heard = list(bench.replica.heard)
        bench.node.appended()
        assert bench.replica.heard == heard

    run(body)


def test_a_hand_over_waits_until_it_leads_no_more() -> None:
    async def body() -> None:
        bench = Bench()
        bench.replica.wants["hand_over"] = [say.StepDown("asked")]
        handed = asyncio.ensure_future(bench.node.hand_over())
        await asyncio.sleep(0)
        assert bench.replica.heard == [("hand_over",)]
        assert not handed.done()
        bench.store.go.set()
        await asyncio.wait_for(handed, 10)
        assert ("reopened",) in bench.replica.heard

    run(body)


def test_what_it_has_seen_that_cannot_be_is_kept() -> None:
    async def body() -> None:
        bench = Bench()
        bench.want(say.Diverged(12))
        assert bench.node.diverged == 12

    run(body)


def test_every_effect_has_somebody_who_carries_it_out() -> None:
    from transport.cluster.node import _CARRY_OUT

    assert set(_CARRY_OUT) == set(say.Effect.__args__)
