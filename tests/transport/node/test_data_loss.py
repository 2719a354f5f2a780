"""What a cluster of the mode ``async`` loses with its leader is said: to the sender that had it confirmed, and by the node that kept it."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from actors.batch import MessageBatch
from streams import Sink, Source
from streams.testkit import settle
from tests.transport.node.nodes import Nodes, cluster
from tests.transport.node.test_administered import asked, member
from transport import Backoff, Sender
from transport.cli.cluster import status_lines, summary
from transport.errors import ConfirmedLostError, ConnectionLostError
from transport.node.cluster_node import ClusterNode

QUICK = Backoff(minimum=0.01, maximum=0.1)


class Cut:
    """A node that neither hears the others nor is heard; its clients are with it."""

    def __init__(self, node: ClusterNode) -> None:
        assert node._links is not None
        self._links: Any = node._links
        self._node = self._links._node
        self._links._node = self
        self._links.send = lambda *_: True
        self._links.ship = lambda *_: False

    def connected(self, peer: str) -> None: ...

    def lost(self, peer: str) -> None: ...

    def received(self, peer: str, message: object) -> None: ...

    def unknown(self, peer: str, name: str) -> None: ...

    def mend(self) -> None:
        del self._links.send, self._links.ship
        self._links._node = self._node
        for link in list(self._links._made):
            link.abort(ConnectionLostError("the cable is put in again"))


async def until(condition: Any) -> None:
    async with asyncio.timeout(30):
        while not condition():
            await settle(0.02)  # nobody is told of it


async def another(nodes: Nodes, former: str) -> str:
    """Who leads in the place of one that is cut off."""
    found: list[str] = []

    def leads() -> bool:
        found[:] = [name for name, node in nodes.running.items() if name != former and node.service.broker is not None]
        return bool(found)

    await until(leads)
    return found[0]


@pytest.mark.parametrize("known", [True, False], ids=["of-a-sender-that-is-known", "of-one-that-has-just-begun"])
def test_what_was_confirmed_and_not_shipped_is_told_to_its_sender_and_counted_and_kept(
    tmp_path: Path, known: bool
) -> None:
    async def body() -> None:
        async with cluster(tmp_path, cluster_mode="async") as nodes:
            confirmed: list[int] = []
            sender = Sender(nodes.send(), queue="orders", client_id="till", reconnect=QUICK)
            offering = Source.queue(10, of=MessageBatch).via(sender)
            running = offering.to(Sink.foreach(lambda each: confirmed.append(each.count))).run()
            leader = await nodes.leader()
            other = Sender(nodes.send(), queue="orders", client_id="other", reconnect=QUICK)
            await Source.single(b"0").to(other).run()
            if known:
                running.value.offer(MessageBatch.from_payloads([b"1", b"2"]))
                await until(lambda: sum(confirmed) == 2)
            await nodes.stands(lambda facts: all(each["in_step"] for each in facts["members"]), leader)
            cut = Cut(nodes.running[leader])
            running.value.offer(MessageBatch.from_payloads([b"3", b"4", b"5"]))
            await until(lambda: sum(confirmed) == (5 if known else 3))
            successor = await another(nodes, leader)
            with pytest.raises(ConfirmedLostError) as caught:
                await running
            error, stored = caught.value, 2 if known else 0
            assert (error.client_id, error.where, error.stored, error.confirmed) == (
                "till",
                "queue orders",
                stored,
                stored + 3,
            )
            assert f"queue orders: the broker has stored the messages of 'till' below {stored}, but" in str(error)
            facts = await nodes.stands(lambda facts: facts["role"] == "leader", successor)
            assert facts["whole"] is False
            assert any("may be missing" in line and "data-loss" in line for line in status_lines(facts, 200))
            cut.mend()
            facts = await nodes.stands(lambda facts: bool(member(facts, leader)["cut_messages"]), successor)
            row = member(facts, leader)
            assert (row["cut_messages"], row["cut_records"]) == (3, 1)
            facts = await nodes.stands(lambda facts: bool(member(facts, leader)["kept_files"]), successor)
            kept = list((tmp_path / leader).glob("diverged-*"))
            row = member(facts, leader)
            assert (row["kept_files"], row["kept_bytes"]) == (len(kept), sum(path.stat().st_size for path in kept))
            assert any(f"{leader} has cut" in line and "3 messages" in line for line in summary(facts))
            for name in (successor, leader):
                status, text = await asyncio.to_thread(asked, f"{nodes.http(name)}/metrics")
                assert status == 200
                assert f'penstock_cluster_member_cut_messages_total{{member="{leader}"}} 3'.encode() in text
                assert (b"penstock_cluster_whole 0" in text) == (name == successor)

    asyncio.run(body())


def test_a_sender_that_had_everything_stored_goes_on_at_a_leader_that_may_lack_something(tmp_path: Path) -> None:
    async def body() -> None:
        async with cluster(tmp_path, cluster_mode="async") as nodes:
            confirmed: list[int] = []
            sender = Sender(nodes.send(), queue="orders", client_id="till", reconnect=QUICK)
            offering = Source.queue(10, of=MessageBatch).via(sender)
            running = offering.to(Sink.foreach(lambda each: confirmed.append(each.count))).run()
            running.value.offer(MessageBatch.from_payloads([b"1", b"2"]))
            await until(lambda: sum(confirmed) == 2)
            leader = await nodes.leader()
            await nodes.stands(lambda facts: all(each["in_step"] for each in facts["members"]), leader)
            Cut(nodes.running[leader])
            await another(nodes, leader)
            running.value.offer(MessageBatch.from_payloads([b"3"]))
            await until(lambda: sum(confirmed) == 3)
            running.value.complete()
            await running
            assert sum(confirmed) == 3

    asyncio.run(body())
