"""`Administration` against a scripted broker: real sockets, the answers written out."""

from __future__ import annotations

import asyncio
import itertools
import json
import math
import socket
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager, suppress
from typing import Any

import pytest

from tests.decoding import FrameDecoder
from tests.transport.scripted_peers import unused_address
from transport.clients import administration
from transport.clients.administration import Administration
from transport.errors import (
    BrokerError,
    ConnectionLostError,
    InvalidNameError,
    LocalProtocolError,
    PeerTimeoutError,
    RemoteProtocolError,
)
from transport.wire.address import parse_address
from transport.wire.codec import decode, encode
from transport.wire.messages import VERSION, Command, Error, Frame, Hello, Ping, Pong, Result, Welcome

DEADLINE = 10.0
WELCOME = Welcome(VERSION, 7, {"max_frame": 1 << 24, "heartbeat_ms": 5000})
Answer = Callable[[Command], list[Frame]]


class ScriptedBroker:
    """Greets as told, answers commands as told, and records what it hears."""

    def __init__(self, answer: Answer, greetings: list[list[Frame]] | None = None) -> None:
        self.answer = answer
        self.greetings: list[list[Frame]] = greetings or [[WELCOME]]
        self.heard: list[Frame] = []
        self.pong = asyncio.Event()
        self.address = ""
        self.closed = asyncio.Event()
        self.serving: set[asyncio.Task[None] | None] = set()

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        decoder = FrameDecoder()
        self.serving.add(asyncio.current_task())
        try:
            # A client that has unread answers resets the connection when it closes.
            with suppress(ConnectionResetError):
                while data := await reader.read(65536):
                    for raw in decoder.receive_data(data):
                        await self.hear(decode(raw), writer)
        finally:
            self.closed.set()
            writer.close()

    async def hear(self, frame: Frame, writer: asyncio.StreamWriter) -> None:
        self.heard.append(frame)
        replies: list[Frame] = []
        if isinstance(frame, Hello):
            # The last greeting is for everybody who comes after.
            replies = list(self.greetings.pop(0) if len(self.greetings) > 1 else self.greetings[0])
        elif isinstance(frame, Command):
            replies = self.answer(frame)
        elif isinstance(frame, Pong):
            self.pong.set()
        for reply in replies:
            writer.writelines(encode(reply))
            if isinstance(reply, Error) and reply.close:
                writer.close()

    @property
    def commands(self) -> list[tuple[str, dict[str, Any]]]:
        return [(frame.name, frame.arguments) for frame in self.heard if isinstance(frame, Command)]


@asynccontextmanager
async def listening(broker: ScriptedBroker) -> AsyncIterator[ScriptedBroker]:
    server = await asyncio.start_server(broker.serve, "127.0.0.1", 0)
    broker.address = f"127.0.0.1:{server.sockets[0].getsockname()[1]}"
    async with server:
        yield broker
        # The clients have closed: the loop must not end before everybody has seen it.
        await asyncio.gather(*filter(None, broker.serving))


def run(main: Callable[[], Coroutine[Any, Any, None]]) -> None:
    async def bounded() -> None:
        async with asyncio.timeout(DEADLINE):
            await main()

    asyncio.run(bounded())


def with_json(value: object) -> Answer:
    return lambda command: [Result(command.request, json.dumps(value).encode())]


def refusing(code: str, text: str) -> Answer:
    return lambda command: [Error(code, text, close=False)]


async def free_port() -> int:
    server = await asyncio.start_server(lambda reader, writer: None, "127.0.0.1", 0)
    port: int = server.sockets[0].getsockname()[1]
    server.close()
    await server.wait_closed()
    return port


def test_it_says_hello_as_an_admin_of_no_queue_and_knows_the_epoch() -> None:
    async def main() -> None:
        async with listening(ScriptedBroker(with_json([]))) as broker, Administration(broker.address) as administration:
            assert administration.epoch == 7
            assert await administration.queues() == []
            assert broker.heard[0] == Hello(VERSION, "admin", None, None, {})

    run(main)


