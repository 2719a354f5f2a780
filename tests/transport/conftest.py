"""What tests of the transport over real sockets share: a deadline, a broker, a peer that speaks frames, a proxy that cuts.

Everything comes as a fixture, for test modules cannot import one another.
"""

from __future__ import annotations

import asyncio
import importlib.util
import ssl
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any, Self, TypeVar

import pytest

from streams.testkit import settle
from tests.decoding import FrameDecoder
from transport import Broker, BrokerConfig, parse_address
from transport.wire.codec import decode, encode
from transport.wire.frames import MAX_FRAME_BYTES
from transport.wire.messages import VERSION, Error, Frame, Hello, Ping, Pong, Welcome

if TYPE_CHECKING:
    from tests.transport.certificates import Certificates
    from tests.transport.scripted_peers import Play, Script, ScriptedBroker

DEADLINE = 30.0
"""Seconds for a whole test: reached only when something that must come does not."""
POLL = 0.002
FREE_PORT = "127.0.0.1:0"

F = TypeVar("F", bound=Frame)


class Peer:
    """One raw connection that speaks whatever it is told to; PING is answered and not shown.

    Attributes:
        answers_pings: whether PING is answered.
    """

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.answers_pings = True
        self._reader = reader
        self._writer = writer
        self._decoder = FrameDecoder(MAX_FRAME_BYTES)
        self._frames: list[Frame] = []

    def send(self, *frames: Frame) -> None:
        for frame in frames:
            self._writer.writelines(encode(frame))

    def send_bytes(self, data: bytes) -> None:
        self._writer.write(data)

    async def flushed(self) -> None:
        await self._writer.drain()

    async def raw(self) -> Frame | None:
        """The next frame whatever it is, a PING too, which is answered; None at the end of the stream."""
        while not self._frames:
            if not (data := await self._reader.read(1 << 20)):
                return None
            self._frames += [decode(raw) for raw in self._decoder.receive_data(data)]
        frame = self._frames.pop(0)
        if isinstance(frame, Ping):
            self.send(Pong(frame.token))
        return frame

    async def frame(self) -> Frame | None:
        """The next frame, None at the end of the stream."""
        while True:
            while self._frames:
                frame = self._frames.pop(0)
                if not isinstance(frame, Ping):
                    return frame
                if self.answers_pings:
                    self.send(Pong(frame.token))
            try:
                data = await self._reader.read(1 << 20)
            except ConnectionResetError:
                return None
            if not data:
                return None
            self._frames += [decode(raw) for raw in self._decoder.receive_data(data)]

    async def expect(self, kind: type[F]) -> F:
        """The next frame, which must be of this type."""
        frame = await self.frame()
        assert isinstance(frame, kind), f"expected {kind.__name__}, got {frame}"
        return frame

    async def expect_later(self, kind: type[F]) -> F:
        """The next frame of this type, whatever comes before it but an ERROR."""
        while True:
            frame = await self.frame()
            assert frame is not None, f"expected {kind.__name__}, got the end of the stream"
            if isinstance(frame, kind):
                return frame
            assert not isinstance(frame, Error), f"expected {kind.__name__}, got {frame}"

    async def rest(self) -> list[Frame]:
        """Every frame until the end of the stream."""
        frames: list[Frame] = []
        while (frame := await self.frame()) is not None:
            frames.append(frame)
        return frames

    async def refusal(self) -> Error:
        """The one ERROR with which the broker ends this connection, and nothing after it."""
        frames = await self.rest()
        errors = [frame for frame in frames if isinstance(frame, Error)]
        assert len(errors) == 1, f"expected one ERROR, got {frames}"
        assert errors[0] is frames[-1], f"expected nothing after ERROR, got {frames}"
        assert errors[0].close
        return errors[0]

    async def hello(
        self, role: str, queue: str | None = "orders", client_id: str | None = "peer", **options: Any
    ) -> Welcome:
        self.send(Hello(VERSION, role, queue, client_id, options))
        return await self.expect(Welcome)

    async def close(self) -> None:
        self._writer.close()
        try:
            await self._writer.wait_closed()
        except OSError:
            return

    def abort(self) -> None:
        """As a crash: no end of the stream, whatever has not left is lost."""
        self._writer.transport.abort()


class Peers:
    """Opens peers, and closes them all at the end."""

    def __init__(self, context: ssl.SSLContext | None = None) -> None:
        self._peers: list[Peer] = []
        self._context = context

    async def connect(self, address: str) -> Peer:
        host, port = parse_address(address)
        peer = Peer(*await asyncio.open_connection(host, port, ssl=self._context))
        self._peers.append(peer)
        return peer

    async def open(
        self, address: str, role: str, queue: str | None = "orders", client_id: str | None = "peer", **options: Any
    ) -> Peer:
        peer = await self.connect(address)
        await peer.hello(role, queue, client_id, **options)
        return peer

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        for peer in self._peers:
            await peer.close()


