"""Clients that mean harm, or are written badly: each kind says a great deal, reads nothing, or both, for as long as it may.

``python -m tests.fault.attacks SEND RECEIVE AMQP EACH KIND...`` runs so many of each kind until its input ends. Everything is bytes on
sockets; what the broker cuts off comes again.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import socket
import struct
import sys
from collections import deque
from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

from actors.batch import MessageBatch
from streams.testkit import settle
from tests.decoding import FrameDecoder
from tests.fault import amqp_attacks, strangers
from transport import parse_address
from transport.wire import messages as wire
from transport.wire.codec import decode, encode
from transport.wire.frames import MAX_FRAME_BYTES
from transport.wire.messages import Frame

AGAIN = 0.1
"""Seconds after which one that was cut comes again."""
PIECE = 64 * 1024
"""Bytes of a flood that are written at a time."""
MIB = 1 << 20
LARGE = 15 * MIB
PARTIAL = 8 * MIB
NO_LINGER = struct.pack("ii", 1, 0)
"""Of a socket that is closed: reset the connection (socket(7), SO_LINGER)."""
TOKEN_VARIABLE = "PENSTOCK_TOKEN"

F = TypeVar("F", bound=Frame)


class CutOffError(Exception):
    """The broker has ended the connection."""


def encoded(*frames: Frame) -> bytes:
    """The frames' bytes."""
    return b"".join(bytes(part) for frame in frames for part in encode(frame))


class Raw(asyncio.Protocol):
    """One connection; `deaf` has it read no more."""

    def __init__(self) -> None:
        self._transport: Any = None
        self._decoder = FrameDecoder(MAX_FRAME_BYTES)
        self._frames: deque[Frame] = deque()
        self._came = asyncio.Event()
        self._takes = asyncio.Event()
        self._takes.set()
        self._over = self._blind = False
        self.granted = wire.Demand(0, 0)
        self.written = 0

    @classmethod
    async def open(cls, address: str, role: str, queue: str | None, name: str, **options: Any) -> Raw:
        """Connect and say HELLO, with the token that the environment may have."""
        raw = await cls.knock(address)
        if token := os.environ.get(TOKEN_VARIABLE):
            options["token"] = token
        await raw.send(encoded(wire.Hello(wire.VERSION, role, queue, name, options)))
        await raw.next(wire.Welcome)
        return raw

    @classmethod
    async def knock(cls, address: str) -> Raw:
        """Connect, and say nothing yet."""
        host, port = parse_address(address)
        _, raw = await asyncio.get_running_loop().create_connection(cls, host, port)
        return raw

    def connection_made(self, transport: Any) -> None:
        """Called by asyncio."""
        self._transport = transport

    def data_received(self, data: bytes) -> None:
        """Called by asyncio."""
        if self._blind:
            return
        for raw in self._decoder.receive_data(data):
            frame = decode(raw)
            if isinstance(frame, wire.Ping):
                self._transport.write(encoded(wire.Pong(frame.token)))
            elif isinstance(frame, wire.Demand):
                self.granted = frame
            if not isinstance(frame, wire.Pong):
                self._frames.append(frame)
        self._came.set()

    def pause_writing(self) -> None:
        """Called by asyncio."""
        self._takes.clear()

    def resume_writing(self) -> None:
        """Called by asyncio."""
        self._takes.set()

    def connection_lost(self, exc: Exception | None) -> None:
        """Called by asyncio."""
        self._over = True
        self._came.set()
        self._takes.set()

    def deaf(self) -> None:
        """Read nothing more."""
        self._transport.pause_reading()

    def blind(self) -> None:
        """Read what comes, and look at none of it."""
        self._blind = True

    def read_one(self) -> None:
        """Read a byte, if one is there, past asyncio: only of one that is `deaf`."""
        with contextlib.suppress(BlockingIOError), socket.socket(fileno=os.dup(self._descriptor())) as same:
            same.recv(1)

    def _descriptor(self) -> int:
        if self._over:
            raise CutOffError
        return int(self._transport.get_extra_info("socket").fileno())

    async def send(self, data: bytes) -> None:
        """Write when the socket takes it; raises CutOffError."""
        await self._takes.wait()
        if self._over:
            raise CutOffError
        self._transport.write(data)
        self.written += len(data)

    async def flood(self, data: bytes) -> None:
        """Write it again and again, until the broker ends the connection."""
        piece = data * max(1, PIECE // len(data))
        while True:
            await self.send(piece)
            await asyncio.sleep(0)

    async def next(self, kind: type[F]) -> F:
        """The next frame of a kind, whatever comes before it; raises CutOffError."""
        while True:
            while self._frames:
                frame = self._frames.popleft()
                if isinstance(frame, kind):
                    return frame
            if self._over:
                raise CutOffError
            self._came.clear()
            await self._came.wait()

    async def until_cut(self) -> None:
        """Wait for the end."""
        with contextlib.suppress(CutOffError):
            await self.next(wire.Hello)

    def close(self) -> None:
        """End at once."""
        if self._transport is not None and not self._over:
            self._transport.abort()

    def reset(self) -> None:
        """End at once, and have the broker's system forget what it has not read: it may be a hundred seconds' work."""
        if self._transport is not None and not self._over:
            with socket.socket(fileno=os.dup(self._descriptor())) as same:
                same.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, NO_LINGER)
            self.close()


