"""Clients of each role as prepared frames on sockets, and a meeting: the point at which all of them speak in one turn of the loop."""

from __future__ import annotations

import asyncio
import resource
from collections import deque
from collections.abc import Callable
from typing import Any, TypeVar

from actors.batch import MessageBatch
from tests.decoding import FrameDecoder
from transport import parse_address
from transport.wire import messages as wire
from transport.wire.codec import decode, encode
from transport.wire.frames import MAX_FRAME_BYTES
from transport.wire.messages import Frame, Hello

NAME_BYTES = 255
"""The longest name there is; every client has one of its own."""
CONNECTING = 200
"""Connections that are being made at one time, well below what the kernel holds for a listener."""
SPARE_FILES = 500
"""Descriptors beside those of the clients: the journal's files, the loop's, Python's."""

F = TypeVar("F", bound=Frame)


class CutError(Exception):
    """The broker refused a client, or ended its connection; the text says which, and what it said."""


def long_name(kind: str, number: int) -> str:
    """A name of 255 bytes that no other client has."""
    return f"{kind}-{number:06}-".ljust(NAME_BYTES, "n")


def raise_file_limit(clients: int) -> None:
    """Let this process, and those it starts, open a descriptor for each client.

    Raises:
        OSError: the hard limit is lower.
    """
    needed = clients + SPARE_FILES
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft < needed:
        if hard != resource.RLIM_INFINITY and hard < needed:
            raise OSError(f"{clients} clients need {needed} descriptors, the hard limit is {hard} (ulimit -Hn)")
        resource.setrlimit(resource.RLIMIT_NOFILE, (needed, hard))


class Meeting:
    """Where clients wait for one another: when all who are expected have said what they will send, it is sent in one turn.

    Args:
        expected: how many.
    """

    def __init__(self, expected: int) -> None:
        self._expected = expected
        self._said: list[Callable[[], None]] = []
        self._met = asyncio.get_running_loop().create_future()
        if not expected:
            self._met.set_result(None)

    async def say(self, speak: Callable[[], None]) -> None:
        """Have ``speak`` called in the turn in which all speak, and return then."""
        self._said.append(speak)
        if len(self._said) == self._expected:
            for one in self._said:
                one()
            self._met.set_result(None)
        await asyncio.shield(self._met)

    def fail(self, error: BaseException) -> None:
        """Somebody does not come: nobody waits for it."""
        if not self._met.done():
            self._met.set_exception(error)
            self._met.exception()


class RawClient(asyncio.Protocol):
    """One connection; PING is answered and not shown.

    Args:
        name: of the client, for what it says of its end.
    """

    def __init__(self, name: str) -> None:
        self.name = name
        self._transport: asyncio.Transport | None = None
        self._decoder = FrameDecoder(MAX_FRAME_BYTES)
        self._frames: deque[Frame] = deque()
        self._waiting: asyncio.Future[None] | None = None
        self._ended = False

    @classmethod
    async def open(cls, address: str, gate: asyncio.Semaphore, hello: Hello) -> RawClient:
        """Connect, say HELLO and wait for WELCOME."""
        host, port = parse_address(address)
        async with gate:
            loop = asyncio.get_running_loop()
            _, client = await loop.create_connection(lambda: cls(f"{hello.role} {hello.client_id}"), host, port)
            client.send(hello)
            await client.expect(wire.Welcome)
        return client

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport

    def data_received(self, data: bytes) -> None:
        for raw in self._decoder.receive_data(data):
            frame = decode(raw)
            if isinstance(frame, wire.Ping):
                self.send(wire.Pong(frame.token))
            else:
                self._frames.append(frame)
        self._wake()

    def connection_lost(self, exc: Exception | None) -> None:
        self._ended = True
        self._wake()

    def prepared(self, *frames: Frame) -> Callable[[], None]:
        """What sends these frames; their bytes are made now."""
        data = b"".join(bytes(part) for frame in frames for part in encode(frame))
        assert self._transport is not None
        transport = self._transport
        return lambda: transport.write(data)

    def send(self, *frames: Frame) -> None:
        self.prepared(*frames)()

    async def next(self) -> Frame:
        """The next frame; raises CutError where there is none, or it is one that closes."""
        while not self._frames:
            if self._ended:
                raise CutError(f"{self.name:.60}: the connection was closed")
            self._waiting = asyncio.get_running_loop().create_future()
            await self._waiting
        frame = self._frames.popleft()
        if isinstance(frame, wire.Error) and frame.close:
            raise CutError(f"{self.name:.60}: {frame.code}: {frame.text:.200}")
        return frame

    async def expect(self, kind: type[F]) -> F:
        """The next frame of this type; DEMAND may come before it at any time."""
        while True:
            frame = await self.next()
            if isinstance(frame, kind):
                return frame
            if not isinstance(frame, wire.Demand):
                raise CutError(f"{self.name:.60}: {kind.__name__} was expected, {type(frame).__name__} came: {frame}")

    def close(self) -> None:
        if self._transport is not None:
            self._transport.close()

    def _wake(self) -> None:
        if self._waiting is not None and not self._waiting.done():
            self._waiting.set_result(None)


