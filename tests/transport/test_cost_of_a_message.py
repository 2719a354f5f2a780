"""What one message costs the broker, counted and not timed: bytecode instructions on each part of its way.

A limit is what was counted when it was set, and a little more. Who makes a path longer sees it here, and raises the limit with a reason;
who makes it shorter lowers it. Counted on CPython 3.11, whose instructions the limits are.
"""

from __future__ import annotations

import asyncio
import gc
import sys
import time
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from types import FrameType
from typing import Any, Self

import pytest

from actors.batch import MessageBatch
from tests.decoding import FrameDecoder
from transport import Broker, BrokerConfig
from transport.broker.acceptor import Factory, Intake
from transport.shell.connection import Connection
from transport.wire.codec import decode, encode
from transport.wire.frames import MAX_FRAME_BYTES
from transport.wire.messages import VERSION, Ack, Deliver, Demand, Frame, Hello, Request, Send, Sent, Welcome

pytestmark = pytest.mark.skipif(sys.version_info[:2] != (3, 11), reason="the limits are instructions of CPython 3.11")

ROOT = Path(__file__).resolve().parents[2]
PRODUCT = tuple(str(ROOT / package) for package in ("streams", "journal", "actors", "transport"))
MANY = 64
"""Messages of a measurement, one behind the other: what happens once in a while is spread over them."""
# Each batch is timed for the metrics, from being accepted to being confirmed and from being stored to being delivered: some hundred
# instructions of a message that comes by itself. And a queue notes that it has changed, while somebody looks. It compares two numbers to
# see whether others have written to its log, and its log keeps two more: 15 of what is sent, 8 of what is delivered or acknowledged. And a
# batch knows whether it was published to an exchange, from the record to the frame: 8 of what is sent, 14 of what is delivered.
LIMITS = {
    # With each event handled it is noted that what is not complete has begun since: 5 of what comes, here and below.
    # One more, and of a batch three: what is stored may have been published, and a queue of its own kind may wait for nothing.
    # Each turn of a queue looks whether there is room to be granted that senders have left: 4, in this and in the next ones.
    "a message, sent and confirmed": 3041,
    # The time of day is read first, so that no pause has anything be due early: 1.
    "a batch of a hundred, sent and confirmed": 3374,
    # A lease may have no deadline, and it is known since when it is held: 7 of what is delivered, 4 of what is acknowledged.
    # It may be too large to be read within a turn: 4 of what is delivered.
    "a message, delivered": 3110,
    "an acknowledgement": 2056,
    "one of many that arrive together": 2000,
}


class Wire(asyncio.Transport):
    """A connection's transport whose peer is the test."""

    def __init__(self) -> None:
        super().__init__()
        self._decoder = FrameDecoder(MAX_FRAME_BYTES)
        self._taken = bytearray()
        self._said: list[Frame] = []

    @property
    def said(self) -> list[Frame]:
        taken, self._taken = bytes(self._taken), bytearray()
        self._said += [decode(raw) for raw in self._decoder.receive_data(taken)]
        return self._said

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        return ("127.0.0.1", 1) if name == "peername" else default

    def writelines(self, parts: Any) -> None:
        self._taken += b"".join(parts)

    def get_write_buffer_size(self) -> int:
        return 0

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None: ...

    def is_closing(self) -> bool:
        return False

    def is_reading(self) -> bool:
        return True

    def pause_reading(self) -> None: ...

    def resume_reading(self) -> None: ...

    def write_eof(self) -> None: ...

    def abort(self) -> None: ...

    def close(self) -> None: ...


class Peer:
    """A client of the broker without a socket."""

    def __init__(self, factory: Factory) -> None:
        connection = factory()
        assert isinstance(connection, Connection)
        self.connection = connection
        self.wire = Wire()
        connection.connection_made(self.wire)

    def hear(self, data: bytes) -> None:
        """The broker's side receives ``data`` at once."""
        view = memoryview(data)
        while view:
            buffer = self.connection.get_buffer(-1)
            taken = min(len(buffer), len(view))
            buffer[:taken] = view[:taken]
            self.connection.buffer_updated(taken)
            view = view[taken:]

    def of(self, kind: type[Frame]) -> list[Any]:
        return [frame for frame in self.wire.said if type(frame) is kind]


class Count:
    """Bytecode instructions of the product while it is entered; the loop's and the libraries' own are theirs."""

    def __init__(self) -> None:
        self.instructions = 0

    def __enter__(self) -> Self:
        def trace(frame: FrameType, event: str, _argument: object) -> Any:
            if not frame.f_code.co_filename.startswith(PRODUCT):
                return None
            frame.f_trace_lines, frame.f_trace_opcodes = False, True
            if event == "opcode":
                self.instructions += 1
            return trace

        sys.settrace(trace)
        return self

    def __exit__(self, *_error: object) -> None:
        sys.settrace(None)


def wired(*frames: Frame) -> bytes:
    return b"".join(bytes(part) for frame in frames for part in encode(frame))