class CutProxy:
    """Between a client and a broker; each connection is cut when so many bytes have gone up, or down.

    Attributes:
        up: for each connection in turn, the bytes towards the broker after which it is cut; when exhausted none is.
        down: the same for bytes towards the client.
        address: where to connect instead.
        connections: how many there were.
        traffic: for each connection, what went up.
    """

    def __init__(self, target: str) -> None:
        self.target = target
        self.up: list[int | None] = []
        self.down: list[int | None] = []
        self.address = ""
        self.connections = 0
        self.traffic: list[bytearray] = []
        self.received: list[bytearray] = []
        self._tasks: set[asyncio.Task[None]] = set()
        self._writers: set[asyncio.StreamWriter] = set()

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        number = self.connections
        self.connections += 1
        self.traffic.append(bytearray())
        self.received.append(bytearray())
        self._writers.add(writer)
        host, port = parse_address(self.target)
        try:
            upstream_reader, upstream = await asyncio.open_connection(host, port)
        except OSError:
            writer.transport.abort()
            return
        self._writers.add(upstream)
        up = self.up[number] if number < len(self.up) else None
        down = self.down[number] if number < len(self.down) else None
        pumps = [
            asyncio.create_task(self._pump(reader, upstream, up, self.traffic[number])),
            asyncio.create_task(self._pump(upstream_reader, writer, down, self.received[number])),
        ]
        try:
            await asyncio.wait(pumps, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for pump in pumps:
                pump.cancel()
            writer.transport.abort()
            upstream.transport.abort()

    async def _pump(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, limit: int | None, log: bytearray
    ) -> None:
        try:
            while limit is None or len(log) < limit:
                data = await reader.read(65536 if limit is None else limit - len(log))
                if not data:
                    return
                log += data
                writer.write(data)
                await writer.drain()
        except OSError:
            return

    def cut(self) -> None:
        """Break every connection now."""
        for writer in self._writers:
            writer.transport.abort()


@asynccontextmanager
async def cutting(target: str, tls: ssl.SSLContext | None = None) -> AsyncIterator[CutProxy]:
    """With ``tls`` it speaks that with clients, and plainly with the broker."""
    proxy = CutProxy(target)
    server = await asyncio.start_server(proxy.serve, "127.0.0.1", 0, ssl=tls)
    proxy.address = f"127.0.0.1:{server.sockets[0].getsockname()[1]}"
    try:
        yield proxy
    finally:
        server.close()
        proxy.cut()
        await settle()


def broker(**options: Any) -> Broker:
    """A broker on free ports."""
    return Broker(BrokerConfig(**({"send_address": FREE_PORT, "receive_address": FREE_PORT} | options)))


async def until(condition: Callable[[], bool | Awaitable[bool]]) -> None:
    """Wait for what gives no event of its own, or has to be asked for; the test's deadline bounds it."""
    while not (met := condition()) or (isinstance(met, Awaitable) and not await met):
        await settle(POLL)


def run(main: Callable[[], Coroutine[Any, Any, None]]) -> None:
    """Run a test's coroutine function within the deadline."""

    async def bounded() -> None:
        async with asyncio.timeout(DEADLINE):
            await main()

    asyncio.run(bounded())


def jump(seconds: float) -> None:
    """Have the clock of the running loop go on by so much at once: what is due by then is done in its next turns.

    For what happens after a while, with no need to be quick before it. The test's own deadline comes nearer too. Uvloop's timers know
    nothing of it: there the time has to pass.
    """
    loop = asyncio.get_running_loop()
    before = loop.time
    loop.time = lambda: before() + seconds  # type: ignore[method-assign]  # on this one loop


@pytest.fixture(name="jump")
def jump_fixture() -> Callable[[float], None]:
    return jump


@pytest.fixture(name="run")
def run_fixture() -> Callable[[Callable[[], Coroutine[Any, Any, None]]], None]:
    return run


@pytest.fixture(name="serve")
def serve_fixture() -> Callable[..., Broker]:
    return broker


@pytest.fixture(name="peers")
def peers_fixture() -> type[Peers]:
    return Peers


@pytest.fixture(name="cutting")
def cutting_fixture() -> Any:
    return cutting


@pytest.fixture(name="until")
def until_fixture() -> Any:
    return until


@pytest.fixture
def play() -> Iterator[Play]:
    """``play(*scripts, **options)`` starts a scripted broker; every script must have been played."""
    from tests.transport.scripted_peers import ScriptedBroker

    brokers: list[ScriptedBroker] = []

    def played(*scripts: Script, **options: Any) -> ScriptedBroker:
        brokers.append(ScriptedBroker(*scripts, **options))
        return brokers[-1]

    yield played
    for broker in brokers:
        broker.finish()


@pytest.fixture(scope="session")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> Certificates:
    """An authority of this run's, and a broker's certificate."""
    from tests.transport.certificates import Certificates

    return Certificates(tmp_path_factory.mktemp("certificates"))


@pytest.fixture(scope="session")
def independent_client() -> ModuleType:
    """The test client that was written from docs/protocol.md alone."""
    path = Path(__file__).with_name("independent_client.py")
    spec = importlib.util.spec_from_file_location("penstock_independent_client", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # dataclasses look their module up
    spec.loader.exec_module(module)
    return module