class Crowd:
    """Makes raw clients of one broker.

    Args:
        send_address: where senders connect.
        receive_address: where receivers connect.
    """

    def __init__(self, send_address: str, receive_address: str) -> None:
        self._send_address, self._receive_address = send_address, receive_address
        self._gate = asyncio.Semaphore(CONNECTING)
        self._open: list[RawClient] = []

    async def client(self, role: str, queue: str | None, name: str | None, **options: Any) -> RawClient:
        """One that is welcome."""
        address = self._receive_address if role in ("receiver", "subscription") else self._send_address
        client = await RawClient.open(address, self._gate, Hello(wire.VERSION, role, queue, name, options))
        self._open.append(client)
        return client

    def close(self) -> None:
        """End all."""
        for client in self._open:
            client.close()


async def send_one(crowd: Crowd, meeting: Meeting, queue: str, number: int) -> None:
    """A named sender: one message, confirmed as stored and as new."""
    client = await crowd.client("sender", queue, long_name("sender", number))
    await client.expect(wire.Demand)
    await meeting.say(client.prepared(wire.Send(0, None, MessageBatch.from_payloads([b"raw"]))))
    sent = await client.expect(wire.Sent)
    if (sent.up_to, sent.rejected) != (1, None) or sent.first is None:
        raise CutError(f"{client.name:.60}: {sent}")


async def stage_one(crowd: Crowd, meeting: Meeting, queue: str, number: int) -> None:
    """A transaction of its own: one message staged, and committed."""
    writer, stage = long_name("writer", number), long_name("stage", number)
    name = {"writer": writer, "version": 1}
    client = await crowd.client("sender", queue, long_name("stager", number), **name, stage=stage)
    await client.expect(wire.Demand)
    await meeting.say(client.prepared(wire.Send(0, None, MessageBatch.from_payloads([b"staged"]))))
    sent = await client.expect(wire.Sent)
    if sent.rejected is not None:
        raise CutError(f"{client.name:.60}: {sent}")
    ending = await crowd.client("transaction", None, None, **name)
    ending.send(wire.Enlist(queue, stage, 1), wire.CommitTransaction(1))
    ended = await ending.expect(wire.TransactionEnded)
    if ended.messages != 1:
        raise CutError(f"{ending.name:.60}: {ended}")


async def receive_one(crowd: Crowd, meeting: Meeting, queue: str, number: int) -> None:
    """A receiver: one message, acknowledged."""
    client = await crowd.client("receiver", queue, long_name("receiver", number))
    await meeting.say(client.prepared(wire.Request(1, 1024)))
    delivered = await client.expect(wire.Deliver)
    client.send(wire.Ack(((delivered.first, 1),)), wire.Cancel())


async def reserve_one(crowd: Crowd, meeting: Meeting, queue: str, number: int) -> None:
    """The owner of a subscription of its own: one message reserved, read and committed."""
    name = long_name("subscription", number)
    client = await crowd.client("subscription", queue, None, subscription=name)
    await meeting.say(client.prepared(wire.Reserve(1, 0, 1, 1024, 10_000, None), wire.Request(1, 1024)))
    reserved = await client.expect(wire.Reserved)
    if reserved.end != 1:
        raise CutError(f"{client.name:.60}: {reserved}")
    client.send(wire.Fetch(2, 0, 1))
    await client.expect(wire.Fetched)
    await client.expect(wire.FetchEnd)
    client.send(wire.Commit(3, 1))
    await client.expect(wire.Committed)


async def ask_one(crowd: Crowd, meeting: Meeting, queue: str, number: int) -> None:
    """An administrator: one command, answered, or told to try again where too many ask at once."""
    client = await crowd.client("admin", None, long_name("admin", number))
    await meeting.say(client.prepared(wire.Command(1, "queue.create", {"name": queue})))
    answer = await client.next()
    if not isinstance(answer, wire.Result) and not (isinstance(answer, wire.Error) and answer.code == "limit-exceeded"):
        raise CutError(f"{client.name:.60}: {answer}")
