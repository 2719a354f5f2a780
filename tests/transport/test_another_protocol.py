"""A protocol that is not Penstock's own, as a listener of a broker: limits, fair turns and a good end come with the shell."""

from __future__ import annotations

import asyncio
import inspect
import socket
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest

from actors import LoopActor, LoopActorRef
from tests.transport import line_protocol
from tests.transport.conftest import until
from tests.transport.line_protocol import MAX_LINE, Echo, Lines, echo_listener
from transport import Administration, Broker, BrokerConfig
from transport.broker.acceptor import KEEPALIVE_IDLE
from transport.broker.broker_connection import native_listeners
from transport.errors import LocalProtocolError
from transport.shell.turns import SHARE, TURN_WORK
from transport.shell.unsent import WRITE_BUFFER_HIGH
from transport.wire.liveness import HANDSHAKE_TIMEOUT, SILENT_INTERVALS

pytestmark = pytest.mark.event_loop
FREE = "127.0.0.1:0"


@asynccontextmanager
async def served(**options: Any) -> AsyncIterator[Broker]:
    """A broker that also echoes lines."""
    async with Broker(BrokerConfig(**options), listeners=[*native_listeners(FREE, FREE), echo_listener()]) as broker:
        yield broker


Client = tuple[asyncio.StreamReader, asyncio.StreamWriter]


async def connect(broker: Broker) -> Client:
    address = broker.addresses("echo")[0]
    return await asyncio.open_connection(address.host, address.port)


def test_the_protocol_its_handler_and_its_listener_are_forty_lines() -> None:
    source = inspect.getsource(line_protocol).split("MAX_LINE = 1024")[1]
    assert len([line for line in source.splitlines() if line.strip()]) <= 40


def test_lines_come_back_in_order_beside_penstocks_own_clients(run: Any) -> None:
    async def main() -> None:
        async with served() as broker, Administration(broker.send_address) as admin:
            reader, writer = await connect(broker)
            writer.write(b"one\ntwo\nthr")
            assert [await reader.readline() for _ in range(2)] == [b"one\n", b"two\n"]
            writer.write(b"ee\n")
            assert await reader.readline() == b"three\n"
            listed = (await admin.statistics())["connections"]
            assert [each["bytes_in"] for each in listed if each["role"] == "echo"] == [14]
            writer.close()
            await until(lambda: all(each.role != "echo" for each in broker.connections.values()))

    run(main)


def test_a_line_over_its_limit_is_refused_in_the_protocols_words_and_the_broker_lives(run: Any) -> None:
    async def main() -> None:
        async with served() as broker:
            reader, writer = await connect(broker)
            writer.write(b"x" * (MAX_LINE + 1))
            said = await reader.read()
            assert said == b"frame-too-large: a line of 1025 bytes exceeds the limit of 1024; send shorter lines\n"
            writer.close()
            reader, writer = await connect(broker)
            writer.write(b"on\n")
            assert await reader.readline() == b"on\n"
            writer.close()

    run(main)


def test_one_that_reads_nothing_is_read_no_further_and_others_go_on(run: Any) -> None:
    async def main() -> None:
        async with served() as broker:
            _, writer = await connect(broker)
            await until(lambda: bool(broker.connections))
            deaf = next(iter(broker.connections.values())).connection
            assert deaf is not None
            line = b"x" * 1000 + b"\n"
            flood = asyncio.ensure_future(send_for_ever(writer, line))
            await until(lambda: not deaf._reading and deaf._transport.get_write_buffer_size() > WRITE_BUFFER_HIGH)
            taken = deaf.bytes_in
            reader, other = await connect(broker)
            for number in range(50):
                other.write(b"%d\n" % number)
                assert await reader.readline() == b"%d\n" % number
            assert deaf.bytes_in == taken
            flood.cancel()
            for each in (writer, other):
                each.transport.abort()
            await until(lambda: not broker.connections)

    run(main)


async def send_for_ever(writer: asyncio.StreamWriter, line: bytes) -> None:
    while True:
        writer.write(line * 100)
        await writer.drain()


