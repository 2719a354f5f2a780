"""What a client of WebSocket can make a broker hold or do: one that never reads, or slowly, tiny frames without end, and many at once."""

from __future__ import annotations

import asyncio
import os
import signal
import ssl
import subprocess
import sys
from base64 import b64encode
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from tests.transport.broker_helpers import MIB, batch
from tests.transport.conftest import until
from tests.transport.gateways.http.websocket_client import BINARY, PING, PONG, WsPeer, connected, cut_off, masked
from tests.transport.gateways.http.websocket_users import users_of
from tests.transport.programs import ROOT, Program
from transport.gateways.http import websocket
from transport.shell.unsent import MAX_UNSENT_BYTES, WRITE_BUFFER_HIGH
from transport.wire.codec import encode
from transport.wire.messages import VERSION, Deliver, Demand, Hello, Ping, Request, Send, Sent

pytestmark = pytest.mark.event_loop


def ws(http: Any) -> Any:
    return http.listener.addresses[0]


async def opened(http: Any, role: str, queue: str | None = "orders", name: str = "peer", **options: Any) -> WsPeer:
    peer = await WsPeer.connect(ws(http))
    await peer.hello(role, queue, name, **options)
    return peer


def bytes_of(*frames: Any) -> bytes:
    return b"".join(bytes(part) for frame in frames for part in encode(frame))


def basic(name: str, password: str) -> str:
    return f"Basic {b64encode(f'{name}:{password}'.encode()).decode()}"


def only(http: Any) -> Any:
    (found,) = http.broker.connections.values()
    return found.connection


def unsent(http: Any) -> int:
    return max(
        (each.connection._transport.get_write_buffer_size() for each in http.broker.connections.values()), default=0
    )


def test_one_that_never_reads_is_sent_no_more_read_no_more_and_ended_in_time(run: Any, sockets: Any, jump: Any) -> None:
    async def main() -> None:
        async with sockets(heartbeat=1.0) as http:
            await _fill(http, 64)
            peer = await opened(http, "receiver")
            peer.raw.transport.pause_reading()
            peer.send(Request(1000, 1 << 40))
            connection = only(http)
            await until(lambda: connection._blocked)
            # What was on its way to the socket, and a largest delivery: nothing like all that is asked for.
            assert WRITE_BUFFER_HIGH <= unsent(http) <= 12 * MIB
            # Nor is it read: what it goes on to say stays in its own socket.
            before = connection.bytes_in
            peer.raw.write(b"".join(masked(BINARY, bytes_of(Ping(1))) for _ in range(10_000)))
            await until(lambda: peer.raw.transport.get_write_buffer_size() == 0)
            assert connection.bytes_in - before < 200_000
            await until(lambda: not http.broker.connections)
            assert (await http.queue())["ready"] == 64

    run(main)


async def _fill(http: Any, messages: int) -> None:
    """As many messages of 1 MiB each."""
    sender = await opened(http, "sender")
    await sender.expect(Demand)
    for number in range(messages):
        sender.send(Send(number, None, batch(bytes(MIB))))
        await sender.expect_later(Sent)
    await sender.close()
    await until(lambda: not http.broker.connections)


def test_one_that_reads_a_byte_now_and_then_costs_no_more_than_one_that_does_not(run: Any, sockets: Any) -> None:
    async def main() -> None:
        async with sockets() as http:
            await _fill(http, 32)
            peer = await opened(http, "receiver")
            connection = only(http)
            peer.send(Request(1000, 1 << 40))
            peer.raw.transport.pause_reading()
            await until(lambda: connection._blocked)
            most = 0
            for _ in range(20):
                peer.raw.transport.resume_reading()
                await asyncio.sleep(0)
                peer.raw.transport.pause_reading()
                most = max(most, unsent(http))
            assert most < MAX_UNSENT_BYTES / 2
            # It is not cut off: it takes something. What it has asked for comes when it reads.
            peer.raw.transport.resume_reading()
            got = 0
            while got < 32:
                got += len((await peer.expect(Deliver)).batch)

    run(main)


def test_pings_whose_answers_nobody_reads_take_no_memory(run: Any, sockets: Any) -> None:
    async def main() -> None:
        async with sockets() as http:
            peer = await opened(http, "receiver")
            peer.raw.transport.pause_reading()
            shell = only(http)._transport
            peer.raw.write(masked(PING, bytes(125)) * 30_000)
            await until(lambda: shell._reader.frames > 30_000)
            # Of those that come in one receive the last is answered.
            assert unsent(http) < MIB / 4

    run(main)


