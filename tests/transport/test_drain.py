"""A broker that drains: what was sent is confirmed, what is held goes back, each client is told, and nobody can make it last."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from tests.transport.broker_helpers import MIB, batch, command, sender_with
from tests.transport.conftest import until
from tests.transport.line_protocol import Echo, echo_listener
from transport import Broker, BrokerConfig
from transport.broker.broker_connection import native_listeners
from transport.broker.commands import Commands
from transport.broker.operations import OPERATIONS
from transport.errors import LocalProtocolError
from transport.shell.ends import CLOSE_TIMEOUT
from transport.wire.messages import (
    Ack,
    Command,
    Commit,
    Committed,
    CommitTransaction,
    Deliver,
    Demand,
    Enlist,
    Error,
    Pong,
    Request,
    Reserve,
    Reserved,
    Result,
    Send,
    Sent,
    TransactionEnded,
)

pytestmark = pytest.mark.event_loop
LONG = 3600.0
"""Seconds of a drain that ends by itself."""
FREE = "127.0.0.1:0"


@pytest.fixture(params=["memory", "journal"], name="serve_both")
def both(request: pytest.FixtureRequest, serve: Any, tmp_path: Path) -> Any:
    if request.param == "memory":
        return serve
    return lambda **options: serve(directory=str(tmp_path / "data"), **options)


async def asked(broker: Broker) -> None:
    """The broker drains, and has asked each client for a sign; none has heard of it, for the test has read nothing yet."""
    await until(lambda: all(each._states.awaits_pong for each in broker.connections.values()))  # type: ignore[attr-defined]


async def ending(draining: asyncio.Task[None], peer: Any) -> list[Any]:
    """What ``peer`` is told while the broker drains; ERROR is the last."""
    frames = await peer.rest()
    assert isinstance(frames[-1], Error), frames
    assert (frames[-1].code, frames[-1].close) == ("shutting-down", True)
    await peer.close()
    await draining
    return list(frames[:-1])


def test_what_was_sent_before_is_stored_and_confirmed_and_nothing_more_is_granted(
    run: Any, serve_both: Any, peers: Any
) -> None:
    async def main() -> None:
        async with serve_both() as broker, peers() as opened:
            sender = await opened.open(broker.send_address, "sender")
            granted = await sender.expect(Demand)
            # All but one of what it may: of a broker that goes on, their confirmation brings a grant.
            sender.send(*(Send(number, None, batch(b"%d" % number)) for number in range(granted.messages - 1)))
            draining = asyncio.create_task(broker.drain(LONG))
            told = await ending(draining, sender)
            sent = [frame for frame in told if isinstance(frame, Sent)]
            assert sent[-1].up_to == granted.messages - 1
            assert [frame for frame in told if isinstance(frame, Demand)] == []

    run(main)


def test_a_batch_is_confirmed_that_was_on_its_way_when_the_drain_began(run: Any, serve_both: Any, peers: Any) -> None:
    async def main() -> None:
        async with serve_both() as broker, peers() as opened:
            sender = await sender_with(opened, broker, b"first")
            draining = asyncio.create_task(broker.drain(LONG))
            await asked(broker)
            # The broker drains; the client has not heard of it.
            sender.send(Send(1, None, batch(b"second")))
            told = await ending(draining, sender)
            assert Sent(2, 1) in told

    run(main)


def test_a_full_queue_does_not_hold_up_the_end(run: Any, serve: Any, peers: Any) -> None:
    async def main() -> None:
        async with serve(max_queue_messages=1) as broker, peers() as opened:
            sender = await sender_with(opened, broker, b"all that there is room for")
            await ending(asyncio.create_task(broker.drain(LONG)), sender)

    run(main)


def test_what_a_receiver_holds_goes_back_without_a_failure_and_what_it_has_acknowledged_does_not(
    run: Any, serve: Any, peers: Any, tmp_path: Path
) -> None:
    async def main() -> None:
        # Of one failure a message would be gone from its queue.
        options = {"directory": str(tmp_path / "data"), "max_receives": 1}
        async with serve(**options) as broker, peers() as opened:
            await sender_with(opened, broker, b"a", b"b", b"c")
            receiver = await opened.open(broker.receive_address, "receiver")
            receiver.send(Request(2, MIB))
            held = 0
            while held < 2:
                held += len((await receiver.expect(Deliver)).batch)
            draining = asyncio.create_task(broker.drain(LONG))
            await asked(broker)
            # On its way when the drain begins. What it asks for besides it does not get.
            receiver.send(Ack(((0, 1),)), Request(10, 10 * MIB))
            assert await ending(asyncio.create_task(asyncio.sleep(0)), receiver) == []
            for peer in opened._peers:
                await peer.rest()
                await peer.close()
            await draining
        async with serve(**options) as again, peers() as opened:
            admin = await opened.open(again.send_address, "admin", None)
            [row] = await command(admin, "queue.list")
            assert (row["name"], row["ready"], row["in_flight"]) == ("orders", 2, 0)
            receiver = await opened.open(again.receive_address, "receiver")
            receiver.send(Request(2, MIB))
            got = []
            while len(got) < 2:
                got += (await receiver.expect(Deliver)).batch.payloads.tolist()
            assert got == [b"b", b"c"]

    run(main)


def test_a_subscriptions_commit_that_was_on_its_way_is_answered(run: Any, serve_both: Any, peers: Any) -> None:
    async def main() -> None:
        async with serve_both() as broker, peers() as opened:
            sender = await sender_with(opened, broker, b"a", b"b")
            owner = await opened.open(broker.receive_address, "subscription", subscription="s")
            owner.send(Reserve(1, 0, 2, MIB, 0, None))
            assert (await owner.expect(Reserved)).end == 2
            draining = asyncio.create_task(broker.drain(LONG))
            await asked(broker)
            owner.send(Commit(2, 2))
            told = await ending(asyncio.create_task(asyncio.sleep(0)), owner)
            assert Committed(2, 2) in told
            await ending(draining, sender)

    run(main)


def test_a_transaction_that_is_being_committed_is_committed_and_answered(run: Any, serve_both: Any, peers: Any) -> None:
    async def main() -> None:
        async with serve_both() as broker, peers() as opened:
            staging = await opened.open(broker.send_address, "sender", writer="w", version=1, stage="0-0")
            await staging.expect(Demand)
            staging.send(Send(0, None, batch(b"a", b"b")))
            await staging.expect_later(Sent)
            await staging.close()
            writer = await opened.open(broker.send_address, "transaction", None, writer="w", version=1)
            writer.send(Enlist("orders", "0-0", 2), CommitTransaction(1))
            told = await ending(asyncio.create_task(broker.drain(LONG)), writer)
            assert told == [TransactionEnded(1, 2)]

    run(main)


def test_a_command_that_runs_is_answered_and_the_next_is_not_begun(
    run: Any, serve: Any, peers: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def main() -> None:
        begun, may_go_on = asyncio.Event(), asyncio.Event()
        create = Commands.queue_create

        async def slow(commands: Commands, arguments: Any) -> Any:
            begun.set()
            await may_go_on.wait()
            return await create(commands, arguments)

        row = OPERATIONS["queue.create"]._replace(handler=slow)
        monkeypatch.setitem(OPERATIONS, "queue.create", row)
        async with serve() as broker, peers() as opened:
            admin = await opened.open(broker.send_address, "admin", None)
            admin.send(Command(1, "queue.create", {"name": "orders"}))
            await begun.wait()
            draining = asyncio.create_task(broker.drain(LONG))
            await asked(broker)
            assert not draining.done()
            may_go_on.set()
            told = await ending(draining, admin)
            assert [frame.request for frame in told if isinstance(frame, Result)] == [1]
            assert "orders" in broker.queues

    run(main)


def test_who_has_said_nothing_yet_is_told_at_once_and_nobody_new_is_taken(
    run: Any, serve: Any, peers: Any, until: Any
) -> None:
    async def main() -> None:
        async with serve() as broker, peers() as opened:
            silent = await opened.connect(broker.send_address)
            await until(lambda: len(broker.connections) == 1)
            await ending(asyncio.create_task(broker.drain(LONG)), silent)
            with pytest.raises(ConnectionRefusedError):
                await opened.connect(broker.receive_address)

    run(main)


def test_one_that_gives_no_sign_is_told_when_the_time_is_over(
    run: Any, serve: Any, peers: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Who waited for the peer to close would be told from a machine that stands still.
    monkeypatch.setattr("transport.shell.connection.LINGER", 2 * LONG)

    async def main() -> None:
        loop = asyncio.get_running_loop()
        async with peers() as opened:
            async with serve() as broker:
                deaf = await opened.open(broker.send_address, "sender")
                deaf.answers_pings = False
                reading = asyncio.create_task(deaf.refusal())
                began = loop.time()
                await broker.drain(0.2)
                assert not reading.done()
            # It has not closed, and was not waited for.
            assert loop.time() - began < CLOSE_TIMEOUT - 1.0
            assert broker.connections == {}
            assert (await reading).code == "shutting-down"

    run(main)


def test_a_sign_that_nobody_has_asked_for_means_nothing(run: Any, serve: Any, peers: Any) -> None:

    async def main() -> None:
        async with serve() as broker, peers() as opened:
            sender = await opened.open(broker.send_address, "sender")
            await sender.expect(Demand)
            sender.send(Pong(1), Pong(7), Send(0, None, batch(b"a")))
            assert await sender.expect_later(Sent) == Sent(1, 0)

    run(main)


def test_another_protocol_is_told_in_its_own_words_unless_its_handler_does_more(
    run: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def main() -> None:
        listeners = [*native_listeners(FREE, FREE), echo_listener()]
        async with Broker(BrokerConfig(), listeners=listeners) as broker:
            address = broker.addresses("echo")[0]
            reader, writer = await asyncio.open_connection(address.host, address.port)
            writer.write(b"here\n")
            assert await reader.readline() == b"here\n"
            draining = asyncio.create_task(broker.drain(LONG))
            assert await reader.read() == b"shutting-down: the broker is stopping; connect again later\n"
            writer.close()
            await draining

    run(main)
    monkeypatch.setattr(Echo, "drain", lambda self: self.connection.close())

    async def quiet() -> None:
        async with Broker(BrokerConfig(), listeners=[echo_listener()]) as broker:
            address = broker.addresses("echo")[0]
            reader, writer = await asyncio.open_connection(address.host, address.port)
            writer.write(b"here\n")
            assert await reader.readline() == b"here\n"
            await broker.drain(LONG)
            assert await reader.read() == b""
            writer.close()

    run(quiet)


def test_a_defect_in_one_handlers_end_ends_its_connection_and_no_other(
    run: Any, peers: Any, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def broken(_self: Echo) -> None:
        raise RuntimeError("a defect")

    monkeypatch.setattr(Echo, "drain", broken)

    async def main() -> None:
        listeners = [echo_listener(), *native_listeners(FREE, FREE)]
        async with Broker(BrokerConfig(), listeners=listeners) as broker, peers() as opened:
            address = broker.addresses("echo")[0]
            reader, writer = await asyncio.open_connection(address.host, address.port)
            writer.write(b"here\n")
            assert await reader.readline() == b"here\n"
            sender = await sender_with(opened, broker, b"a")
            draining = asyncio.create_task(broker.drain(LONG))
            assert (await reader.read()).startswith(b"internal-error")
            writer.close()
            await ending(draining, sender)

    run(main)
    assert [record.levelname for record in caplog.records] == ["ERROR"]


@pytest.mark.parametrize("seconds", [-1.0, 3601.0, float("nan")])
def test_a_time_to_drain_that_cannot_be_is_refused_when_it_is_configured(seconds: float) -> None:
    with pytest.raises(LocalProtocolError, match="drain"):
        BrokerConfig(drain=seconds)
