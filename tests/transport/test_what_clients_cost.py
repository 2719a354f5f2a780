"""What a client of each role costs that says one thing again and again and reads nothing: a row for each frame that the protocol allows.

A real broker, and a socket that takes nothing: so everything is counted, and nothing depends on the machine.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any, NamedTuple

import pytest

from actors.batch import MessageBatch
from transport.broker.under_way import MAX_UNDER_WAY
from transport.clients.link import FrameConnection
from transport.shell.connection import FLUSH_BYTES
from transport.shell.turns import SHARE, TURN_WORK
from transport.wire.codec import encode
from transport.wire.messages import (
    VERSION,
    AbortTransaction,
    Ack,
    Cancel,
    Command,
    Commit,
    CommitTransaction,
    Enlist,
    Error,
    Extend,
    Fetch,
    Frame,
    Hello,
    Nack,
    Ping,
    Pong,
    Request,
    Reserve,
    Send,
    Tally,
    Why,
)
from transport.wire.protocol import ALWAYS, FROM_CLIENT, SENDING_ROLES
from transport.wire.receiving import SHARED_BUFFER_BYTES

HIGH = 16 * 1024
"""Bytes above which this socket does not keep up: less than asyncio's would be, so that a few thousand answers are enough."""
HELD = 400
"""Messages that a receiver of these tests holds."""
FED = SHARED_BUFFER_BYTES * 5 // 4
"""Bytes of a flood; who is neither held nor cut by then is read on for ever, and has to cost nothing."""
PATIENCE = 200
"""Turns in which a client is neither read nor in line, after which it is held up."""

READ, HELD_UP, CUT = "read", "held up", "cut"


class Row(NamedTuple):
    """What a client says, what becomes of it, and the most bytes of answers that wait for it."""

    frame: Callable[[int], Frame]
    ends: str
    unsent: int = HIGH + FLUSH_BYTES