@pytest.mark.parametrize(
    "said", [masked(PING, b""), masked(BINARY, b""), masked(PONG, b"")], ids=["ping", "binary", "pong"]
)
def test_tiny_frames_without_end_hold_up_nobody(run: Any, sockets: Any, said: bytes) -> None:
    """An honest pair goes on beside four that flood; each receive of a flood is short, and it stands in line."""

    async def main() -> None:
        async with sockets() as http:
            floods = [await opened(http, "receiver", "other", f"flood-{n}") for n in range(4)]
            flooding = [asyncio.create_task(_flood(peer, said * 10_000)) for peer in floods]
            shells = [each.connection._transport for each in http.broker.connections.values()]
            sender, receiver = await opened(http, "sender"), await opened(http, "receiver")
            await sender.expect(Demand)
            receiver.send(Request(1000, 1 << 30))
            for number in range(50):
                sender.send(Send(number, None, batch(b"x")))
                await receiver.expect(Deliver)
            assert all(shell._most <= 4 * websocket.LEAST_RECEIVE_BYTES for shell in shells)
            assert not any(task.done() for task in flooding)
            for task in flooding:
                task.cancel()

    run(main)


async def _flood(peer: WsPeer, said: bytes) -> None:
    while True:
        peer.raw.write(said)
        await peer.raw.drain()
        await asyncio.sleep(0)


def test_many_at_once_each_have_what_they_asked_for(run: Any, sockets: Any) -> None:
    async def main() -> None:
        async with sockets() as http:
            peers = await asyncio.gather(*(opened(http, "receiver", f"q{n}", f"r{n}") for n in range(100)))
            senders = await asyncio.gather(*(opened(http, "sender", f"q{n}", f"s{n}") for n in range(100)))

            async def pair(number: int) -> bytes:
                await senders[number].expect(Demand)
                peers[number].send(Request(1, 1000))
                senders[number].send(Send(0, None, batch(b"%d" % number)))
                return bytes((await peers[number].expect(Deliver)).batch.payloads.tolist()[0])

            assert await asyncio.gather(*(pair(number) for number in range(100))) == [b"%d" % n for n in range(100)]
            assert len(http.broker.connections) == 200
            for number, peer in enumerate(peers + senders):
                if number % 2:
                    peer.abort()
                else:
                    await peer.close()
            await until(lambda: not http.broker.connections)
            assert http.broker._entrance.unopened.count == 0

    run(main)


def test_clients_that_are_cancelled_anywhere_leave_nothing(run: Any, sockets: Any) -> None:
    async def main() -> None:
        async with sockets() as http:
            for turns in range(1, 40):
                task = asyncio.create_task(opened(http, "receiver", "orders", f"r{turns}"))
                for _ in range(turns):
                    await asyncio.sleep(0)
                task.cancel()
                await asyncio.wait([task])
            await cut_off()
            await until(lambda: not http.broker.connections)
            assert http.broker._entrance.unopened.count == 0
            assert not http.listener._connections

    run(main)


def test_what_is_not_complete_counts_with_that_of_all_others(run: Any, sockets: Any) -> None:
    async def main() -> None:
        async with sockets() as http:
            sender = await opened(http, "sender")
            await sender.expect(Demand)
            said = bytes_of(Send(0, None, batch(bytes(4 * MIB))))
            # One message of 4 MiB, of which half comes: no more is kept than has come, and it is counted where all is.
            sender.raw.write(masked(BINARY, said)[: 2 * MIB])
            connection = only(http)
            await until(lambda: connection.bytes_in > 2 * MIB - 100_000)
            room = connection._receiver._room
            assert 2 * MIB - 100_000 < room._everybody.bytes <= 5 * MIB
            sender.abort()
            await until(lambda: room._everybody.bytes == 0)

    run(main)


# --- who may


def test_hello_says_who_it_is_and_the_request_may_have_said_it_before(run: Any, sockets: Any, tmp_path: Path) -> None:
    path, token = users_of(tmp_path)

    async def refused(http: Any, *hello: Any, **options: Any) -> str:
        peer = await WsPeer.connect(ws(http), **options)
        peer.send(*hello)
        return str((await peer.refusal()).code)

    async def main() -> None:
        async with sockets(users_file=path) as http:
            reads = Hello(VERSION, "receiver", "orders", None, {})
            sends = Hello(VERSION, "sender", "orders", "me", {})
            assert await refused(http, reads) == "authentication-required"
            assert (
                await refused(http, Hello(VERSION, "receiver", "orders", None, {"token": "x"}))
                == "authentication-failed"
            )
            # Ann makes the queue; her browser has said who she is.
            peer = await WsPeer.connect(ws(http), Authorization=basic("ann", "secret"))
            await peer.hello("sender", "orders", "me")
            names = [each.operations.principal.name for each in http.broker.connections.values() if each.operations]
            assert names == ["ann"]
            # Bob shows his token in HELLO, or before it, and may read alone.
            other = await WsPeer.connect(ws(http))
            await other.hello("receiver", "orders", None, token=token)
            bearer = {"Authorization": f"Bearer {token}"}
            third = await WsPeer.connect(ws(http), **bearer)
            await third.hello("receiver", "orders", None)
            assert await refused(http, sends, **bearer) == "forbidden"
            # What HELLO shows counts, whoever the request was of.
            wrong = Hello(VERSION, "receiver", "orders", None, {"token": "x"})
            assert await refused(http, wrong, **bearer) == "authentication-failed"
            for shown in (basic("ann", "wrong"), "Bearer nonsense"):
                with pytest.raises(AssertionError, match="401"):
                    await WsPeer.connect(ws(http), Authorization=shown)

    run(main)


