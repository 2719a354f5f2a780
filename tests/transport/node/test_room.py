"""A follower that has no room for more of the log stays, says so, answers for nothing that it has not stored, and goes on when there is."""

from __future__ import annotations

import asyncio
import errno
import logging
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from actors.storage.options import PENDING_LOW_BYTES
from streams import Source
from streams.testkit import settle
from tests.transport.node.nodes import Nodes, cluster
from transport import Sender
from transport.cli.cluster import look, status_lines
from transport.clients.administration import Administration
from transport.node import room as module
from transport.node.room import FOLLOWERS_SHARE, Room

FLOOR = 1 << 30


class Bench:
    def __init__(self, floor: int = FLOOR) -> None:
        self.free: int | OSError = FLOOR
        self.pending = 0
        self.told: list[bool] = []
        self.room = Room(Path("d"), floor, lambda: self.pending, self.told.append, self._free)

    def _free(self, directory: Path) -> int:
        if isinstance(self.free, OSError):
            raise self.free
        return self.free


def test_a_follower_stops_at_half_of_the_floor_and_goes_on_above_it(caplog: pytest.LogCaptureFixture) -> None:
    bench = Bench()
    with caplog.at_level(logging.WARNING):
        for bench.free in (FLOOR // FOLLOWERS_SHARE, FLOOR // FOLLOWERS_SHARE - 1, 0, FLOOR // FOLLOWERS_SHARE, FLOOR):
            bench.room.look()
    assert bench.told == [True, False]
    assert [
        message
        for message in caplog.messages
        if "takes no records" in message and "the disk floor is 512 MiB" in message
    ]
    assert len(caplog.messages) == 2


def test_it_is_short_from_where_senders_would_wait_which_is_before_it_is_full() -> None:
    bench = Bench()
    seen = []
    for bench.free in (FLOOR, FLOOR - 1, FLOOR // FOLLOWERS_SHARE - 1, FLOOR, 2 * FLOOR):
        bench.room.look()
        seen.append((bench.room.short, bench.room.full is not None))
    assert seen == [(False, False), (True, False), (True, True), (True, False), (False, False)]


def test_a_disk_that_cannot_be_asked_is_not_written_to() -> None:
    bench = Bench()
    bench.free = OSError(errno.EIO, "broken")
    bench.room.look()
    assert bench.told == [True]
    assert bench.room.short
    assert "cannot be read (broken)" in (bench.room.full or "")


def test_without_a_floor_the_disk_is_not_looked_at() -> None:
    bench = Bench(0)
    bench.free = 0
    bench.room.look()
    assert bench.told == []


def test_a_journal_that_takes_no_more_is_full_until_the_disk_has_followed() -> None:
    bench = Bench()
    bench.pending = 2 * PENDING_LOW_BYTES
    bench.room.look()
    assert bench.told == []
    bench.room.behind()
    bench.room.behind()
    assert bench.told == [True]
    assert "32 MiB wait to be written" in (bench.room.full or "")
    bench.pending = PENDING_LOW_BYTES
    bench.room.look()
    assert bench.told == [True, False]


def test_it_is_looked_at_as_long_as_it_is_started(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "WATERMARK_INTERVAL", 0.005)

    async def body() -> None:
        bench = Bench()
        bench.room.start()
        bench.free = 0
        async with asyncio.timeout(10):
            while not bench.told:
                await settle(0.01)
        bench.room.stop()
        bench.free = FLOOR
        await settle(0.05)
        assert bench.told == [True]

    asyncio.run(body())


def test_a_follower_without_room_stays_is_not_in_step_and_catches_up_when_there_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(module, "WATERMARK_INTERVAL", 0.02)
    full: set[Path] = set()
    monkeypatch.setattr(Room.__init__, "__defaults__", (lambda directory: 0 if directory in full else FLOOR,))

    async def body() -> None:
        async with cluster(tmp_path, disk_floor=FLOOR) as nodes:
            leader = await nodes.leader()
            slow, other = sorted(set("abc") - {leader})
            await nodes.stands(in_step(slow, other), leader)
            full.add(tmp_path / slow)
            await until_full(nodes, slow, True)
            end = nodes.running[slow].storage.log.end
            await send(nodes, leader, 300)
            facts = await nodes.stands(
                lambda facts: in_step(other)(facts) and not member(facts, slow)["in_step"], leader
            )
            assert member(facts, slow)["stored"] <= end
            assert (member(facts, slow)["connected"], member(facts, slow)["role"]) == (True, "follower")
            assert nodes.running[slow].storage.log.end == end
            async with Administration(nodes.send(leader), any_node=True) as administration:
                lines = status_lines(await look(administration), None)
            assert [line for line in lines if line.startswith(f"  {slow} has no room: at ")]
            assert "\npenstock_cluster_full 1\n" in await asyncio.to_thread(metrics, nodes, slow)
            assert "\npenstock_cluster_full 0\n" in await asyncio.to_thread(metrics, nodes, other)
            full.clear()
            await until_full(nodes, slow, False)
            await nodes.stands(in_step(slow, other), leader)
            assert nodes.running[slow].storage.log.end > end
            assert not any(node._ended.done() for node in nodes.running.values())

    with caplog.at_level(logging.WARNING):
        asyncio.run(body())
    assert "this node takes no records when it follows, until there is room" in caplog.text
    assert "a transfer" not in caplog.text


def member(facts: dict[str, Any], name: str) -> dict[str, Any]:
    return next(each for each in facts["members"] if each["name"] == name)


def in_step(*names: str) -> Callable[[dict[str, Any]], bool]:
    return lambda facts: facts["role"] == "leader" and all(member(facts, name)["in_step"] for name in names)


async def until_full(nodes: Nodes, name: str, full: bool) -> None:
    async with asyncio.timeout(10):
        while (nodes.running[name].room.full is not None) != full:
            await settle(0.01)


async def send(nodes: Nodes, leader: str, count: int) -> None:
    messages = Source.from_iterable([b"%d" % number for number in range(count)])
    await messages.to(Sender(nodes.send(leader), queue="orders")).run()


def metrics(nodes: Nodes, name: str) -> str:
    import urllib.request

    with urllib.request.urlopen(f"{nodes.http(name)}/metrics", timeout=10.0) as answer:
        return str(answer.read().decode())
