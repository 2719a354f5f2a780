"""The native protocol over WebSocket: all roles, in pieces of any size, beside what is no WebSocket."""

from __future__ import annotations

import asyncio
import struct
from typing import Any

import aiohttp
import pytest

from tests.transport.broker_helpers import batch, command
from tests.transport.conftest import until
from tests.transport.gateways.http.websocket_client import (
    BINARY,
    CLOSE,
    PING,
    PONG,
    TEXT,
    WsPeer,
    connected,
    handshake,
    masked,
)
from transport.gateways.http import connections
from transport.wire.codec import encode
from transport.wire.messages import (
    VERSION,
    Ack,
    Cancel,
    Commit,
    Committed,
    CommitTransaction,
    Deliver,
    Demand,
    Enlist,
    Error,
    Fetch,
    Fetched,
    FetchEnd,
    Hello,
    Request,
    Reserve,
    Reserved,
    Send,
    Sent,
    TransactionEnded,
    Welcome,
)

pytestmark = pytest.mark.event_loop


def ws(http: Any) -> Any:
    return http.listener.addresses[0]


async def opened(http: Any, role: str, queue: str | None = "orders", *, piece: int = 0, **options: Any) -> WsPeer:
    peer = await WsPeer.connect(ws(http), piece)
    await peer.hello(role, queue, "peer", **options)
    return peer


async def stored(http: Any, *payloads: bytes, piece: int = 0) -> WsPeer:
    """A sender whose messages are stored."""
    sender = await opened(http, "sender", piece=piece)
    await sender.expect(Demand)
    for number, payload in enumerate(payloads):
        sender.send(Send(number, None, batch(payload)))
        assert (await sender.expect_later(Sent)).up_to == number + 1
    return sender


async def closed(peer: WsPeer) -> tuple[int, bytes]:
    """The close frame with which the server ends, behind whatever else it says."""
    await peer.rest()
    assert peer.received.closed is not None, "it ended without a close frame"
    return peer.received.closed


@pytest.mark.parametrize("piece", [0, 1, 3, 7, 1000])
def test_what_is_sent_is_confirmed_received_and_acknowledged_in_pieces_of_any_size(
    run: Any, sockets: Any, piece: int
) -> None:
    async def main() -> None:
        async with sockets() as http:
            sender = await stored(http, b"one", b"two", piece=piece)
            receiver = await opened(http, "receiver", piece=piece)
            receiver.send(Request(5, 100_000))
            found = [await receiver.expect(Deliver) for _ in range(2)]
            assert [bytes(each.batch.payloads.tolist()[0]) for each in found] == [b"one", b"two"]
            receiver.send(Ack([(0, 2)]), Cancel(False))
            assert await closed(receiver) == (1000, b"")
            assert (await http.queue())["total_acknowledged"] == 2
            await sender.close()

    run(main)


def test_many_frames_in_one_message_are_handled_one_by_one(run: Any, sockets: Any) -> None:
    async def main() -> None:
        async with sockets() as http:
            sender = await WsPeer.connect(ws(http))
            frames = [Hello(VERSION, "sender", "orders", "peer", {})]
            sender.send_bytes(b"".join(bytes(part) for each in frames for part in encode(each)))
            await sender.expect(Welcome)
            await sender.expect(Demand)
            sends = [Send(number, None, batch(b"%d" % number)) for number in range(100)]
            sender.send_bytes(b"".join(bytes(part) for each in sends for part in encode(each)))
            while (await sender.expect_later(Sent)).up_to < 100:
                pass
            assert (await http.queue())["ready"] == 100
            # What the broker says in one turn is one message as well.
            assert len(sender.received.sizes) < 50

    run(main)


