"""What a node does for the transfers that its replica wants, and at the end of a lead."""

from __future__ import annotations

import asyncio
import math
import threading
from collections.abc import Callable, Coroutine
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from actors.errors import StorageError
from journal import JournalDamagedError, TransferHead
from streams.testkit import settle
from transport.cluster import node_work as module
from transport.cluster import transfers
from transport.cluster.node_work import NodeWork
from transport.cluster.transfer_messages import AskRecords, GivenHead, GivenState, NoTransfer
from transport.errors import RemoteProtocolError

A, B = "a" * 32, "b" * 32


class Target:
    """Keeps nothing."""

    next_lsn = 5

    def __init__(self, shipping: Shipping) -> None:
        self._shipping = shipping

    def begin_state(self) -> None:
        assert self._shipping.may.wait(30)

    def add_state(self, piece: Any) -> None:
        pass

    def finish(self, head: Any) -> None:
        pass

    def close(self) -> None:
        self._shipping.open -= 1


class Shipping:
    """Opens one target at a time, when it may."""

    def __init__(self) -> None:
        self.opened = 0
        self.open = 0
        self.most = 0
        self.may = threading.Event()
        self.may.set()
        self.asked = threading.Event()
        self.failure: Exception | None = None
        self.installed: list[int] = []
        self.discarded = 0
        self.lags: list[float] = []

    def lag(self, lsn: int) -> float:
        return self.lags[lsn]

    def target(self) -> Target:
        self.asked.set()
        assert self.may.wait(30)
        self.opened += 1
        if self.failure is not None:
            raise self.failure
        self.open += 1
        self.most = max(self.most, self.open)
        return Target(self)

    async def install(self, lsn: int) -> None:
        self.installed.append(lsn)

    def discard(self) -> bool:
        assert self.open == 0, "nobody is taking into it"
        if self.failure is not None:
            raise self.failure
        self.discarded += 1
        return True


class Bench:
    """The work of a node, with all around it replaced."""

    def __init__(self) -> None:
        self.sent: list[tuple[str, Any]] = []
        self.told: list[str] = []
        self.shipping = Shipping()
        self.changed = asyncio.Event()
        nothing: Any = None
        shipping: Any = self.shipping
        storage: Any = SimpleNamespace(append=lambda _: None, lead=lambda _: None)
        self.full: str | None = None
        self.work = NodeWork(storage, nothing, self, shipping, lambda _: None, full=lambda: self.full)
        node: Any = self
        self.work.node = node

    def send(self, peer: str, message: Any) -> bool:
        self.sent.append((peer, message))
        self.changed.set()
        return True

    def name_of(self, directory: str) -> str:
        return directory[0]

    def taking(self) -> None:
        self._tell("taking")

    def transferred(self) -> None:
        self._tell("transferred")

    def transfer_failed(self) -> None:
        self._tell("transfer failed")

    def _tell(self, what: str) -> None:
        self.told.append(what)
        self.changed.set()

    @property
    def said(self) -> list[str]:
        """But for signs of life."""
        return [each for each in self.told if each != "taking"]

    async def until(self, condition: Callable[[], object]) -> None:
        async with asyncio.timeout(10):
            while not condition():
                self.changed.clear()
                await self.changed.wait()


def with_bench(main: Callable[[Bench], Coroutine[Any, Any, None]]) -> None:
    async def run() -> None:
        bench = Bench()
        try:
            await main(bench)
        finally:
            bench.shipping.may.set()
            await bench.work.close()
        assert bench.shipping.open == 0, "every target is closed"

    asyncio.run(run())


def test_a_transfer_that_is_wanted_again_while_its_folder_is_still_being_opened_is_taken_once() -> None:
    async def main(bench: Bench) -> None:
        bench.shipping.may.clear()
        bench.work.take(A)
        assert await asyncio.to_thread(bench.shipping.asked.wait, 10)  # a thread is about to open it
        bench.work.drop_transfer(A)
        bench.work.take(A)
        bench.shipping.may.set()
        await bench.until(lambda: bench.sent)
        assert bench.sent == [(A, AskRecords(5))]
        assert bench.shipping.most == 1, "two would stand in one another's way"
        assert bench.said == []

    with_bench(main)


