"""`Administration` that finds no broker, a wrong one, or one that ends; and its own end."""

from __future__ import annotations

import asyncio
import math
import re
from contextlib import suppress
from typing import Any

import pytest

from tests.free_ports import free_ports
from tests.transport.scripted_admin import DEADLINE, WELCOME, ScriptedBroker, listening, run, with_json
from tests.transport.scripted_peers import unused_address
from transport.clients.administration import Administration
from transport.errors import (
    BrokerError,
    ConnectionLostError,
    InvalidNameError,
    LocalProtocolError,
    RemoteProtocolError,
)
from transport.wire.address import parse_address
from transport.wire.codec import encode
from transport.wire.messages import Error, Frame, Hello, Result


async def free_port() -> int:
    server = await asyncio.start_server(lambda reader, writer: None, "127.0.0.1", 0)
    port: int = server.sockets[0].getsockname()[1]
    server.close()
    await server.wait_closed()
    return port


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


def test_a_listener_that_never_answers_hello_is_given_up_in_time(jump: Any, until: Any) -> None:
    async def main() -> None:
        async with listening(ScriptedBroker(with_json([]), [[]])) as broker:
            administration = Administration(broker.address, connect_timeout=DEADLINE / 2)
            connecting = asyncio.ensure_future(administration.__aenter__())
            await until(lambda: len(broker.heard) == 1)
            jump(DEADLINE / 2)
            with pytest.raises(ConnectionLostError, match="no answer"):
                await connecting
            await broker.closed.wait()

    run(main)


@pytest.mark.parametrize(
    ("code", "text"), [("not-leader", "its leader is not known yet"), ("shutting-down", "come back later")]
)
def test_what_an_attempt_came_to_is_told_also_where_the_time_ends_under_a_later_one(
    jump: Any, until: Any, code: str, text: str
) -> None:
    async def main() -> None:
        async with listening(ScriptedBroker(with_json([]), [[Error(code, text, close=True)], []])) as broker:
            administration = Administration(broker.address, connect_timeout=DEADLINE / 2)
            connecting = asyncio.ensure_future(administration.__aenter__())
            await until(lambda: len(broker.heard) == 2)
            jump(DEADLINE / 2)
            with pytest.raises(BrokerError, match=f"{code}: {text}"):
                await connecting

    run(main)


def test_one_that_does_not_answer_is_not_said_to_refuse_as_another_did(jump: Any, until: Any) -> None:
    async def main() -> None:
        async with listening(ScriptedBroker(with_json([]), [[]])) as broker:
            (refuses,) = free_ports(1)
            administration = Administration([f"127.0.0.1:{refuses}", broker.address], connect_timeout=DEADLINE / 2)
            connecting = asyncio.ensure_future(administration.__aenter__())
            await until(lambda: len(broker.heard) == 1)
            jump(DEADLINE / 2)
            with pytest.raises(ConnectionLostError, match=rf"at {re.escape(broker.address)} within .*: no answer"):
                await connecting

    run(main)


def test_one_that_was_not_there_and_now_does_not_answer_is_not_said_to_refuse(jump: Any, until: Any) -> None:
    async def main() -> None:
        (port,) = free_ports(1)
        administration = Administration(f"127.0.0.1:{port}", connect_timeout=DEADLINE / 2)
        connecting = asyncio.ensure_future(administration.__aenter__())
        await until(lambda: administration._link is not None and administration._link.error is not None)
        async with listening(ScriptedBroker(with_json([]), [[]]), port) as broker:
            await until(lambda: len(broker.heard) == 1)
            jump(DEADLINE / 2)
            with pytest.raises(ConnectionLostError, match="no answer"):
                await connecting

    run(main)


def test_a_port_that_refuses_is_said_to_also_where_the_time_ends_under_the_next_attempt(
    jump: Any, until: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def main() -> None:
        (port,) = free_ports(1)
        administration = Administration(f"127.0.0.1:{port}", connect_timeout=DEADLINE / 2)
        connecting = asyncio.ensure_future(administration.__aenter__())
        loop, hangs = asyncio.get_running_loop(), asyncio.Event()
        await until(lambda: administration._link is not None and administration._link.error is not None)

        async def hang(*_: Any, **__: Any) -> Any:
            hangs.set()
            await asyncio.Event().wait()

        monkeypatch.setattr(loop, "create_connection", hang)
        await hangs.wait()
        jump(DEADLINE / 2)
        with pytest.raises(ConnectionLostError, match="onnection refused"):
            await connecting

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
            administration._addresses = (parse_address(broker.address),)
            administration._connect_timeout = 10.0
            async with administration:
                assert await administration.queues() == []

    run(main)


@pytest.mark.parametrize("seconds", [-2, math.nan, math.inf, "5"])
def test_a_time_that_cannot_be_is_refused_before_the_broker_hears_of_it(seconds: Any) -> None:
    administration = Administration("127.0.0.1:1")
    with pytest.raises(ValueError, match=rf"^ttl is {seconds!r}, not a number of seconds"):
        asyncio.run(administration.create_queue("orders", ttl=seconds))


@pytest.mark.parametrize("answer", [b"HTTP/1.1 400 Bad Request\r\n\r\n", b"x" * 64], ids=["HTTP", "noise"])
def test_who_is_no_broker_is_known_by_the_answer_however_long_the_socket_stays_open(
    answer: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("transport.shell.connection.LINGER", 2 * DEADLINE)

    async def main() -> None:
        kept: list[asyncio.StreamWriter] = []

        def answers(_reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            kept.append(writer)
            writer.write(answer)

        server = await asyncio.start_server(answers, "127.0.0.1", 0)
        port = server.sockets[0].getsockname()[1]
        with pytest.raises(RemoteProtocolError):
            async with Administration(f"127.0.0.1:{port}", connect_timeout=2 * DEADLINE):
                pass
        for writer in kept:
            writer.transport.abort()
        server.close()

    run(main)


def test_a_command_before_the_connection_is_made_is_refused_and_the_connection_is_made_all_the_same() -> None:
    async def main() -> None:
        async with listening(ScriptedBroker(with_json([]))) as broker:
            administration = Administration(broker.address)
            connecting = asyncio.ensure_future(administration.__aenter__())
            await asyncio.sleep(0)
            with pytest.raises(ConnectionLostError, match="connect first"):
                await administration.queues()
            assert await connecting is administration
            assert await administration.queues() == []
            await administration.close()

    run(main)


def test_what_kept_it_from_connecting_is_the_errors_cause() -> None:
    async def main() -> None:
        with pytest.raises(ConnectionLostError) as caught:
            async with Administration(f"127.0.0.1:{await free_port()}", connect_timeout=0.1):
                pass
        assert isinstance(caught.value.__cause__, ConnectionRefusedError)

    run(main)