async def turns(count: int = 12) -> None:
    for _ in range(count):
        await asyncio.sleep(0)


class Bench:
    """A broker in memory whose connections are the test's."""

    def __init__(self, broker: Broker, factories: list[Factory]) -> None:
        self.broker = broker
        self._factories = factories

    async def sender(self, name: str) -> Peer:
        peer = Peer(self._factories[0])
        peer.hear(wired(Hello(VERSION, "sender", "q", name, {})))
        await turns()
        assert peer.of(Welcome)
        assert peer.of(Demand)
        return peer

    async def receiver(self) -> Peer:
        peer = Peer(self._factories[1])
        peer.hear(wired(Hello(VERSION, "receiver", "q", "r", {})))
        await turns()
        return peer


@asynccontextmanager
async def served() -> AsyncIterator[Bench]:
    factories: list[Factory] = []

    class Listening:
        sockets = (type("Socket", (), {"getsockname": lambda self: ("127.0.0.1", 1)})(),)

        def close(self) -> None: ...

    async def listen(intake: Intake, *_: Any) -> Any:
        factories.append(intake.factory)
        return Listening()

    async with Broker(BrokerConfig(), listen=listen) as broker:
        yield Bench(broker, factories)
        for connection in list(broker.connections.values()):
            assert connection.connection is not None
            connection.connection.connection_lost(None)
        await turns()


async def sent(peers: list[Peer], batch: MessageBatch, first: int, rounds: int) -> float:
    """Instructions of a batch of each peer, all of which arrive in the same turn, with its confirmation."""
    frames = [wired(Send(first + number * len(batch), None, batch)) for number in range(rounds)]
    answered = [len(peer.of(Sent)) for peer in peers]
    with Count() as cost:
        for frame in frames:
            for peer in peers:
                peer.hear(frame)
            await turns()
    assert [len(peer.of(Sent)) - before for peer, before in zip(peers, answered, strict=True)] == [rounds] * len(peers)
    return cost.instructions / rounds / len(peers)


@contextmanager
def undisturbed() -> Iterator[None]:
    """The clocks stand still, and nothing is collected: a busy machine's timers, and what tests before have left, are not the message's."""
    loop, now, wall = asyncio.get_running_loop(), asyncio.get_running_loop().time(), time.time()
    gc.collect()
    gc.disable()
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(loop, "time", lambda: now)
        patched.setattr(time, "time", lambda: wall)
        try:
            yield
        finally:
            gc.enable()


async def measured() -> dict[str, float]:
    with undisturbed():
        return await _measured()


async def _measured() -> dict[str, float]:
    one = MessageBatch.from_payloads([b"x" * 4096])
    hundred = MessageBatch.from_payloads([b"x" * 100] * 100)
    found: dict[str, float] = {}
    async with served() as bench:
        sender = await bench.sender("s")
        await sent([sender], one, 0, MANY)
        found["a message, sent and confirmed"] = await sent([sender], one, MANY, MANY)
        found["a batch of a hundred, sent and confirmed"] = await sent([sender], hundred, 2 * MANY, 4)
        receiver = await bench.receiver()
        requests = [wired(Request(wanted, wanted * 10**5)) for wanted in range(1, MANY + 1)]
        with Count() as cost:
            for frame in requests:
                receiver.hear(frame)
                await turns()
        delivered = receiver.of(Deliver)
        assert sum(len(each.batch) for each in delivered) == MANY
        found["a message, delivered"] = cost.instructions / MANY
        acknowledgements = [wired(Ack([(each.first, 1)])) for each in delivered]
        with Count() as cost:
            for frame in acknowledgements:
                receiver.hear(frame)
                await turns()
        found["an acknowledgement"] = cost.instructions / MANY
        assert bench.broker.queues.logs()["q"].stored_messages == 2 * MANY + 400 - MANY
    async with served() as bench:
        many = [await bench.sender(f"s{number}") for number in range(MANY)]
        await sent(many, one, 0, 4)
        found["one of many that arrive together"] = await sent(many, one, 4, 8)
    return found


def test_no_part_of_a_messages_way_has_become_longer() -> None:
    found = asyncio.run(measured())
    assert {part: round(cost) for part, cost in found.items() if cost > LIMITS[part]} == {}


def test_no_limit_is_far_above_what_is_counted() -> None:
    found = asyncio.run(measured())
    assert {part: round(cost) for part, cost in found.items() if cost < 0.9 * LIMITS[part]} == {}, "lower the limits"


def test_a_longer_way_would_be_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    updated: Callable[[Connection[Frame], int], None] = Connection.buffer_updated

    def longer(connection: Connection[Frame], nbytes: int) -> None:
        # What the product does more often is counted, whoever has it do so.
        for _ in range(20):
            connection.get_buffer(-1)
        updated(connection, nbytes)

    monkeypatch.setattr(Connection, "buffer_updated", longer)
    found = asyncio.run(measured())
    assert {part for part, cost in found.items() if cost > LIMITS[part]} == set(LIMITS)
