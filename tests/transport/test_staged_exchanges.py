"""Transactions that publish through exchanges, over real sockets: what is staged where, and what a commit makes receivable."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import closing
from typing import Any

import pytest

from actors.batch import MessageBatch
from transport import (
    Administration,
    Binding,
    BrokerError,
    EnlistedStage,
    LocalProtocolError,
    Message,
    StageClient,
    TransactionClient,
)
from transport.testing import HostedBroker
from transport.wire.messages import (
    VERSION,
    CommitTransaction,
    Deliver,
    Demand,
    Enlist,
    Hello,
    Request,
    Send,
    Sent,
    Tallied,
    Tally,
    TransactionEnded,
    Welcome,
)
from transport.wire.receiver_bindings import said_bindings


def keyed(*keys: str) -> MessageBatch:
    return MessageBatch.from_messages([Message(key.encode(), routing_key=key) for key in keys])


@pytest.fixture
def broker() -> Iterator[HostedBroker]:
    """A broker whose topic exchange has queue ``eu`` for some keys and queue ``all`` for each."""
    with HostedBroker() as running:

        async def declare() -> None:
            async with Administration(running.send_address) as administration:
                for queue, key in (("eu", "eu.#"), ("all", "#.tea"), ("all", "#.soup")):
                    await administration.create_queue(queue)
                    await administration.bind("amq.topic", queue, key)

        asyncio.run(declare())
        yield running


def stage(broker: HostedBroker, version: int = 1, name: str = "s", **given: Any) -> Any:
    given = given or {"exchange": "amq.topic"}
    return closing(StageClient(broker.send_address, writer="w", version=version, stage=name, **given))


def commit(broker: HostedBroker, stages: Any, version: int = 1) -> int:
    with closing(TransactionClient(broker.send_address, writer="w", version=version)) as transaction:
        return transaction.commit(stages)


def ready(broker: HostedBroker) -> dict[str, int]:
    async def ask() -> dict[str, int]:
        async with Administration(broker.send_address) as administration:
            return {row["name"]: row["ready"] for row in await administration.queues()}

    return asyncio.run(ask())


def test_a_commit_makes_what_was_staged_receivable_in_every_queue_that_it_went_to(broker: HostedBroker) -> None:
    with stage(broker) as client:
        client.send(keyed("eu.tea", "us.tea"))
        client.send(keyed("eu.coffee", "nowhere"))
        stages = client.finish_all()
    assert stages == (EnlistedStage("all", "s", 2), EnlistedStage("eu", "s", 2))
    assert ready(broker) == {"all": 0, "eu": 0}
    assert commit(broker, stages) == 4
    assert ready(broker) == {"all": 2, "eu": 2}
    assert commit(broker, stages) == 0, "it is committed once"


def test_a_connection_that_breaks_is_made_again_and_nothing_is_staged_twice(broker: HostedBroker) -> None:
    with stage(broker) as client:
        client.send(keyed("eu.tea"))
        client.finish_all()
        client._link.drop()
        client.send(keyed("eu.soup"))
        client._link.drop()
        stages = client.finish_all()
    assert stages == (EnlistedStage("all", "s", 2), EnlistedStage("eu", "s", 2))
    assert commit(broker, stages) == 4


def test_a_stage_that_went_to_no_queue_has_nothing_to_commit(broker: HostedBroker) -> None:
    with stage(broker) as client:
        client.send(keyed("nowhere"))
        assert client.finish_all() == ()
    with stage(broker, name="empty") as client:
        assert client.open()
        assert client.finish_all() == ()


def test_a_version_that_is_committed_needs_nothing_more(broker: HostedBroker) -> None:
    with stage(broker) as client:
        client.send(keyed("eu.tea"))
        commit(broker, client.finish_all())
    with stage(broker, name="again") as client:
        assert not client.open()
        client.send(keyed("eu.tea"))
        assert client.finish_all() == ()
    assert ready(broker) == {"all": 1, "eu": 1}


def test_a_commit_that_leaves_a_queue_of_the_stage_out_discards_that_part(broker: HostedBroker) -> None:
    with stage(broker) as client:
        client.send(keyed("eu.tea"))
        (everything, _) = client.finish_all()
    assert commit(broker, [everything]) == 1
    assert ready(broker) == {"all": 1, "eu": 0}


def test_the_routing_key_is_that_of_messages_without_one(broker: HostedBroker) -> None:
    with stage(broker, exchange="amq.topic", routing_key="eu.tea") as client:
        client.send(MessageBatch.from_payloads([b"1", b"2"]))
        assert client.finish_all() == (EnlistedStage("all", "s", 2), EnlistedStage("eu", "s", 2))


def test_an_exchange_that_is_not_there_is_told(broker: HostedBroker) -> None:
    with stage(broker, exchange="none") as client, pytest.raises(BrokerError, match="no exchange 'none'"):
        client.open()


def test_a_stage_is_of_a_queue_or_of_an_exchange(broker: HostedBroker) -> None:
    for given in ({"queue": None}, {"queue": "q", "exchange": "e"}, {"queue": "q", "routing_key": "k"}):
        with pytest.raises(LocalProtocolError, match="a stage is of one place"):
            StageClient("127.0.0.1:1", writer="w", version=1, stage="s", **given)
    with stage(broker) as client, pytest.raises(LocalProtocolError, match="call finish_all"):
        client.finish()
    with stage(broker, queue="q", name="of a queue".replace(" ", "-")) as client:
        client.send(keyed("a"))
        assert client.finish_all() == (EnlistedStage("q", "of-a-queue", 1),)


@pytest.mark.parametrize(
    ("queue", "options"),
    [("q", {}), ("q", {"writer": "w", "version": 1, "stage": "s"}), (None, {"exchange": "amq.topic"})],
)
def test_tally_belongs_to_a_stage_of_an_exchange(
    run: Any, serve: Any, peers: Any, queue: str | None, options: dict[str, Any]
) -> None:
    async def main() -> None:
        async with serve() as broker, peers() as opened:
            peer = await opened.connect(broker.send_address)
            peer.send(Hello(VERSION, "sender", queue, "c", options))
            await peer.expect(Welcome)
            peer.send(Tally(1))
            assert (await peer.refusal()).code == "protocol-error"

    run(main)


def test_tallied_comes_behind_the_confirmation_of_what_was_sent_before(run: Any, serve: Any, peers: Any) -> None:
    async def main() -> None:
        async with serve() as broker, peers() as opened, Administration(broker.send_address) as administration:
            await administration.create_queue("q")
            await administration.bind("amq.fanout", "q")
            peer = await opened.connect(broker.send_address)
            options = {"exchange": "amq.fanout", "writer": "w", "version": 1, "stage": "s"}
            peer.send(Hello(VERSION, "sender", None, "c", options))
            welcome = await peer.expect(Welcome)
            assert (welcome.options["committed"], welcome.options["last_sequence"]) == (False, None)
            await peer.expect(Demand)
            peer.send(Send(0, None, MessageBatch.from_payloads([b"1", b"2"])), Tally(7))
            assert await peer.expect_later(Sent) == Sent(2, None)
            assert await peer.expect_later(Tallied) == Tallied(7, "q", 2)
            assert await peer.expect(Tallied) == Tallied(7, None, 0)

    run(main)


def test_a_queue_of_a_receivers_own_gets_what_is_committed_and_nobody_names_it(
    run: Any, serve: Any, peers: Any
) -> None:
    async def main() -> None:
        async with serve() as broker, peers() as opened, Administration(broker.send_address) as administration:
            await administration.create_queue("q")
            await administration.bind("amq.fanout", "q")
            owner = await opened.connect(broker.receive_address)
            bind = said_bindings([Binding("amq.fanout")])
            owner.send(Hello(VERSION, "receiver", None, None, {"own_queue": True, "bind": bind}))
            await owner.expect(Welcome)
            owner.send(Request(10, 10**6))
            peer = await opened.connect(broker.send_address)
            options = {"exchange": "amq.fanout", "writer": "w", "version": 1, "stage": "s"}
            peer.send(Hello(VERSION, "sender", None, "c", options))
            await peer.expect_later(Demand)
            peer.send(Send(0, None, MessageBatch.from_payloads([b"1"])), Tally(7))
            assert await peer.expect_later(Tallied) == Tallied(7, "q", 1)
            assert await peer.expect(Tallied) == Tallied(7, None, 0)
            transaction = await opened.open(broker.send_address, "transaction", None, writer="w", version=1)
            transaction.send(Enlist("q", "s", 1), CommitTransaction(1))
            assert await transaction.expect(TransactionEnded) == TransactionEnded(1, 1)
            assert (await owner.expect(Deliver)).batch.messages()[0].payload == b"1"

    run(main)


def test_a_second_tally_waits_for_the_first(run: Any, serve: Any, peers: Any, tmp_path: Any) -> None:
    async def main() -> None:
        async with serve(directory=str(tmp_path / "data")) as broker, peers() as opened:
            broker.queues.get_or_create("q")
            await broker.queues.exchanges.bind("amq.fanout", "q")
            peer = await opened.connect(broker.send_address)
            options = {"exchange": "amq.fanout", "writer": "w", "version": 1, "stage": "s"}
            peer.send(Hello(VERSION, "sender", None, "c", options))
            await peer.expect(Welcome)
            await peer.expect(Demand)
            # The first waits until what was sent before it is durable.
            peer.send(Send(0, None, MessageBatch.from_payloads([b"1"])), Tally(1), Tally(2))
            refusal = await peer.refusal()
            assert (refusal.code, "under way" in refusal.text) == ("protocol-error", True)

    run(main)