Connect = Callable[..., Awaitable[Raw]]


async def unread_pings(connect: Connect) -> None:
    """PONGs that nobody reads."""
    raw = await connect("sender")
    raw.deaf()
    await raw.flood(encoded(wire.Ping(1)))


async def read_pings(connect: Connect) -> None:
    """PINGs as fast as they are answered."""
    raw = await connect("receiver")
    raw.blind()
    await raw.flood(encoded(wire.Ping(1)))


async def unread_statistics(connect: Connect) -> None:
    """Twenty bytes for some megabytes, which nobody reads."""
    raw = await connect("admin")
    raw.deaf()
    await raw.flood(encoded(wire.Command(1, "stats", {})))


async def pipelined_statistics(connect: Connect) -> None:
    """The same, read as fast as it comes."""
    raw = await connect("admin")
    raw.blind()
    await raw.flood(encoded(wire.Command(1, "stats", {})))


async def unread_reservations(connect: Connect) -> None:
    """RESERVED, COMMITTED and ERRORs that nobody reads."""
    raw = await connect("subscription", subscription="ledger")
    raw.deaf()
    await raw.flood(encoded(wire.Reserve(1, 0, 1, 1, 0, None), wire.Commit(2, 0), wire.Fetch(3, 5, 6)))


async def unread_confirmations(connect: Connect) -> None:
    """SENT and DEMAND that nobody reads, for messages one by one, as many as were granted."""
    raw = await connect("sender")
    granted = (await raw.next(wire.Demand)).messages
    raw.deaf()
    one = MessageBatch.from_payloads([b"x"])
    await raw.send(b"".join(encoded(wire.Send(number, None, one)) for number in range(granted)))
    await raw.flood(encoded(wire.Ping(1)))


async def unread_returns(connect: Connect) -> None:
    """RETURNED that nobody reads, with the longest reasons, for messages that no queue takes, and what is granted anew for them."""
    raw = await connect("sender", exchange="amq.direct", routing_key="k" * 255, mandatory=True)
    granted = (await raw.next(wire.Demand)).messages
    raw.deaf()
    one, number = MessageBatch.from_payloads([b"x"]), 0
    while True:
        # It cannot know what is confirmed, and takes its time: whoever is quicker is cut off for it.
        await raw.send(b"".join(encoded(wire.Send(number + each, None, one)) for each in range(granted)))
        number += granted
        await settle(AGAIN)