def test_a_subscription_reserves_fetches_and_commits(run: Any, sockets: Any) -> None:
    async def main() -> None:
        async with sockets() as http:
            await stored(http, b"one", b"two")
            query = await opened(http, "subscription", subscription="report")
            query.send(Reserve(1, 0, 10, 1 << 20, 0, None))
            assert (await query.expect(Reserved)).end == 2
            query.send(Request(10, 1 << 20), Fetch(2, 0, 2))
            got = 0
            while not isinstance(frame := await query.frame(), FetchEnd):
                assert isinstance(frame, Fetched)
                got += len(frame.batch)
            assert got == 2
            query.send(Commit(3, 2))
            assert (await query.expect(Committed)).base == 2

    run(main)


def test_a_transaction_publishes_what_was_staged_and_an_administrator_sees_it(run: Any, sockets: Any) -> None:
    async def main() -> None:
        async with sockets() as http:
            stage = await opened(http, "sender", writer="job", version=0, stage="s")
            await stage.expect(Demand)
            stage.send(Send(0, None, batch(b"one")))
            await stage.expect_later(Sent)
            ending = await opened(http, "transaction", None, writer="job", version=0)
            ending.send(Enlist("orders", "s", 1), CommitTransaction(1))
            assert (await ending.expect(TransactionEnded)).messages == 1
            admin = await opened(http, "admin", None)
            (row,) = await command(admin, "queue.list")
            assert row["ready"] == 1
            roles = [row["role"] for row in await command(admin, "connection.list")]
            # Those of WebSocket, each once, and of the role that they have; the request before is none any more.
            assert sorted(roles) == ["admin", "sender", "transaction"]

    run(main)


def test_large_messages_go_both_ways_whole(run: Any, sockets: Any) -> None:
    payload = bytes(range(256)) * 40_000

    async def main() -> None:
        async with sockets() as http:
            await stored(http, payload, payload[::-1], piece=999_983)
            receiver = await opened(http, "receiver")
            receiver.send(Request(2, 1 << 30))
            got = [bytes((await receiver.expect(Deliver)).batch.payloads.tolist()[0]) for _ in range(2)]
            assert got == [payload, payload[::-1]]

    run(main)


def test_a_message_in_several_frames_with_pings_between_is_one_piece_of_the_stream(run: Any, sockets: Any) -> None:
    async def main() -> None:
        async with sockets() as http:
            peer = await WsPeer.connect(ws(http))
            said = b"".join(bytes(part) for part in encode(Hello(VERSION, "sender", "orders", "peer", {})))
            peer.raw.write(masked(BINARY, said[:5], final=False) + masked(PING, b"are you there"))
            peer.raw.write(masked(0, b"", final=False) + masked(PONG, b"unasked") + masked(0, said[5:]))
            await peer.expect(Welcome)
            assert peer.received.pongs == [b"are you there"]

    run(main)


def test_of_many_pings_that_come_together_the_last_is_answered(run: Any, sockets: Any) -> None:
    async def main() -> None:
        async with sockets() as http:
            peer = await WsPeer.connect(ws(http))
            peer.raw.write(b"".join(masked(PING, b"%d" % number) for number in range(100)))
            await peer.hello("sender")
            assert peer.received.pongs[-1] == b"99"
            assert len(peer.received.pongs) < 10

    run(main)


