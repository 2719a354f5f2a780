"""The time that senders are held back is a part of each second, and over when nobody lags, or this node leads no more."""

from __future__ import annotations

import asyncio
import logging
import urllib.request
from pathlib import Path
from typing import Any

import pytest

from actors.replication import holding as limits
from actors.replication.holding import Lagging
from actors.replication.leader import Leader
from actors.replication.standing import Marks
from streams import Sink, Source
from streams.testkit import elapse, run_in_virtual_time
from tests.actors.replication.machines import B, C, append, document, follows, leading, log, stores
from tests.transport.node.nodes import cluster
from transport import Receiver, Sender
from transport.cli.cluster import status_lines, summary
from transport.node import holding
from transport.node.holding import SendersHolding

BEAT = 0.5
RECORDS = 100


class Bench:
    """A leader whose log grows; one follower has all of it, and the other one as much as it is given."""

    def __init__(self) -> None:
        self.loop = asyncio.get_running_loop()
        self.held: list[tuple[float, bool]] = []
        self.holding = SendersHolding(lambda holds: self.held.append((self.loop.time(), holds)))
        self.document = document()
        self.disk = log(1, 1)
        self.leader: Any = leading(self.disk, 2, self.document, now=self.loop.time())
        self.marks = Marks()
        self.has = 3
        for peer in (B, C):
            follows(self.leader, peer, log(1, 1), self.loop.time())

    async def beats(self, count: int, gets: int, room: bool = True) -> None:
        """So many beats, in each of which it gets so many records."""
        for _ in range(count):
            now = self.loop.time()
            append(self.disk, *(RECORDS * [2]))
            self.disk.durable = self.disk.end
            self.leader.appended(now)
            self.has = min(self.disk.end, self.has + gets)
            stores(self.leader, B, self.disk.end, now)
            stores(self.leader, C, self.has, now)
            self.leader.synced()
            self.leader.tick(now)
            self.marks.add(now, self.disk.end, self.disk.end * 1000)
            self.look(() if room else (C,))
            await elapse(BEAT)

    def look(self, without_room: tuple[str, ...] = ()) -> None:
        self.holding.look(self.leader, self.marks, self.disk.end * 1000, without_room, self.document.name_of)

    def share_since(self, began: float) -> float:
        """Of the time since then, for which senders were held back."""
        now, seconds, since = self.loop.time(), 0.0, None
        for when, holds in self.held:
            if holds:
                since = when
            elif since is not None:
                seconds += max(0.0, when - max(began, since))
                since = None
        return seconds / (now - began)


def test_senders_are_held_back_for_a_part_of_each_second_and_people_are_told_for_whom(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.INFO, "penstock.cluster")

    async def body() -> None:
        bench = Bench()
        await bench.beats(30, RECORDS // 2)
        began = bench.loop.time()
        await bench.beats(20, RECORDS // 2)
        assert bench.share_since(began) == pytest.approx(limits.MOST_SHARE, abs=0.02)
        facts = bench.holding.facts(bench.document, leads=True)
        assert facts == {"held_back": limits.MOST_SHARE, "held_back_for": "c", "given_up": []}
        # It gets more than there is: when it has all, it is over.
        await bench.beats(80, RECORDS * 3)
        assert bench.holding.facts(bench.document, leads=True)["held_back"] == 0.0
        count = len(bench.held)
        await bench.beats(10, RECORDS)
        assert len(bench.held) == count
        assert bench.held[-1][1] is False
        told = [each.message for each in caplog.records]
        assert told == [
            "senders are held back, for 30 % of the time at most, so that the node c comes in step",
            "senders are held back no more",
        ]

    run_in_virtual_time(body())


def test_one_that_stays_slow_is_given_up_and_people_are_told_what_to_do(caplog: pytest.LogCaptureFixture) -> None:
    async def body() -> None:
        bench = Bench()
        await bench.beats(200, 1)
        facts = bench.holding.facts(bench.document, leads=True)
        assert facts == {"held_back": 0.0, "held_back_for": None, "given_up": ["c"]}
        (told,) = [each.message for each in caplog.records]
        assert told.startswith("the node c does not come in step though senders were held back for it")
        assert bench.share_since(0.0) < limits.MOST_SHARE

    run_in_virtual_time(body())


@pytest.mark.parametrize("ended", [True, False])
def test_who_leads_no_more_holds_nobody_back(*, ended: bool) -> None:
    async def body() -> None:
        bench = Bench()
        await bench.beats(30, RECORDS // 2)
        while not bench.held[-1][1]:
            await elapse(0.1)
        if ended:
            bench.holding.stop()
        else:
            bench.leader.step_down("another one leads")
            bench.look()
        assert bench.held[-1][1] is False
        count = len(bench.held)
        await elapse(10 * limits.PERIOD_SECONDS)
        assert len(bench.held) == count
        assert bench.holding.facts(bench.document, leads=False)["held_back"] is None

    run_in_virtual_time(body())


def test_nobody_is_held_back_for_a_disk_that_has_no_room() -> None:
    async def body() -> None:
        bench = Bench()
        await bench.beats(60, 1, room=False)
        assert bench.held == []

    run_in_virtual_time(body())


def test_the_leader_of_a_cluster_shows_for_whom_senders_are_held_back_and_takes_what_they_send(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    follower = ""

    def lags(leader: Leader, *_: object) -> list[Lagging]:
        return [Lagging(peer, 1 << 30) for peer in leader.peers if names.get(peer) == follower]

    names: dict[str, str] = {}
    monkeypatch.setattr(holding, "lagging", lags)

    async def body() -> None:
        nonlocal follower
        async with cluster(tmp_path) as nodes:
            leader = await nodes.leader()
            led = await nodes.stands(lambda facts: facts["leader"] == leader and facts["held_back"] == 0.0, leader)
            names.update((each["directory"], each["name"]) for each in led["members"])
            follower = min(set("abc") - {leader})
            facts = await nodes.stands(lambda facts: facts["held_back"] == limits.MOST_SHARE, leader)
            shown = f"  senders are held back for {follower}, which lags: 30 % of the time"
            assert shown in status_lines(facts, None)
            assert shown in summary(facts)
            metrics = await asyncio.to_thread(urllib.request.urlopen, nodes.http(leader) + "/metrics")
            with metrics:
                assert "penstock_cluster_senders_held_back 0.3\n" in metrics.read().decode()
            config = nodes.running[leader].config
            await Source.from_iterable([b"x"] * 100).to(Sender(config.send_address, queue="orders")).run()
            receiver = Receiver(config.receive_address, queue="orders", limit=100)
            assert await receiver.to(Sink.acknowledge()).run() == 100
            other = await nodes.stands(lambda facts: facts["leader"] == leader, follower)
            assert other["held_back"] is None
            follower = ""
            await nodes.stands(lambda facts: facts["held_back"] == 0.0, leader)

    asyncio.run(body())


def test_who_was_given_up_is_shown() -> None:
    lines = status_lines({"members": [], "given_up": ["c"]}, None)
    assert "  c lags, and senders are held back for it no more: it is slower than the others" in lines