def test_a_turn_handles_no_more_lines_of_one_client_than_its_share(run: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    handled: list[int] = []
    turn = [0]
    received = Echo.event_received

    def note(self: Echo, event: bytes, work: int) -> None:
        handled.append(turn[0])
        received(self, event, work)

    monkeypatch.setattr(Echo, "event_received", note)

    async def main() -> None:
        loop = asyncio.get_running_loop()

        def count() -> None:
            turn[0] += 1
            counting.append(loop.call_soon(count))
            del counting[:-1]

        async with served() as broker:
            reader, writer = await connect(broker)
            counting: list[asyncio.Handle] = []
            count()
            writer.write(b"x\n" * 5000)
            assert await reader.readexactly(10_000) == b"x\n" * 5000
            counting[-1].cancel()
            writer.close()
        assert len(handled) == 5000
        assert max(handled.count(each) for each in set(handled)) <= SHARE + TURN_WORK

    run(main)


def test_one_more_than_may_connect_is_told_so_in_the_protocols_words(run: Any) -> None:
    async def main() -> None:
        async with served(max_connections=1) as broker:
            _, writer = await connect(broker)
            await until(lambda: len(broker.connections) == 1)
            reader, other = await connect(broker)
            assert await reader.read() == (
                b"limit-exceeded: 1 connections are open, which is the limit; close some, or raise max_connections\n"
            )
            for each in (writer, other):
                each.close()

    run(main)


def test_a_broker_that_stops_tells_them_and_waits_until_they_have_read_it(run: Any) -> None:
    async def main() -> None:
        async with served() as broker:
            reader, writer = await connect(broker)
            await until(lambda: bool(broker.connections))
        assert await reader.read() == b"shutting-down: the broker is stopping; connect again later\n"
        assert not broker.connections
        writer.close()

    run(main)


def test_without_a_heartbeat_the_quiet_stay_and_a_line_that_does_not_go_on_ends_its_connection(
    run: Any, jump: Callable[[float], None]
) -> None:
    async def main() -> None:
        if not isinstance(asyncio.get_running_loop(), asyncio.BaseEventLoop):
            pytest.skip("its timers know nothing of a clock that jumps")
        heartbeat = 5.0
        async with served(heartbeat=heartbeat) as broker:
            quiet, begun = await connect(broker), await connect(broker)
            begun[1].write(b"half a li")
            await until(lambda: any(each.connection.bytes_in for each in broker.connections.values()))
            jump(max(HANDSHAKE_TIMEOUT, SILENT_INTERVALS * heartbeat) + 1.0)
            said = await begun[0].read()
            assert said.startswith(b"timeout: silent for ")
            quiet[1].write(b"here\n")
            assert await quiet[0].readline() == b"here\n"
            for each in (quiet, begun):
                each[1].close()

    run(main)


def test_what_lines_keep_counts_among_what_all_connections_keep(run: Any) -> None:
    async def main() -> None:
        async with served() as broker:
            _, writer = await connect(broker)
            writer.write(b"x" * 700)
            await until(lambda: broker.partial.bytes == 700)
            writer.write(b"\n")
            await until(lambda: broker.partial.bytes != 700)
            assert broker.partial.bytes == 0
            writer.close()

    run(main)


def test_a_broker_without_a_listener_of_that_name_says_so(run: Any) -> None:
    async def main() -> None:
        async with Broker(BrokerConfig(), listeners=[echo_listener()]) as broker:
            with pytest.raises(LookupError, match="no listener 'send' that has started"):
                _ = broker.send_address

    run(main)


def test_a_peer_that_is_gone_without_a_word_is_found_by_the_system(run: Any) -> None:
    async def main() -> None:
        async with served() as broker:
            _, writer = await connect(broker)
            await until(lambda: bool(broker.connections))
            connection = next(iter(broker.connections.values())).connection
            assert connection is not None
            taken = connection._transport.get_extra_info("socket")
            assert taken.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE)
            assert taken.getsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPIDLE) == KEEPALIVE_IDLE
            writer.close()

    run(main)


def test_an_actor_of_a_connection_ends_with_it(run: Any) -> None:
    async def main() -> None:
        async with served() as broker:
            _, writer = await connect(broker)
            await until(lambda: bool(broker.connections))
            (connection,) = broker.connections.values()
            actor: LoopActorRef[Any] = LoopActor.start()
            connection.actor = actor
            writer.close()
            await until(lambda: not broker.connections)
            await until(lambda: not actor.is_alive())
            assert connection.actor is None

    run(main)


class Broken(Lines):
    """A protocol with a defect: it raises where it is told to."""

    where = ""

    def read(self) -> bytes | None:
        if self.where == "read":
            raise ValueError("a defect")
        return None if self.where == "stuck" else super().read()

    @property
    def waiting(self) -> bool:
        if self.where == "waiting" and self._received:
            raise ValueError("a defect")
        return super().waiting

    def last_words(self, code: str, text: str) -> list[bytes]:
        if self.where == "last words" and text != "unused":
            raise ValueError("a defect")
        return super().last_words(code, text)


@pytest.mark.parametrize("where", ["read", "stuck", "waiting", "last words"])
def test_a_protocol_with_a_defect_ends_its_connection_alone_and_those_in_line_go_on(
    run: Any, where: str, monkeypatch: pytest.MonkeyPatch, loop_reports: Any
) -> None:
    async def main() -> None:
        async with served() as broker:
            honest = [await connect(broker) for _ in range(3)]
            for _, writer in honest:
                writer.write(b"x\n" * 2000)
            await until(lambda: bool(broker._turns.waiting))
            broken = echo_listener(protocol=Broken)
            await broken.start(broker._host())
            address = broken.addresses[0]
            monkeypatch.setattr(Broken, "where", where)
            reader, writer = await asyncio.open_connection(address.host, address.port)
            writer.write(b"x" * (MAX_LINE + 1) if where == "last words" else b"line\n" * 200)
            said = await reader.read()
            assert said in (b"", b"internal-error: a defect\n") or b"waiting is true" in said
            for each, _ in honest:
                assert await each.readexactly(4000) == b"x\n" * 2000
            broken.close()
            for _, each in (*honest, (reader, writer)):
                each.close()
            await until(lambda: not broker.connections)
        assert loop_reports is not None

    run(main)


def test_a_listener_is_one_brokers_and_may_start_again_when_it_is_closed(run: Any) -> None:
    async def main() -> None:
        listener = echo_listener()
        async with Broker(BrokerConfig(), listeners=[listener]) as broker:
            with pytest.raises(LocalProtocolError, match="the listener 'echo' takes connections already"):
                await listener.start(broker._host())
        async with Broker(BrokerConfig(), listeners=[listener]) as broker:
            reader, writer = await connect(broker)
            writer.write(b"again\n")
            assert await reader.readline() == b"again\n"
            writer.close()

    run(main)