async def extensions(connect: Connect) -> None:
    """Two hundred ranges of one message in a kilobyte, again and again."""
    held = 400
    sender, raw = await connect("sender"), await connect("receiver")
    try:
        await sender.next(wire.Demand)
        await sender.send(encoded(wire.Send(0, None, MessageBatch.from_payloads([b""] * held))))
        await raw.send(encoded(wire.Request(held, MIB)))
        first, count = 0, 0
        while count < held:
            delivered = await raw.next(wire.Deliver)
            first, count = delivered.first if not count else first, count + len(delivered.batch)
        await raw.flood(encoded(wire.Extend([(first + 2 * index, 1) for index in range(held // 2)], 60_000)))
    finally:
        sender.close()


async def enlistments(connect: Connect) -> None:
    """Stages that do not exist, with the longest names."""
    raw = await connect("transaction", writer="writer", version=1)
    number = 0
    while True:
        names = [f"{number + index}".ljust(255, "s") for index in range(100)]
        await raw.send(b"".join(encoded(wire.Enlist("q" * 255, name, 1)) for name in names))
        number += len(names)
        await asyncio.sleep(0)


async def overlapping_resends(connect: Connect) -> None:
    """A megabyte that is stored already, and one byte that is new."""
    raw = await connect("sender")
    number, size = 0, 0
    known, small = bytes(MIB), b"x"
    while True:
        while raw.granted.bytes <= size:
            await raw.next(wire.Demand)
        # A window grows as it is used: first by what is new altogether.
        fits = number > 0 and raw.granted.bytes > size + MIB + 1024
        batch = MessageBatch.from_payloads([known, small] if fits else [known])
        await raw.send(encoded(wire.Send(number - 1 if fits else number, None, batch)))
        number, size = number + 1, size + batch.nbytes
        await raw.next(wire.Sent)


def partial_frame(role: str) -> Callable[[Connect], Awaitable[None]]:
    """Half of a largest frame, of one role."""

    async def attack(connect: Connect) -> None:
        options: dict[str, dict[str, Any]] = {
            "subscription": {"subscription": "ledger"},
            "transaction": {"writer": "w", "version": 1},
        }
        raw = await connect(role, **options.get(role, {}))
        await raw.send(encoded(wire.Send(0, None, MessageBatch.from_payloads([bytes(LARGE)])))[:PARTIAL])
        await raw.until_cut()

    return attack


async def deaf_receiver(connect: Connect) -> None:
    """Asks for everything and reads nothing of it; what it is sent it has stored itself, some megabytes."""
    sender, raw = await connect("sender"), await connect("receiver")
    try:
        raw.deaf()
        await raw.send(encoded(wire.Request(2**62, 2**62)))
        number = messages = 0
        batch = MessageBatch.from_payloads([bytes(1024)] * 100)
        while number < 4_000:
            granted = (await sender.next(wire.Demand)).messages
            while messages + len(batch) <= granted:
                await sender.send(encoded(wire.Send(number, None, batch)))
                number, messages = number + len(batch), messages + len(batch)
        await raw.until_cut()
    finally:
        sender.close()


KINDS: dict[str, Callable[[Connect], Awaitable[None]]] = {
    "unread-pings": unread_pings,
    "read-pings": read_pings,
    "unread-stats": unread_statistics,
    "pipelined-stats": pipelined_statistics,
    "unread-reservations": unread_reservations,
    "unread-confirmations": unread_confirmations,
    "unread-returns": unread_returns,
    "extensions": extensions,
    "enlistments": enlistments,
    "overlapping-resends": overlapping_resends,
    "deaf-receiver": deaf_receiver,
    **{
        f"partial-{role}": partial_frame(role)
        for role in ("sender", "receiver", "subscription", "admin", "transaction")
    },
    **strangers.KINDS,
    **amqp_attacks.KINDS,
}
"""Every kind by its name."""


class Attacker:
    """One of a kind, which comes again whenever it is cut off.

    Attributes:
        cuts: how often it was.
        written: bytes.
    """

    def __init__(self, addresses: dict[str, str], kind: str, number: int, begun: asyncio.Event) -> None:
        self.cuts = self.written = 0
        self._begun = begun
        self._addresses = addresses
        self.kind = kind
        self._name = f"{kind}-{number}"
        self._open: list[Raw] = []

    async def run(self) -> None:
        """Attack until cancelled."""
        try:
            while True:
                with contextlib.suppress(CutOffError, OSError):
                    await KINDS[self.kind](self._connect)
                self.cuts += 1
                self.close()
                await settle(AGAIN)
        finally:
            for raw in self._open:
                raw.reset()
            self.close()

    def close(self) -> None:
        """End its connections."""
        for raw in self._open:
            raw.close()
            self.written += raw.written
        self._open.clear()

    async def _connect(self, role: str | None, *, port: str = "", **options: Any) -> Raw:
        """A connection that is open in ``role``, or that has said nothing yet on ``port``."""
        if role is None:
            raw = await Raw.knock(self._addresses[port])
            return self._opened(raw)
        sending = role in ("sender", "transaction", "admin")
        queue = None if role in ("admin", "transaction") or "exchange" in options else f"attacked.{self._name}"
        name = f"{self._name}-{self.cuts}"
        raw = await Raw.open(self._addresses["send" if sending else "receive"], role, queue, name, **options)
        return self._opened(raw)

    def _opened(self, raw: Raw) -> Raw:
        self._open.append(raw)
        self._begun.set()
        return raw


async def say_when(begun: asyncio.Event) -> None:
    """A line at the first connection."""
    await begun.wait()
    print("{}", flush=True)


def main() -> None:
    """The process: it says that it is ready, attacks from its first line of input to the end, and says that one of its attackers is
    connected; then it says what each kind has done.
    """
    send, receive, amqp, each, *kinds = sys.argv[1:]
    addresses = {"send": send, "receive": receive, "amqp": amqp}
    print("{}", flush=True)
    sys.stdin.readline()

    async def until_told() -> None:
        begun = asyncio.Event()
        attackers = [Attacker(addresses, kind, number, begun) for kind in kinds or KINDS for number in range(int(each))]
        work = asyncio.gather(*(attacker.run() for attacker in attackers))
        beginning = asyncio.create_task(say_when(begun), name="the first connection")
        told = asyncio.get_running_loop().run_in_executor(None, sys.stdin.read)
        await asyncio.wait((work, told), return_when=asyncio.FIRST_COMPLETED)
        work.cancel()
        beginning.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await work
        done = {kind: {"written": 0, "cuts": 0} for kind in kinds or KINDS}
        for attacker in attackers:
            done[attacker.kind]["written"] += attacker.written
            done[attacker.kind]["cuts"] += attacker.cuts
        print(json.dumps(done), flush=True)

    asyncio.run(until_told())


if __name__ == "__main__":
    main()