def test_each_method_sends_its_command_with_arguments_in_the_units_of_the_protocol() -> None:
    def answer(command: Command) -> list[Frame]:
        values: dict[str, object] = {
            "queue.purge": {"purged": 3},
            "stats": {"queues": []},
            "subscription.list": [],
            "subscription.release": {"released": 2},
            "subscription.delete": {"released": 3},
            "transaction.list": [{"writer": "w", "version": 4}],
            "transaction.abort": {"discarded": 6},
        }
        return [Result(command.request, json.dumps(values.get(command.name)).encode())]

    async def main() -> None:
        async with listening(ScriptedBroker(answer)) as broker, Administration(broker.address) as administration:
            await administration.create_queue("orders")
            await administration.create_queue("orders", max_messages=5, max_bytes=6, visibility_timeout=1.5)
            await administration.create_queue(
                "orders",
                overflow="reject",
                max_receives=0,
                dead_letter_queue="dead",
                delay=0.0001,
                ttl=0,
                exclusive=False,
                max_staged_messages=7,
                max_staged_bytes=8,
            )
            await administration.delete_queue("orders")
            assert await administration.purge_queue("orders") == 3
            assert await administration.statistics() == {"queues": []}
            assert await administration.subscriptions() == []
            assert await administration.release_subscription("orders", "query") == 2
            assert await administration.delete_subscription("orders", "query") == 3
            assert await administration.transactions() == [{"writer": "w", "version": 4}]
            assert await administration.abort_transaction("w", 4) == 6
            assert broker.commands == [
                ("queue.create", {"name": "orders"}),
                ("queue.create", {"name": "orders", "max_messages": 5, "max_bytes": 6, "visibility_timeout_ms": 1500}),
                (
                    "queue.create",
                    {
                        "name": "orders",
                        "overflow": "reject",
                        "max_receives": 0,
                        "dead_letter_queue": "dead",
                        # Not 0, which would be another thing to say.
                        "delay_ms": 1,
                        "ttl_ms": 0,
                        "exclusive": False,
                        "max_staged_messages": 7,
                        "max_staged_bytes": 8,
                    },
                ),
                ("queue.delete", {"name": "orders"}),
                ("queue.purge", {"name": "orders"}),
                ("stats", {"lists": False}),
                ("subscription.list", {"limit": 500}),
                ("subscription.release", {"queue": "orders", "name": "query"}),
                ("subscription.delete", {"queue": "orders", "name": "query"}),
                ("transaction.list", {"limit": 500}),
                ("transaction.abort", {"writer": "w", "version": 4}),
            ]

    run(main)


def test_a_refusal_is_readable_and_the_connection_goes_on() -> None:
    async def main() -> None:
        broker = ScriptedBroker(refusing("not-found", "there is no queue 'orders'"))
        async with listening(broker), Administration(broker.address) as administration:
            with pytest.raises(BrokerError, match="not-found: there is no queue 'orders'") as refused:
                await administration.delete_queue("orders")
            assert refused.value.code == "not-found"
            broker.answer = with_json([{"name": "a", "ready": 1}])
            assert await administration.queues() == [{"name": "a", "ready": 1}]

    run(main)


def test_commands_of_several_tasks_each_get_their_own_answer() -> None:
    def answer(command: Command) -> list[Frame]:
        return [Result(command.request, json.dumps({"purged": len(command.arguments["name"])}).encode())]

    async def main() -> None:
        async with listening(ScriptedBroker(answer)) as broker, Administration(broker.address) as administration:
            names = ["a" * size for size in range(1, 20)]
            assert await asyncio.gather(*map(administration.purge_queue, names)) == list(range(1, 20))

    run(main)


def test_an_idle_client_answers_ping() -> None:
    async def main() -> None:
        broker = ScriptedBroker(with_json([]), [[WELCOME, Ping(42)]])
        async with listening(broker), Administration(broker.address):
            await broker.pong.wait()
            assert Pong(42) in broker.heard

    run(main)


def test_an_answer_larger_than_a_handshake_frame_arrives_whole() -> None:
    queues = [{"name": f"queue-{number}", "ready": number} for number in range(20_000)]

    async def main() -> None:
        async with (
            listening(ScriptedBroker(with_json(queues))) as broker,
            Administration(broker.address) as administration,
        ):
            assert await administration.queues() == queues

    run(main)


