"""A broker that was alone becomes one of three: nobody else leads before having what it holds."""

from __future__ import annotations

import asyncio
from pathlib import Path

from streams import Source
from tests.transport.node.nodes import Nodes, cluster
from transport import Broker, BrokerConfig, Receiver, Sender

FREE = "127.0.0.1:0"
MESSAGES = [b"%d" % number for number in range(50)]


def test_what_a_broker_held_that_was_alone_is_led_by_it_first_and_by_others_once_they_have_it(tmp_path: Path) -> None:
    async def main() -> None:
        alone = BrokerConfig(FREE, FREE, directory=str(tmp_path / "b"))
        async with Broker(alone) as broker:
            await Source.from_iterable(MESSAGES).to(Sender(broker.send_address, queue="q")).run()
        async with cluster(tmp_path) as nodes:
            assert await nodes.leader() == "b"
            await nodes.stands(
                lambda facts: not facts["change"] and all(each["counts"] for each in facts["members"]), "b"
            )
            await nodes.stop("b")
            assert await nodes.leader() in ("a", "c")
            assert await received(nodes) == MESSAGES

    asyncio.run(main())


async def received(nodes: Nodes) -> list[bytes]:
    """All of the queue, from whoever leads."""
    points = ",".join(nodes.config(name).receive_address for name in nodes.running)
    came = []
    async for delivery in Receiver(points, queue="q", limit=len(MESSAGES)):
        came.append(bytes(delivery.payload))
        delivery.acknowledge()
    return came