@pytest.mark.parametrize(
    ("said", "code", "text"),
    [
        (masked(TEXT, b"hello"), 1003, "a text message"),
        (masked(TEXT, b"he", final=False) + masked(0, b"llo"), 1003, "a text message"),
        (masked(BINARY, b"")[:1] + b"\xff" + struct.pack(">Q", 1 << 25) + bytes(4), 1009, "at most 16777216 bytes"),
        (masked(BINARY, b"")[:1] + b"\xff" + b"\xff" * 8 + bytes(4), 1009, "at most 16777216 bytes"),
        (b"\x82\x05hello", 1002, "not masked"),
        (masked(BINARY, b"hello", first=0x40), 1002, "reserved bit"),
        (masked(3, b"hello"), 1002, "unknown kind 3"),
        (masked(0xB, b"hello"), 1002, "unknown kind 11"),
        (masked(0, b"hello"), 1002, "a rest of no message"),
        (masked(BINARY, b"", final=False) + masked(BINARY, b""), 1002, "begins within another"),
        (masked(PING, bytes(126)), 1002, "more than 125 bytes"),
        (masked(PING, b"", final=False), 1002, "in pieces"),
        (masked(CLOSE, b"x"), 1002, "a close frame with the code 0"),
        (masked(CLOSE, struct.pack(">H", 1005)), 1002, "a close frame with the code 1005"),
        (masked(BINARY, b"GET / HTTP/1.1\r\n\r\n"), 1002, "HTTP"),
        (masked(BINARY, struct.pack(">IH", 1 << 20, 5)), 1009, "frame"),
    ],
    # Masks are made up: what a case is called is not.
    ids=lambda value: f"{len(value)}" if isinstance(value, bytes) else None,
)
def test_what_is_no_native_protocol_is_told_an_error_and_a_close_code_and_the_broker_lives(
    run: Any, sockets: Any, said: bytes, code: int, text: str
) -> None:
    async def main() -> None:
        async with sockets() as http:
            peer = await WsPeer.connect(ws(http))
            peer.raw.write(said)
            error = await peer.refusal()
            assert text in error.text
            assert peer.received.closed is not None
            assert peer.received.closed[0] == code
            await peer.close()
            await until(lambda: not http.broker.connections)
            assert await stored(http, b"one")

    run(main)


def test_messages_in_frames_that_are_too_large_together_are_refused(run: Any, sockets: Any) -> None:
    async def main() -> None:
        async with sockets() as http:
            sender = await stored(http)
            piece = masked(0, bytes(1 << 20), final=False, key=bytes(4))
            head = struct.pack(">IH", 16 << 20, 100)
            sender.raw.write(masked(BINARY, head, final=False))
            for _ in range(16):
                sender.raw.write(piece)
            # The frame that was begun is judged by its header: no message is.
            assert (await closed(sender))[0] in (1002, 1009)

    run(main)


@pytest.mark.parametrize(
    ("headers", "status", "text"),
    [
        ({"Upgrade": None}, 426, "speaks WebSocket alone"),
        ({"Connection": "close"}, 426, "speaks WebSocket alone"),
        ({"Sec_WebSocket_Version": "8"}, 426, "to be 13"),
        ({"Sec_WebSocket_Protocol": None}, 400, "penstock.1"),
        ({"Sec_WebSocket_Protocol": "penstock.2, chat"}, 400, "penstock.1"),
        ({"Sec_WebSocket_Key": None}, 400, "Sec-WebSocket-Key"),
        ({"Sec_WebSocket_Key": "AAAA"}, 400, "Sec-WebSocket-Key"),
        ({"Sec_WebSocket_Key": "no base64!"}, 400, "Sec-WebSocket-Key"),
        ({"Content_Length": "5"}, 400, "has no body"),
        ({"Transfer_Encoding": "chunked"}, 400, "has no body"),
        ({"Origin": "http://elsewhere.example"}, 403, "a page of"),
        ({"Origin": "null"}, 403, "a page of"),
        ({"Sec_Fetch_Site": "cross-site"}, 403, "another site"),
        ({"Host": "rebound.example"}, 421, "no name of this broker"),
    ],
)
def test_a_handshake_that_is_none_or_a_foreign_pages_opens_no_socket(
    run: Any, sockets: Any, headers: dict[str, str | None], status: int, text: str
) -> None:
    async def main() -> None:
        async with sockets() as http:
            reader, writer = await connected(ws(http))
            writer.write(handshake("{}:{}".format(*http.address), **headers))
            answer = (await reader.read()).decode()
            assert answer.startswith(f"HTTP/1.1 {status} "), answer
            assert text in answer

    run(main)