def test_a_command_that_is_not_answered_in_time_says_so_and_ends_the_connection() -> None:
    async def main() -> None:
        broker = ScriptedBroker(lambda command: [])
        async with listening(broker), Administration(broker.address, timeout=0.02) as administration:
            with pytest.raises(PeerTimeoutError, match=r"did not answer stats within 0\.02 s"):
                await administration.statistics()
            await broker.closed.wait()
            with pytest.raises(ConnectionLostError, match="not connected"):
                await administration.statistics()

    run(main)


def test_a_cancelled_command_does_not_leave_its_answer_to_the_next() -> None:
    async def main() -> None:
        asked = asyncio.Event()

        def answer(command: Command) -> list[Frame]:
            asked.set()
            return []

        async with listening(ScriptedBroker(answer)) as broker, Administration(broker.address) as administration:
            task = asyncio.create_task(administration.queues())
            await asked.wait()
            task.cancel()
            await asyncio.wait({task})
            assert task.cancelled()
            with pytest.raises(ConnectionLostError, match=r"queue\.list was cancelled"):
                await administration.queues()

    run(main)


def pages(*following: str | None) -> Answer:
    """Pages of two rows, and what each gives as next, again and again."""
    turn = itertools.cycle(following)
    return lambda command: [
        Result(command.request, json.dumps({"rows": [{"name": "x"}] * 2, "next": next(turn)}).encode())
    ]


@pytest.mark.parametrize("following", [["a"], ["a", "b"], ["c", "b", "a"]])
def test_pages_that_lead_back_are_an_error_and_no_endless_list(following: list[str]) -> None:
    async def main() -> None:
        async with listening(ScriptedBroker(pages(*following))) as broker, Administration(broker.address) as client:
            with pytest.raises(RemoteProtocolError, match=r"list of queues has no end"):
                await client.queues()
            assert len(broker.commands) == len(following) + 1

    run(main)


def test_a_page_without_a_row_is_the_last_or_an_error() -> None:
    async def main() -> None:
        empty = ScriptedBroker(with_json({"rows": [], "next": "more"}))
        async with listening(empty) as broker, Administration(broker.address) as client:
            with pytest.raises(RemoteProtocolError, match=r"list of queues has no end"):
                await client.queues()

    run(main)


def test_pages_that_go_on_and_on_end_by_their_bytes_or_by_their_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(administration, "MAX_LIST_BYTES", 2000)

    async def main() -> None:
        def endless() -> ScriptedBroker:
            return ScriptedBroker(pages(*map(str, range(10_000))))

        async with listening(endless()) as broker, Administration(broker.address) as client:
            with pytest.raises(RemoteProtocolError, match=r"list of queues exceeds 2000 bytes"):
                await client.queues()
            assert 10 < len(broker.commands) < 100
        monkeypatch.setattr(administration, "MAX_LIST_BYTES", 2**40)
        async with listening(endless()) as broker, Administration(broker.address, timeout=0.02) as client:
            with pytest.raises(PeerTimeoutError):
                await client.queues()

    run(main)


