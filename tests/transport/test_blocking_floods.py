"""Blocking clients and a broker that floods, or does not read: each call comes back, and one that only takes its time is borne with."""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextlib import suppress
from itertools import count

import pytest

from actors.batch import MessageBatch
from tests.transport.scripted_peers import DEADLINE, Peer, ScriptedBroker
from transport.clients import blocking_connection
from transport.clients.backoff import Backoff
from transport.clients.blocking_connection import (
    CATCH_UP_TIMEOUT,
    MAX_HEARTBEATS,
    SEND_TIMEOUT,
    WRITE_TIMEOUT,
    BlockingConnection,
)
from transport.clients.stage_client import StageClient
from transport.errors import DemandTimeoutError, PeerTimeoutError, RemoteProtocolError
from transport.wire.address import parse_address
from transport.wire.codec import encode
from transport.wire.frames import MAX_BODY_BYTES
from transport.wire.messages import VERSION, Demand, Frame, Hello, Ping, Pong, Reserved, Send, Sent

LARGE = Send(0, None, MessageBatch.from_payloads([bytes(MAX_BODY_BYTES - 8)]))


def flooding(frame: Frame, opened: threading.Event) -> Callable[[Peer], None]:
    """Says WELCOME, then, when the client has ``opened``, ``frame`` without end, and reads nothing."""

    def script(peer: Peer) -> None:
        peer.welcome({})
        assert opened.wait(DEADLINE)
        some = b"".join(bytes(part) for part in encode(frame)) * 1000
        with suppress(OSError):
            while True:
                peer._socket.sendall(some)

    return script


class Clock:
    """Stands still until it is told otherwise."""

    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


def connect(broker: ScriptedBroker, clock: Callable[[], float], role: str = "sender") -> BlockingConnection:
    return BlockingConnection(parse_address(broker.address), Hello(VERSION, role, "q", "c", {}), clock)


def wait_for_an_answer(connection: BlockingConnection) -> None:
    connection.answer(Reserved, 1)


def catch_up(connection: BlockingConnection) -> None:
    while True:
        connection.catch_up()


@pytest.mark.parametrize("heartbeat", [Pong(0), Ping(0)])
@pytest.mark.parametrize("act", [wait_for_an_answer, catch_up])
def test_a_broker_that_floods_heartbeats_is_given_up_and_the_error_says_why(
    heartbeat: Frame, act: Callable[[BlockingConnection], None]
) -> None:
    opened = threading.Event()
    broker = ScriptedBroker(flooding(heartbeat, opened))
    connection = connect(broker, Clock(), "subscription")
    opened.set()
    with pytest.raises(RemoteProtocolError, match="heartbeats, where a few were due"):
        act(connection)
    connection.close()
    broker.finish()


def test_catching_up_with_a_broker_that_never_stops_ends_after_its_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(blocking_connection, "MAX_HEARTBEATS", 1000 * MAX_HEARTBEATS)
    opened = threading.Event()
    broker = ScriptedBroker(flooding(Pong(0), opened))
    ticks = count()
    connection = connect(broker, lambda: next(ticks) * CATCH_UP_TIMEOUT / 10)
    opened.set()
    for _ in range(3):
        before = next(ticks)
        connection.catch_up()
        assert next(ticks) - before < 20
    connection.close()
    broker.finish()


def heard(connection: BlockingConnection, when: float) -> None:
    pause = threading.Event()
    while connection._liveness.heard < when:
        assert not pause.wait(0.001)


def test_a_large_frame_waits_for_a_broker_that_does_not_read_yet_and_says_that_it_is_there() -> None:
    clock = Clock()
    connections: list[BlockingConnection] = []
    opened = threading.Event()

    def script(peer: Peer) -> None:
        peer.welcome({})
        assert opened.wait(DEADLINE)
        for _ in range(8):
            clock.now += 2 * SEND_TIMEOUT / 1.5
            peer.send(Ping(3), Demand(1, 1))
            heard(connections[0], clock.now)
        assert len(peer.read(Send).batch) == 1
        peer.send(Sent(1, 0, None))

    broker = ScriptedBroker(script)
    connections.append(connect(broker, clock))
    opened.set()
    connections[0].send(LARGE)
    assert [type(connections[0]._next(clock.now + 10)) for _ in range(9)] == [Demand] * 8 + [Sent]
    connections[0].close()
    broker.finish()


def test_a_write_has_an_end_whatever_the_broker_says_and_one_that_says_nothing_has_a_sooner_one() -> None:
    clock = Clock()
    connections: list[BlockingConnection] = []
    over = threading.Event()

    def talking(peer: Peer) -> None:
        peer.welcome({})
        while not over.wait(0.001):
            if connections:
                clock.now += SEND_TIMEOUT
                with suppress(OSError):
                    peer.send(Ping(3))

    broker = ScriptedBroker(talking)
    connections.append(connect(broker, clock))
    began = clock.now
    with pytest.raises(PeerTimeoutError, match="did not take what was sent"):
        connections[0].send(LARGE)
    assert clock.now - began >= SEND_TIMEOUT
    over.set()
    connections[0].close()
    broker.finish()
    assert WRITE_TIMEOUT > SEND_TIMEOUT


@pytest.mark.parametrize("grants", ["the same", "more each time"])
def test_a_stage_whose_broker_grants_without_end_and_confirms_nothing_comes_back(grants: str) -> None:
    def script(peer: Peer) -> None:
        peer.welcome({"committed": False, "last_sequence": None})
        numbers = count(1)
        with suppress(OSError):
            peer.send(Demand(0, 0))
            while True:
                each = [Demand(0, next(numbers) if grants == "more each time" else 0) for _ in range(100)]
                peer.send(*each)

    clock = count()
    broker = ScriptedBroker(script)
    with (
        StageClient(
            broker.address,
            queue="q",
            writer="w",
            version=1,
            stage="s",
            demand_timeout=5.0,
            retry=Backoff(0.0, 0.0, 2.0, 0.0, 5.0),
            clock=lambda: next(clock) / 5,
        ) as client,
        pytest.raises(DemandTimeoutError),
    ):
        client.send(MessageBatch.from_payloads([b"x"]))
    broker.finish()