def test_strangers_are_limited_together_with_those_of_other_addresses(run: Any, sockets: Any, tmp_path: Path) -> None:
    path, _ = users_of(tmp_path)

    async def main() -> None:
        async with sockets(users_file=path, max_unauthenticated=3) as http:
            strangers = [await WsPeer.connect(ws(http)) for _ in range(3)]
            # The fourth waits in the kernel's line until one of them is known, or gone.
            waits = asyncio.create_task(WsPeer.connect(ws(http)))
            _, writer = await connected(http.broker.addresses("receive")[0])
            assert http.broker._entrance.unopened.full
            await asyncio.sleep(0)
            assert not waits.done()
            strangers[0].abort()
            strangers[1].abort()
            await waits
            writer.transport.abort()

    run(main)


def test_it_is_carried_by_tls_where_the_broker_has_a_certificate(run: Any, sockets: Any, certificates: Any) -> None:
    async def main() -> None:
        options = {"tls_certificate": certificates.server.certificate, "tls_key": certificates.server.key}
        async with sockets(**options) as http:
            context = ssl.create_default_context(cafile=certificates.ca)
            sender = await WsPeer.connect(ws(http), context=context)
            await sender.hello("sender", "orders", "me")
            await sender.expect(Demand)
            payload = os.urandom(3 * MIB)
            sender.send(Send(0, None, batch(payload)))
            await sender.expect_later(Sent)
            receiver = await WsPeer.connect(ws(http), 1000, context)
            await receiver.hello("receiver")
            receiver.send(Request(1, 1 << 30))
            assert bytes((await receiver.expect(Deliver)).batch.payloads.tolist()[0]) == payload
            sender.send_bytes(bytes(100))
            error = await sender.refusal()
            assert (error.code, sender.received.closed) == ("protocol-error", (1002, b"protocol-error"))

    run(main)


# --- processes

HOLDER = """
import asyncio, sys
from tests.transport.gateways.http.websocket_client import WsPeer
from transport import parse_address
from transport.wire.messages import Deliver, Request

async def main():
    peer = await WsPeer.connect(parse_address(sys.argv[1]))
    await peer.hello("receiver", "orders", "holder")
    peer.send(Request(2, 1000))
    for _ in range(2):
        await peer.expect(Deliver)
    print("held", flush=True)
    await peer.rest()

asyncio.run(main())
"""


def test_what_a_process_holds_is_back_at_once_when_it_is_killed(run: Any, sockets: Any) -> None:
    async def main() -> None:
        async with sockets() as http:
            # By itself it takes nothing back in the time of a test.
            await http.ask("POST", "/api/v1/queues", {"name": "orders", "visibility_timeout_ms": 3_600_000})
            await http.publish("one")
            await http.publish("two")
            address = "{}:{}".format(*http.address)
            holder = await asyncio.to_thread(
                subprocess.Popen, [sys.executable, "-c", HOLDER, address], cwd=ROOT, stdout=subprocess.PIPE
            )
            assert holder.stdout is not None
            try:
                assert await asyncio.to_thread(holder.stdout.readline) == b"held\n"
                assert (await http.queue())["in_flight"] == 2
                holder.kill()
                await until(lambda: _ready(http, 2))
            finally:
                holder.kill()
                await asyncio.to_thread(holder.wait)
                holder.stdout.close()

    run(main)


async def _ready(http: Any, count: int) -> bool:
    return bool((await http.queue())["ready"] == count)


def test_a_broker_told_to_stop_says_so_and_is_gone(run: Any, tmp_path: Path) -> None:
    async def main() -> None:
        free = "127.0.0.1:0"
        arguments = [
            "broker",
            "--send-address",
            free,
            "--receive-address",
            free,
            "--http",
            free,
            "--data",
            str(tmp_path / "data"),
        ]
        with Program(*arguments) as broker:
            said = (await asyncio.to_thread(broker.line, broker.stderr)).decode()
            port = int(said.partition("console http://")[2].partition("/")[0].rpartition(":")[2])
            async with aiohttp.ClientSession() as session:
                url = f"http://127.0.0.1:{port}/ws"
                async with session.ws_connect(url, protocols=["penstock.1"]) as socket:
                    await socket.send_bytes(bytes_of(Hello(VERSION, "sender", "orders", "me", {})))
                    await socket.receive_bytes()
                    broker.process.send_signal(signal.SIGTERM)
                    told = b""
                    while not socket.closed:
                        message = await socket.receive()
                        if message.type is not aiohttp.WSMsgType.BINARY:
                            continue
                        told += message.data
                        if b"shutting-down" not in told:
                            # To whatever it asks: PONG with the token of a broker that ends.
                            await socket.send_bytes(b"\0\0\0\x09\0\x03\x92\x05\x01")
                    assert b"shutting-down" in told
                    assert socket.close_code == 1001
            assert await asyncio.to_thread(broker.end) == 0

    run(main)