def test_a_broker_that_pings_and_reads_nothing_is_given_up_while_the_client_is_idle(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    # The limit for real takes some million answers.
    monkeypatch.setattr("transport.shell.connection.MAX_UNSENT_BYTES", 100_000)

    async def main() -> None:
        over = asyncio.Event()

        async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            await reader.read(65536)
            writer.writelines(encode(WELCOME))
            some = b"".join(map(bytes, encode(Ping(2**63 - 1)))) * 1000
            try:
                while True:
                    writer.write(some)
                    await writer.drain()
            except OSError:
                over.set()
            finally:
                writer.close()

        listener = socket.socket()
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        listener.bind(("127.0.0.1", 0))
        server = await asyncio.start_server(serve, sock=listener, limit=1024)
        address = f"127.0.0.1:{listener.getsockname()[1]}"
        async with server, Administration(address) as client:
            assert client._link is not None
            assert client._link._connection is not None
            assert client._link._connection._transport is not None
            # Little fits the kernel's buffers: what they take by themselves is 200,000 answers.
            client._link._connection._transport.get_extra_info("socket").setsockopt(
                socket.SOL_SOCKET, socket.SO_SNDBUF, 4096
            )
            await over.wait()
            with pytest.raises(ConnectionLostError, match="wait for a peer that does not read; the limit is 100000"):
                await client.queues()

    run(main)


def test_a_broker_that_closes_under_a_command_is_an_error_not_a_wait() -> None:
    async def main() -> None:
        broker = ScriptedBroker(lambda command: [Error("shutting-down", "the broker stops", close=True)])
        async with listening(broker), Administration(broker.address) as administration:
            with pytest.raises(BrokerError, match="shutting-down: the broker stops"):
                await administration.queues()

    run(main)


def test_no_broker_within_the_time_allowed_is_one_error_that_names_the_address() -> None:
    async def main() -> None:
        port = await free_port()
        with pytest.raises(
            ConnectionLostError, match=rf"no connection to the broker at 127\.0\.0\.1:{port} within 0\.1 s"
        ):
            async with Administration(f"127.0.0.1:{port}", connect_timeout=0.1):
                pass

    run(main)


def test_a_listener_that_never_answers_hello_is_given_up_in_time() -> None:
    async def main() -> None:
        async with listening(ScriptedBroker(with_json([]), [[]])) as broker:
            with pytest.raises(ConnectionLostError, match="no answer"):
                # The connection itself has to be there by then, on a busy machine too.
                async with Administration(broker.address, connect_timeout=0.4):
                    pass
            await broker.closed.wait()

    run(main)


def test_a_transient_refusal_is_tried_again_until_it_is_welcome() -> None:
    async def main() -> None:
        stopping: list[Frame] = [Error("shutting-down", "come back later", close=True)]
        async with listening(ScriptedBroker(with_json([]), [stopping, stopping, [WELCOME]])) as broker:
            async with Administration(broker.address) as administration:
                assert await administration.queues() == []
            assert sum(isinstance(frame, Hello) for frame in broker.heard) == 3

    run(main)


def test_the_wrong_port_is_refused_at_once() -> None:
    async def main() -> None:
        refusal: list[Frame] = [Error("unknown-role", "role 'admin' is not served on this address", close=True)]
        async with listening(ScriptedBroker(with_json([]), [refusal])) as broker:
            with pytest.raises(BrokerError, match="unknown-role"):
                async with Administration(broker.address):
                    pass
            assert len(broker.heard) == 1

    run(main)


def test_a_peer_that_speaks_something_else_is_reported_not_retried() -> None:
    connections = 0

    async def speak_http(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal connections
        connections += 1
        writer.write(b"HTTP/1.1 400 Bad Request\r\n\r\n")
        writer.close()

    async def main() -> None:
        server = await asyncio.start_server(speak_http, "127.0.0.1", 0)
        async with server:
            port = server.sockets[0].getsockname()[1]
            with pytest.raises(RemoteProtocolError, match="an HTTP server's answer: the address is not a broker's"):
                async with Administration(f"127.0.0.1:{port}"):
                    pass
        assert connections == 1

    run(main)


@pytest.mark.parametrize("body", [b"{not json", b'{"an": "object"}', b"[1, 2]"])
def test_an_answer_of_another_shape_is_the_brokers_fault_and_named(body: bytes) -> None:
    async def main() -> None:
        broker = ScriptedBroker(lambda command: [Result(command.request, body)])
        async with listening(broker), Administration(broker.address) as administration:
            with pytest.raises(RemoteProtocolError, match=r"queue\.list|queues"):
                await administration.queues()

    run(main)


def test_an_answer_to_another_request_ends_the_connection() -> None:
    async def main() -> None:
        broker = ScriptedBroker(lambda command: [Result(command.request + 1, b"[]")])
        async with listening(broker), Administration(broker.address) as administration:
            with pytest.raises(RemoteProtocolError, match="RESULT for request 2; 1 was asked"):
                await administration.queues()

    run(main)


def test_names_and_addresses_are_judged_before_anything_is_sent() -> None:
    async def main() -> None:
        with pytest.raises(LocalProtocolError, match="host:port"):
            Administration("nowhere")
        async with (
            listening(ScriptedBroker(with_json(None))) as broker,
            Administration(broker.address) as administration,
        ):
            with pytest.raises(InvalidNameError):
                await administration.create_queue("two words")
            with pytest.raises(InvalidNameError):
                await administration.create_queue("orders", ttl=1.0, dead_letter_queue="two words")
            with pytest.raises(InvalidNameError):
                await administration.release_subscription("orders", "")
            assert broker.commands == []

    run(main)


def test_a_closed_client_refuses_and_cannot_be_entered_again() -> None:
    async def main() -> None:
        async with listening(ScriptedBroker(with_json([]))) as broker:
            administration = Administration(broker.address)
            with pytest.raises(ConnectionLostError, match="connect first"):
                await administration.queues()
            async with administration:
                assert await administration.queues() == []
            await administration.close()
            with pytest.raises(ConnectionLostError, match="was closed"):
                await administration.queues()
            with pytest.raises(ConnectionLostError, match="connects once"):
                async with administration:
                    pass

    run(main)


def test_why_a_connection_ends_is_told_at_once_by_a_broker_that_keeps_its_socket(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    # How long the shell waits for such a peer; the command is not to wait for it.
    monkeypatch.setattr("transport.shell.connection.LINGER", 10 * DEADLINE)

    async def main() -> None:
        async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            writer.writelines(encode(WELCOME))
            with suppress(ConnectionResetError):
                while b"queue.list" not in (heard := await reader.read(65536)):
                    assert heard
                writer.writelines(encode(Error("shutting-down", "bye", close=True)))
                while await reader.read(65536):
                    pass
            writer.close()
            over.set()

        over = asyncio.Event()
        async with await asyncio.start_server(serve, "127.0.0.1", 0) as server:
            address = f"127.0.0.1:{server.sockets[0].getsockname()[1]}"
            async with Administration(address, timeout=10 * DEADLINE) as administration:
                with pytest.raises(BrokerError, match="shutting-down"):
                    await administration.queues()
            await over.wait()

    run(main)


def test_closing_ends_the_attempts_to_connect_and_is_remembered() -> None:
    async def main() -> None:
        tried, over = asyncio.Event(), asyncio.Event()

        async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            await reader.read(65536)
            tried.set()
            with suppress(ConnectionResetError):
                await reader.read()
            writer.close()
            over.set()

        async with await asyncio.start_server(serve, "127.0.0.1", 0) as server:
            administration = Administration(f"127.0.0.1:{server.sockets[0].getsockname()[1]}", connect_timeout=DEADLINE)
            connecting = asyncio.create_task(administration.__aenter__())
            await tried.wait()
            await administration.close()
            with pytest.raises(ConnectionLostError, match="was closed"):
                await connecting
            with pytest.raises(ConnectionLostError, match="was closed"):
                await administration.queues()
            await over.wait()

    run(main)


def test_a_close_that_is_cancelled_does_not_cancel_another() -> None:
    async def main() -> None:
        async with listening(ScriptedBroker(with_json([]))) as broker:
            administration = Administration(broker.address)
            await administration.__aenter__()
            first, second = (asyncio.create_task(administration.close()) for _ in range(2))
            await asyncio.sleep(0)
            first.cancel()
            await second
            with pytest.raises(asyncio.CancelledError):
                await first

    run(main)


def test_a_client_that_found_no_broker_may_try_again() -> None:
    async def main() -> None:
        async with listening(ScriptedBroker(with_json([]))) as broker:
            administration = Administration(unused_address(), connect_timeout=0.01)
            with pytest.raises(ConnectionLostError, match=r"no connection to the broker at .* within 0\.01 s"):
                await administration.__aenter__()
            administration.address = parse_address(broker.address)
            administration._connect_timeout = 10.0
            async with administration:
                assert await administration.queues() == []

    run(main)


@pytest.mark.parametrize("seconds", [-1, math.nan, math.inf, "5"])
def test_a_time_that_cannot_be_is_refused_before_the_broker_hears_of_it(seconds: Any) -> None:
    administration = Administration("127.0.0.1:1")
    with pytest.raises(ValueError, match=rf"^ttl is {seconds!r}, not a number of seconds"):
        asyncio.run(administration.create_queue("orders", ttl=seconds))
