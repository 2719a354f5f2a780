"""Of two connections under one name the one that was accepted last stands, in whatever order the broker hears of them.

A broker that stood still for a while finds both waiting: the one that its client has given up, and the one by which it came again.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import pytest

from actors import MessageBatch
from tests.transport.conftest import Peer
from transport.clients.administration import Administration
from transport.wire.messages import VERSION, Hello, Reserve, Reserved, Send, Sent, Welcome

MIB = 1024 * 1024


class Way(NamedTuple):
    """How a client comes under a name."""

    role: str
    queue: str | None
    options: dict[str, Any]
    says: str

    def hello(self, **more: Any) -> Hello:
        return Hello(VERSION, self.role, self.queue, "twin", self.options | more)

    async def serves(self, peer: Peer) -> None:
        """What the connection is there for is done on it."""
        if self.role == "subscription":
            peer.send(Reserve(1, 0, 1, MIB, 0, None))
            assert (await peer.expect_later(Reserved)).request == 1
        else:
            peer.send(Send(0, None, MessageBatch.from_payloads([b"a"])))
            assert (await peer.expect_later(Sent)).up_to == 1


STAGE = {"writer": "w", "version": 1, "stage": "0-0"}
EXCHANGE = {"exchange": "", "routing_key": "orders"}
WAYS = {
    "a sender": Way("sender", "orders", {}, "carries this client id"),
    "a stage": Way("sender", "orders", STAGE, "carries this stage"),
    "a sender to an exchange": Way("sender", None, EXCHANGE, "carries this client id"),
    "a stage through an exchange": Way("sender", None, EXCHANGE | STAGE, "carries this stage"),
    "an owner": Way("subscription", "orders", {"subscription": "s", "take_over": True}, "owns this subscription"),
}


@pytest.fixture(params=WAYS.values(), ids=WAYS.keys())
def way(request: pytest.FixtureRequest) -> Way:
    found: Way = request.param
    return found


def test_an_older_connection_that_is_heard_later_takes_nothing_from_a_newer_one(
    run: Any, serve: Any, peers: Any, way: Way
) -> None:
    async def main() -> None:
        async with serve() as broker, peers() as opened, Administration(broker.send_address) as administration:
            await administration.create_queue("orders")
            address = broker.receive_address if way.role == "subscription" else broker.send_address
            older = await opened.connect(address)
            newer = await opened.connect(address)
            newer.send(way.hello())
            welcome = await newer.expect(Welcome)
            again = {"epoch": welcome.options["epoch"]} if way.role == "subscription" else {}
            older.send(way.hello(**again))
            refusal = await older.refusal()
            assert refusal.code == "taken-over"
            assert way.says in refusal.text
            await way.serves(newer)

    run(main)


@pytest.mark.parametrize("name", [name for name, way in WAYS.items() if way.role == "sender"])
def test_an_older_sender_ends_when_a_newer_one_comes_under_its_name_and_is_told_which_name(
    run: Any, serve: Any, peers: Any, name: str
) -> None:
    way = WAYS[name]

    async def main() -> None:
        async with serve() as broker, peers() as opened, Administration(broker.send_address) as administration:
            await administration.create_queue("orders")
            older = await opened.connect(broker.send_address)
            older.send(way.hello())
            await older.expect(Welcome)
            newer = await opened.connect(broker.send_address)
            newer.send(way.hello())
            await newer.expect(Welcome)
            end = await older.refusal()
            assert end.code == "taken-over"
            assert way.says in end.text
            await way.serves(newer)

    run(main)


def test_an_owner_that_would_take_over_from_a_newer_one_leaves_its_epoch_alone(
    run: Any, serve: Any, peers: Any
) -> None:
    way = WAYS["an owner"]

    async def main() -> None:
        async with serve() as broker, peers() as opened:
            older = await opened.connect(broker.receive_address)
            newer = await opened.connect(broker.receive_address)
            newer.send(way.hello())
            epoch = (await newer.expect(Welcome)).options["epoch"]
            older.send(way.hello())
            assert (await older.refusal()).code == "taken-over"
            await way.serves(newer)
            last = await opened.connect(broker.receive_address)
            last.send(way.hello())
            assert (await last.expect(Welcome)).options["epoch"] == epoch + 1

    run(main)