def test_a_page_of_the_brokers_own_opens_one_and_no_extension_is_agreed_upon(run: Any, sockets: Any) -> None:
    async def main() -> None:
        async with sockets() as http:
            origin = "http://{}:{}".format(*http.address)
            peer = await WsPeer.connect(
                ws(http),
                Origin=origin,
                Sec_Fetch_Site="same-origin",
                Sec_WebSocket_Protocol="chat, penstock.1",
                Sec_WebSocket_Extensions="permessage-deflate; client_max_window_bits",
            )
            assert "Sec-WebSocket-Protocol: penstock.1\r\n" in peer.head
            # Of RFC 6455's key of sixteen zeros.
            assert "Sec-WebSocket-Accept: ICX+Yqv66kxgM0FcWaLWlFLwTAI=\r\n" in peer.head
            assert "Extensions" not in peer.head
            await peer.hello("sender")

    run(main)


def test_bytes_that_come_before_the_answer_are_refused(run: Any, sockets: Any) -> None:
    async def main() -> None:
        async with sockets() as http:
            reader, writer = await connected(ws(http))
            writer.write(handshake("{}:{}".format(*http.address)) + masked(BINARY, b"too soon"))
            assert (await reader.readline()).startswith(b"HTTP/1.1 400 ")
            writer.transport.abort()

    run(main)


def test_it_takes_the_place_of_its_request_and_counts_once(run: Any, sockets: Any) -> None:
    async def main() -> None:
        async with sockets(max_connections=2) as http:
            first, second = await opened(http, "receiver"), await WsPeer.connect(ws(http))
            assert [each.role for each in http.broker.connections.values()] == ["receiver", None]
            with pytest.raises(AssertionError, match="503"):
                await WsPeer.connect(ws(http))
            await second.close()
            await until(lambda: len(http.broker.connections) == 1)
            assert http.broker._entrance.unopened.count == 0
            await opened(http, "receiver")
            await first.close()

    run(main)


def test_who_has_not_said_hello_counts_as_a_stranger_also_behind_a_request_that_was_answered(
    run: Any, sockets: Any
) -> None:
    async def main() -> None:
        async with sockets() as http:
            unopened = http.broker._entrance.unopened
            peer = await WsPeer.connect(ws(http))
            assert unopened.count == 1
            await peer.hello("sender")
            assert unopened.count == 0
            reader, writer = await connected(ws(http))
            host = "{}:{}".format(*http.address)
            writer.write(f"GET /api/v1/whoami HTTP/1.1\r\nHost: {host}\r\n\r\n".encode())
            head = await reader.readuntil(b"\r\n\r\n")
            size = int(head.lower().partition(b"content-length: ")[2].split(b"\r\n")[0])
            await reader.readexactly(size)
            assert unopened.count == 0
            writer.write(handshake(host))
            await reader.readuntil(b"\r\n\r\n")
            assert unopened.count == 1
            writer.transport.abort()
            await until(lambda: unopened.count == 0)

    run(main)


def test_who_says_no_hello_is_ended_in_time(run: Any, sockets: Any, jump: Any) -> None:
    async def main() -> None:
        async with sockets() as http:
            peer = await WsPeer.connect(ws(http))
            jump(6.0)
            assert (await peer.refusal()).code == "timeout"
            assert peer.received.closed == (1008, b"timeout")

    run(main)


def test_a_client_that_leaves_gives_back_what_it_held_whether_it_says_so_or_not(run: Any, sockets: Any) -> None:
    async def main() -> None:
        async with sockets() as http:
            # By itself it takes nothing back in the time of a test.
            await http.ask("POST", "/api/v1/queues", {"name": "orders", "visibility_timeout_ms": 3_600_000})
            await stored(http, b"one")
            for leave in ("close", "end", "abort"):
                receiver = await opened(http, "receiver")
                receiver.send(Request(1, 1000))
                await receiver.expect(Deliver)
                if leave == "close":
                    receiver.raw.write(masked(CLOSE, struct.pack(">H", 1001)))
                    assert await closed(receiver) == (1001, b"")
                elif leave == "end":
                    receiver.raw.close()
                else:
                    receiver.abort()
                await until(lambda: _ready(http, 1))

    run(main)


async def _ready(http: Any, count: int) -> bool:
    return bool((await http.queue())["ready"] == count)


