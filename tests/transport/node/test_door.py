"""What stands at a node that does not lead: whoever comes hears who does, and nobody holds up the broker that comes in its place."""

from __future__ import annotations

import asyncio
import logging
from pathlib import Path
from typing import Any

import pytest

from actors.storage.failures import LeadershipLostError
from tests.transport.conftest import until
from tests.transport.node.nodes import cluster
from transport import Broker, BrokerConfig
from transport.broker.leadership import Leadership
from transport.node.follower_door import FollowerDoor
from transport.wire.messages import Demand, Hello

FREE = {"send_address": "127.0.0.1:0", "receive_address": "127.0.0.1:0"}


TRIES = 3
"""Of which one has to be quick enough: a machine may stand still in any one of them."""


@pytest.mark.parametrize("said", [b"", b"\0\0\0"])
def test_a_connection_that_stays_does_not_hold_up_who_comes_to_lead(run: Any, said: bytes) -> None:
    async def took() -> float:
        door = FollowerDoor(BrokerConfig(**FREE))
        await door.open()
        assert door.broker is not None
        host, port = door.broker.send_address.rsplit(":", 1)
        _, writer = await asyncio.open_connection(host, int(port))
        writer.write(said)
        standing = door.broker
        await until(lambda: len(standing.connections) > 0)
        loop = asyncio.get_running_loop()
        began = loop.time()
        await door.close()
        writer.close()
        return loop.time() - began

    async def main() -> None:
        for _ in range(TRIES):
            if (seconds := await took()) < 1.0:
                break
        assert seconds < 1.0, "a take-over is to take no longer"

    run(main)


def test_it_says_who_leads_and_forgets_it_when_that_is_not_known_any_more(run: Any, peers: Any) -> None:
    async def main() -> None:
        door = FollowerDoor(BrokerConfig(**FREE))
        await door.open()
        assert door.broker is not None
        async with peers() as opened:
            for leader in ("h:7", ""):
                door.leader({"send": [leader]} if leader else {})
                peer = await opened.connect(door.broker.send_address)
                peer.send(Hello(1, "sender", "orders", "c", {}))
                assert (await peer.refusal()).leader == leader
        await door.close()

    run(main)


def test_a_node_that_is_left_alone_names_no_leader_that_is_gone(run: Any, peers: Any, tmp_path: Path) -> None:
    async def main() -> None:
        async with cluster(tmp_path) as nodes, peers() as opened:
            leads = await nodes.leader()
            left, other = sorted(set("abc") - {leads})
            await nodes.stands(lambda facts: facts["leader"] == leads, left)
            await nodes.stop(other)
            await nodes.stop(leads)
            await nodes.stands(lambda facts: facts["leader"] is None, left)
            peer = await opened.connect(nodes.send(left))
            peer.send(Hello(1, "sender", "orders", "c", {}))
            assert (await peer.refusal()).leader == ""

    run(main)


def test_those_inside_a_broker_whose_node_leads_no_more_are_told_that_and_no_failure(
    run: Any, peers: Any, caplog: pytest.LogCaptureFixture
) -> None:
    async def main() -> None:
        leadership = Leadership()
        leadership.lead()
        async with Broker(BrokerConfig(**FREE), leadership=leadership) as broker, peers() as opened:
            inside = await opened.open(broker.send_address, "sender", "orders", "c")
            await inside.expect(Demand)
            broker.lead_no_more()
            broker._storage_failed(LeadershipLostError("this node leads its cluster no more"))
            assert (await inside.refusal()).code == "not-leader"
        assert not [record for record in caplog.records if record.levelno >= logging.ERROR]

    run(main)
