"""`Administration` against a scripted broker: commands and answers over real sockets, the answers written out."""

from __future__ import annotations

import asyncio
import itertools
import json
import socket

import pytest

from tests.transport.scripted_admin import WELCOME, Answer, ScriptedBroker, listening, run, with_json
from transport.clients import administration
from transport.clients.administration import Administration
from transport.errors import (
    BrokerError,
    ConnectionLostError,
    PeerTimeoutError,
    RemoteProtocolError,
)
from transport.wire.codec import encode
from transport.wire.messages import VERSION, Command, Error, Frame, Hello, Ping, Pong, Result


def refusing(code: str, text: str) -> Answer:
    return lambda command: [Error(code, text, close=False)]


def test_it_says_hello_as_an_admin_of_no_queue_and_knows_the_epoch() -> None:
    async def main() -> None:
        async with listening(ScriptedBroker(with_json([]))) as broker, Administration(broker.address) as administration:
            assert administration.epoch == 7
            assert await administration.queues() == []
            assert broker.heard[0] == Hello(VERSION, "admin", None, None, {"sign_ms": 2500})

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
            await administration.alter_queue("orders", 5, delay=1.5, ttl=0, max_receives=0, dead_letter_queue="")
            await administration.delete_queue("orders")
            assert await administration.purge_queue("orders") == 3
            assert await administration.statistics() == {"queues": []}
            assert await administration.subscriptions() == []
            assert await administration.release_subscription("orders", "query") == 2
            assert await administration.release_subscription("orders", "query", force=True) == 2
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
                (
                    "queue.alter",
                    {
                        "name": "orders",
                        "max_messages": 5,
                        "max_receives": 0,
                        "dead_letter_queue": "",
                        "delay_ms": 1500,
                        "ttl_ms": 0,
                    },
                ),
                ("queue.delete", {"name": "orders"}),
                ("queue.purge", {"name": "orders"}),
                ("stats", {"lists": False}),
                ("subscription.list", {"limit": 500}),
                # A broker of before knows no force.
                ("subscription.release", {"queue": "orders", "name": "query"}),
                ("subscription.release", {"queue": "orders", "name": "query", "force": True}),
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