ANSWERED_LONG = HIGH + FLUSH_BYTES + 64 * 1024
DEAF = Row(Ping, HELD_UP)
IGNORED = Row(Pong, READ, 1024)
GOODBYE = Row(lambda n: Error("x", "y", close=False), CUT, 1024)
ONE = MessageBatch.from_payloads([b"x"])
RANGES = [(2 * index, 1) for index in range(HELD // 2)]

ROWS: dict[tuple[str, type[Frame]], Row] = {
    **{(role, Ping): DEAF for role in FROM_CLIENT},
    **{(role, Pong): IGNORED for role in FROM_CLIENT},
    **{(role, Error): GOODBYE for role in FROM_CLIENT},
    # As many as are granted, which is more with each that is stored.
    ("sender", Send): Row(lambda n: Send(n, None, ONE), HELD_UP),
    **{(role, Why): Row(Why, HELD_UP, ANSWERED_LONG) for role in ("sender", "receiver")},
    # It stages nothing.
    ("sender", Tally): Row(Tally, CUT),
    ("receiver", Request): Row(lambda n: Request(n + 1, 0), READ, 64 * 1024),
    ("receiver", Extend): Row(lambda _: Extend(RANGES, 60_000), READ, 64 * 1024),
    # A message is answered once.
    ("receiver", Ack): Row(lambda _: Ack(RANGES), CUT, 64 * 1024),
    ("receiver", Nack): Row(lambda _: Nack(RANGES, 60_000), CUT, 64 * 1024),
    ("receiver", Cancel): Row(lambda _: Cancel(), CUT, 64 * 1024),
    ("subscription", Reserve): Row(lambda n: Reserve(n, 0, 1, 1, 0, None), HELD_UP),
    ("subscription", Commit): Row(lambda n: Commit(n, 0), HELD_UP),
    # Nothing is reserved: each is refused by itself.
    ("subscription", Fetch): Row(lambda n: Fetch(n, 0, 1), CUT),
    ("subscription", Request): Row(lambda n: Request(n + 1, 1 << 40), READ, 1024),
    ("subscription", Cancel): Row(lambda _: Cancel(), CUT, 1024),
    # The next is looked at when the one before is answered, so one answer is beyond the mark.
    ("admin", Command): Row(lambda n: Command(n, "stats", {}), HELD_UP, ANSWERED_LONG),
    ("transaction", Enlist): Row(lambda n: Enlist("q", f"stage-{n}", 1), READ, 1024),
    ("transaction", CommitTransaction): Row(CommitTransaction, CUT, 1024),
    ("transaction", AbortTransaction): Row(AbortTransaction, CUT, 1024),
}


def test_every_frame_that_a_client_may_send_has_a_row() -> None:
    assert set(ROWS) == {(role, frame) for role in FROM_CLIENT for frame in FROM_CLIENT[role] | ALWAYS}


class DeafSocket(asyncio.Transport):
    """Takes nothing of what is written to it."""

    def __init__(self, connection: FrameConnection) -> None:
        super().__init__({"peername": ("192.0.2.1", 4711)})
        self.connection = connection
        self.reading = True
        self.ended = False
        self.unsent = self.most_unsent = 0
        self.counts = False

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        assert high is not None

    def get_write_buffer_size(self) -> int:
        return self.unsent

    def writelines(self, list_of_data: Any) -> None:
        size = sum(part.nbytes if isinstance(part, memoryview) else len(part) for part in list_of_data)
        if not self.counts:
            return
        before, self.unsent = self.unsent, self.unsent + size
        self.most_unsent = max(self.most_unsent, self.unsent)
        if before <= HIGH < self.unsent:
            self.connection.pause_writing()

    def write_eof(self) -> None:
        self.ended = True

    def close(self) -> None:
        self.ended = True

    def abort(self) -> None:
        self.ended = True

    def is_closing(self) -> bool:
        return self.ended

    def is_reading(self) -> bool:
        return self.reading

    def pause_reading(self) -> None:
        self.reading = False

    def resume_reading(self) -> None:
        self.reading = True


class Client:
    """One connection of a broker whose socket is ours, and what it has cost so far."""

    def __init__(self, broker: Any, role: str) -> None:
        self.broker = broker
        listener = broker._listeners[role not in SENDING_ROLES]
        self.connection: FrameConnection = listener.accept(broker._host())
        self.socket = DeafSocket(self.connection)
        self.most_units = self.most_waiting = 0
        self._units = 0
        handle = self.connection._handle

        def counted(share: int, least: int) -> int:
            units = handle(share, least)
            self._units += units
            return units

        self.connection._handle = counted  # type: ignore[method-assign]  # the same, and counted
        self.connection.connection_made(self.socket)

    def feed(self, data: bytes) -> int:
        """Have the socket read so much of it as one receive takes."""
        buffer = self.connection.get_buffer(-1)
        taken = min(len(buffer), len(data))
        buffer[:taken] = data[:taken]
        self.connection.buffer_updated(taken)
        return taken

    async def turn(self) -> None:
        """One turn of the loop, and a look at what there is."""
        await asyncio.sleep(0)
        self.most_units, self._units = max(self.most_units, self._units), 0
        handler: Any = self.connection._handler
        waiting = handler._under_way.units
        if handler.actor is not None:
            waiting = max(waiting, len(handler.actor.actor_inbox.queue))
        self.most_waiting = max(self.most_waiting, waiting)

    async def flood(self, data: bytes) -> str:
        """Send it as far as it is read; returns what became of the client."""
        idle = 0
        while not self.socket.ended:
            await self.turn()
            if not self.socket.reading:
                idle += not self.connection._place.in_line
                if idle > PATIENCE:
                    return HELD_UP
            elif data:
                idle = 0
                data = data[self.feed(data) :]
            else:
                return READ
        return CUT


def encoded(*frames: Frame) -> bytes:
    return b"".join(bytes(part) for frame in frames for part in encode(frame))


async def opened(broker: Any, role: str, queue: str) -> Client:
    """A client that has been let in; a receiver holds messages."""
    client = Client(broker, role)
    options: dict[str, Any] = {"subscription": {"subscription": "s"}, "transaction": {"writer": "w", "version": 1}}.get(
        role, {}
    )
    named = None if role in ("admin", "transaction") else queue
    client.feed(encoded(Hello(VERSION, role, named, "client", options)))
    for _ in range(20):
        await client.turn()
    if role == "receiver":
        sender = await opened(broker, "sender", queue)
        sender.feed(encoded(Send(0, None, MessageBatch.from_payloads([b""] * HELD))))
        client.feed(encoded(Request(HELD, 1 << 40)))
        for _ in range(20):
            await client.turn()
    client.socket.counts = True
    return client


@pytest.mark.parametrize(("role", "frame"), ROWS, ids=lambda value: getattr(value, "__name__", value))
def test_a_client_that_says_it_for_ever_and_reads_nothing_is_bounded(
    run: Any, serve: Any, role: str, frame: type[Frame]
) -> None:
    row = ROWS[role, frame]

    async def main() -> None:
        async with serve(heartbeat=60.0) as broker:
            client = await opened(broker, role, "orders")
            one = len(encoded(row.frame(1)))
            flood = b"".join(encoded(row.frame(number)) for number in range(FED // one))
            try:
                assert await client.flood(flood) == row.ends
                assert client.socket.most_unsent <= row.unsent
                # One frame is handled however large it is, and what came last is judged by where it stands.
                assert client.most_units <= SHARE + TURN_WORK + HELD // 2
                assert client.most_waiting <= MAX_UNDER_WAY + HELD // 2
                assert (
                    client.connection._receiver.mid_event
                    or len(client.connection._receiver._view) <= SHARED_BUFFER_BYTES
                )
            finally:
                for connection in list(broker.connections.values()):
                    connection.connection.connection_lost(None)

    run(main)