def test_another_transfer_waits_until_the_folder_of_the_one_before_is_closed() -> None:
    async def main(bench: Bench) -> None:
        bench.work.take(A)
        await bench.until(lambda: bench.sent)
        bench.work.drop_transfer(A)
        bench.work.take(B)
        await bench.until(lambda: len(bench.sent) == 2)
        assert bench.sent[1] == (B, AskRecords(5))
        assert bench.shipping.most == 1
        assert bench.said == []

    with_bench(main)


@pytest.mark.parametrize("where", ["at the folder", "on the way"])
def test_a_transfer_that_fails_is_asked_for_again_after_a_while(where: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "AGAIN_SECONDS", 0.05)

    async def main(bench: Bench) -> None:
        if where == "at the folder":
            bench.shipping.failure = OSError(28, "no room")
        began = asyncio.get_running_loop().time()
        bench.work.take(A)
        if where == "on the way":
            await bench.until(lambda: bench.sent)
            bench.work.transfers.received(A, NoTransfer("gone"))
        await bench.until(lambda: bench.said)
        assert bench.said == ["transfer failed"]
        assert asyncio.get_running_loop().time() - began >= 0.05

    with_bench(main)


def test_no_transfer_is_taken_into_a_disk_that_is_full(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(module, "AGAIN_SECONDS", 30.0)
    monkeypatch.setattr(module, "AGAIN_WITHOUT_ROOM_SECONDS", 0.05)

    async def main(bench: Bench) -> None:
        bench.full = "1 MiB are free"
        bench.work.take(A)
        await bench.until(lambda: bench.said)
        assert bench.said == ["transfer failed"]
        assert bench.shipping.opened == 0
        bench.full = None
        bench.work.take(A)
        await bench.until(lambda: bench.sent)

    with_bench(main)
    assert "the transfer from a cannot go on, and is asked for again: 1 MiB are free" in caplog.text


def test_a_transfer_that_failed_and_is_dropped_before_that_is_told_is_not_told_to_have_failed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(module, "AGAIN_SECONDS", 0.02)

    async def main(bench: Bench) -> None:
        bench.work.take(A)
        await bench.until(lambda: bench.sent)
        bench.work.transfers.received(A, NoTransfer("gone"))
        bench.work.drop_transfer(A)
        bench.work.take(A)
        await bench.until(lambda: len(bench.sent) == 2)
        await settle(0.05)
        assert bench.said == []

    with_bench(main)


def test_one_that_is_whole_is_told_and_installed() -> None:
    async def main(bench: Bench) -> None:
        bench.work.take(A)
        await bench.until(lambda: bench.sent)
        bench.shipping.open -= 1  # who finishes a target closes it
        bench.work.transfers.received(A, GivenHead(*TransferHead(9, 1, 1, 1), 5))
        await bench.until(lambda: len(bench.sent) == 2)
        bench.work.transfers.received(A, GivenState(9, 0, b"x"))
        await bench.until(lambda: bench.said)
        assert bench.said == ["transferred"]
        await bench.work.install(A)
        assert bench.shipping.installed == [9]

    with_bench(main)


GOES_ON: list[Callable[[NodeWork], object]] = [lambda work: work.append([]), lambda work: work.lead(3)]


@pytest.mark.parametrize("goes_on", GOES_ON)
def test_what_a_dropped_transfer_has_left_goes_once_the_log_goes_on_without(
    goes_on: Callable[[NodeWork], object],
) -> None:
    async def main(bench: Bench) -> None:
        bench.work.take(A)
        await bench.until(lambda: bench.sent)
        bench.work.drop_transfer(A)
        await settle(0.02)
        assert bench.shipping.discarded == 0
        goes_on(bench.work)
        await bench.work.settled()
        assert bench.shipping.discarded == 1
        goes_on(bench.work)
        await bench.work.settled()
        assert bench.shipping.discarded == 1, "there is nothing more to look for"

    with_bench(main)


def test_what_a_start_before_has_left_goes_too() -> None:
    async def main(bench: Bench) -> None:
        bench.work.append([])
        await bench.work.settled()
        assert bench.shipping.discarded == 1

    with_bench(main)


def test_a_transfer_that_is_wanted_meanwhile_goes_on_behind_what_is_there() -> None:
    async def main(bench: Bench) -> None:
        bench.work.append([])
        bench.work.take(B)
        await bench.until(lambda: bench.sent)
        assert bench.shipping.discarded == 0
        bench.work.drop_transfer(B)
        bench.work.append([])
        await bench.work.settled()
        assert bench.shipping.discarded == 1

    with_bench(main)


def test_what_cannot_be_removed_stays_and_that_is_said(caplog: pytest.LogCaptureFixture) -> None:
    async def main(bench: Bench) -> None:
        bench.shipping.failure = StorageError("the disk")
        bench.work.append([])
        await bench.work.settled()
        bench.shipping.failure = None

    with_bench(main)
    assert "what a transfer has left stays in the data directory: the disk" in caplog.text


@pytest.mark.parametrize("where", ["the folder", "a piece"])
def test_a_disk_that_takes_its_time_is_no_transfer_of_which_nothing_comes(
    where: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "STILL_SECONDS", 0.01)
    monkeypatch.setattr(transfers, "STILL_SECONDS", 0.01)

    async def main(bench: Bench) -> None:
        if where == "the folder":
            bench.shipping.may.clear()
            bench.work.take(A)
        else:
            bench.work.take(A)
            await bench.until(lambda: bench.sent)
            bench.shipping.may.clear()
            bench.work.transfers.received(A, GivenHead(*TransferHead(9, 1, 1, 1), 5))
        await bench.until(lambda: bench.told.count("taking") > 3)

    with_bench(main)


def test_what_may_be_missing_is_said_before_anything_else_is_done(caplog: pytest.LogCaptureFixture) -> None:
    async def main(bench: Bench) -> None:
        opening = bench.work.open(4, whole=False)
        assert "messages that the leader before it has confirmed may be missing" in caplog.text
        opening.close()

    with_bench(main)


@pytest.mark.parametrize(
    ("error", "ends"),
    [
        (JournalDamagedError(Path("data/1.segment"), 48, "a bit"), True),
        (OSError(5, "Input/output error"), True),
        (OSError(24, "Too many open files"), False),
        (RemoteProtocolError("the state has no piece from byte 7 on"), False),
    ],
)
def test_a_leader_that_cannot_read_what_a_transfer_needs_is_no_leader_any_more(error: Exception, ends: bool) -> None:
    class Storage:
        directory = Path("data")

        def __init__(self) -> None:
            self.failed: list[Exception] = []

        def fail(self, error: Exception) -> None:
            self.failed.append(error)

    async def body() -> None:
        bench, storage = Bench(), Storage()
        work: Any = bench.work
        work._storage = storage
        work.give_failed(B, error)
        assert storage.failed == ([error] if ends else [])

    asyncio.run(body())


class Given:
    """A transfer that is ready when it is asked for."""

    def __init__(self, lsn: int) -> None:
        self.lsn = lsn
        self.released = False

    def release(self) -> None:
        self.released = True


@pytest.mark.parametrize(
    ("lags", "why"),
    [
        ([0.5], "there is time enough to follow on"),
        ([0.6, 0.4], "the second one is of what came while the first was given"),
        ([math.inf, math.inf, 0.1], "without the log behind it a checkpoint is of no use"),
        ([math.inf, 0.9, 0.8, 0.8], "no less is behind the last one"),
        ([3.0, 9.0], "a backlog grows faster than it is given, and what is live of the log stays"),
    ],
)
def test_a_later_checkpoint_is_given_as_long_as_that_helps_whoever_is_to_follow_on(lags: list[float], why: str) -> None:
    async def body() -> None:
        bench = Bench()
        made: list[Given] = []

        def give(ready: Callable[[Any], None]) -> Given:
            made.append(Given(len(made)))
            asyncio.get_running_loop().call_soon(ready, made[-1])
            return made[-1]

        storage: Any = SimpleNamespace(give=give)
        bench.work._storage = storage
        bench.shipping.lags = lags
        bench.work.give(B)
        await settle(0)
        while bench.work.renewed(B, bench.work._given[B]):
            await settle(0)
            assert [each.released for each in made] == [True] * (len(made) - 1) + [False]
        assert len(made) == len(lags), why
        bench.work.give(B)
        assert len(made) == len(lags) + 1
        bench.shipping.lags = [*lags[: len(made) - 1], 2.0]
        assert bench.work.renewed(B, bench.work._given[B]), "what was before is forgotten"
        bench.work.unpin(B)
        assert all(each.released for each in made)
        await bench.work.close()

    asyncio.run(body())