def test_what_was_said_before_a_close_frame_is_handled_before_it_counts(run: Any, sockets: Any) -> None:
    async def main() -> None:
        async with sockets() as http:
            sender = await stored(http)
            sends = [Send(number, None, batch(*[b"x"] * 10)) for number in range(0, 1000, 10)]
            sender.send_bytes(b"".join(bytes(part) for each in sends for part in encode(each)))
            sender.raw.write(masked(CLOSE, b""))
            await sender.rest()
            assert sender.received.closed == (1005, b"")
            assert (await http.queue())["ready"] == 1000

    run(main)


def test_a_broker_that_drains_confirms_what_was_sent_and_says_why_it_ends(run: Any, sockets: Any) -> None:
    async def main() -> None:
        async with sockets() as http:
            sender, receiver = await stored(http, b"one"), await opened(http, "receiver")
            receiver.send(Request(1, 1000))
            await receiver.expect(Deliver)
            sender.send(Send(1, None, batch(b"two")))
            receiver.send(Ack([(0, 1)]))
            draining = asyncio.create_task(http.broker.drain(10))
            frames = await sender.rest()
            assert [each for each in frames if isinstance(each, Sent)][-1].up_to == 2
            assert isinstance(frames[-1], Error)
            assert (frames[-1].code, sender.received.closed) == ("shutting-down", (1001, b"shutting-down"))
            assert (await receiver.refusal()).code == "shutting-down"
            await sender.close()
            await receiver.close()
            await draining

    run(main)


def test_the_heartbeat_is_kept_and_pings_of_websocket_say_nothing_of_a_client(run: Any, sockets: Any) -> None:
    async def main() -> None:
        async with sockets(heartbeat=0.1) as http:
            peer, other = await opened(http, "receiver"), await opened(http, "sender")
            await other.expect(Demand)
            talking = asyncio.create_task(other.rest())  # it answers each PING, and so is not silent
            peer.answers_pings = False
            peer.raw.write(masked(PING, b""))
            assert (await peer.refusal()).code == "timeout"
            assert not talking.done()
            talking.cancel()

    run(main)


def test_a_client_of_aiohttp_speaks_it(run: Any, sockets: Any) -> None:
    async def main() -> None:
        async with sockets() as http, http.session.ws_connect("/ws", protocols=["penstock.1"], compress=15) as socket:
            assert not socket.compress
            await socket.send_bytes(b"".join(bytes(p) for p in encode(Hello(VERSION, "sender", "orders", "me", {}))))
            assert (await socket.receive_bytes())[:4]
            await socket.ping(b"x")
            await socket.close()
            assert socket.close_code == 1000
            async with http.session.ws_connect("/ws", protocols=["penstock.1"]) as other:
                await other.send_str("text")
                assert b"protocol-error" in await other.receive_bytes()
                assert (await other.receive()).type is aiohttp.WSMsgType.CLOSE
                assert other.close_code == 1003

    run(main)


def test_a_handshake_that_is_broken_off_leaves_nothing(run: Any, sockets: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connections, "HEAD_SECONDS", 0.05)

    async def main() -> None:
        async with sockets() as http:
            said = handshake("{}:{}".format(*http.address))
            for cut in range(0, len(said) + 1, 16):
                _, writer = await connected(ws(http))
                writer.write(said[:cut])
                await writer.drain()
                writer.transport.abort()
            await until(lambda: not http.broker.connections and http.broker._entrance.unopened.count == 0)
            await until(lambda: not http.listener._connections)
            assert http.listener._server.connections == []

    run(main)


def test_nothing_of_http_is_left_of_one_that_speaks_websocket(run: Any, sockets: Any) -> None:
    async def main() -> None:
        async with sockets() as http:
            peers = [await opened(http, "receiver") for _ in range(20)]
            await until(lambda: not http.listener._connections)
            assert http.listener._server.connections == []
            for peer in peers:
                await peer.close()
            await until(lambda: not http.broker.connections)

    run(main)
