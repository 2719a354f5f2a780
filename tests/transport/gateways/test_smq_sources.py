"""The port of sources, as an independent client sees it."""

from __future__ import annotations

import asyncio
import logging
import socket
from collections.abc import Callable
from typing import Any

import pytest

from actors.queue.queue_actor import QueueActor
from streams import Sink as StreamSink
from streams import Source as Stream
from tests.transport.conftest import until
from tests.transport.gateways.conftest import Serve
from tests.transport.gateways.smq_client import EndedError, Sink, Source
from transport import Administration, Broker, BrokerConfig, Receiver, Sender
from transport.errors import LocalProtocolError
from transport.gateways.listeners import configured_listeners
from transport.gateways.smq.protocol import MAX_PAYLOAD_BYTES
from transport.shell.prompt_connection import PromptConnection
from transport.wire.liveness import SILENT_INTERVALS

pytestmark = pytest.mark.event_loop
OWN = bytes.fromhex("ab0a") + bytes(range(14))
PAYLOADS = [b"", b"a", b"\x00" * 100, b"Y" * 8187, b"M" * 8188, b"R" * 65536, b"E" * 300_000]


async def sources(broker: Broker, count: int = 1) -> list[Source]:
    return [await Source.connect(broker.addresses("smq-source")[0]) for _ in range(count)]


async def sink(broker: Broker) -> Sink:
    return await Sink.connect(broker.addresses("smq-sink")[0])


async def queue_row(broker: Broker, name: str = "smq") -> dict[str, Any]:
    async with Administration(broker.send_address) as admin:
        return next(row for row in await admin.queues() if row["name"] == name)


def test_each_message_is_confirmed_by_a_byte_and_comes_out_as_it_went_in(run: Any, smq: Serve) -> None:
    async def main() -> None:
        async with smq() as broker:
            (source,) = await sources(broker)
            for number, payload in enumerate(PAYLOADS):
                await source.send(payload, OWN if number % 2 else None)
            taker = await sink(broker)
            ids = []
            for number, payload in enumerate(PAYLOADS):
                kind, given_id, delivered = await taker.receive()
                assert (kind, delivered) == (b"M", payload)
                if number % 2:
                    assert given_id == OWN
                else:
                    ids.append(given_id)
            assert len(set(ids)) == len(ids)
            assert ids == sorted(ids)
            await source.close()
            await taker.close()

    run(main)


def test_pipelined_messages_are_confirmed_in_order_and_stored_together(run: Any, smq: Serve) -> None:
    async def main() -> None:
        async with smq() as broker:
            (source,) = await sources(broker)
            for number in range(1000):
                source.say(b"%d" % number, OWN if number % 300 == 7 else None)
            await source.accepted(1000)
            row = await queue_row(broker)
            assert row["ready"] == 1000
            taker = await sink(broker)
            taker.yes(1000)
            assert [(await taker.delivered()).payload for _ in range(1000)] == [
                b"%d" % number for number in range(1000)
            ]
            await source.close()
            await taker.close()

    run(main)


def test_what_comes_together_is_one_batch_for_the_queue(run: Any, smq: Serve, monkeypatch: pytest.MonkeyPatch) -> None:
    batches: list[int] = []
    on_receive = QueueActor.on_receive

    def note(self: QueueActor, message: Any) -> None:
        if type(message).__name__ == "OfferBatch":
            batches.append(len(message.batch))
        on_receive(self, message)

    monkeypatch.setattr(QueueActor, "on_receive", note)

    async def main() -> None:
        async with smq() as broker:
            (source,) = await sources(broker)
            await source.send(b"first")
            source.write(b"M\0\0\0\1a" * 200)
            await source.accepted(200)
            await source.close()
        assert batches == [1, 200]

    run(main)


def test_the_last_word_ends_the_connection_once_all_is_confirmed_and_what_follows_is_ignored(
    run: Any, smq: Serve
) -> None:
    async def main() -> None:
        async with smq() as broker:
            (source,) = await sources(broker)
            source.write(b"M\0\0\0\1a" + b"M\0\0\0\1b" + b"E" + b"M\0\0\0\1c")
            await source.accepted(2)
            assert await source.rest() == b""
            assert (await queue_row(broker))["ready"] == 2
            quiet = await sources(broker, 2)
            quiet[0].end()
            assert await quiet[0].rest() == b""
            for each in (source, *quiet):
                await each.close()
            await until(lambda: not broker.connections)

    run(main)


@pytest.mark.parametrize(
    ("said", "why"),
    [
        (b"X", "a source said a byte 0x58, which is none of M, I and E"),
        (b"\x80", "0x80"),
        (b"\xff", "0xff"),
        (b"m\0\0\0\0", "0x6d"),
        (b"M\xff\xff\xff\xff", "a source announced a message of -1 bytes"),
        (b"I" + OWN + b"\x80\0\0\0", "a message of -2147483648 bytes"),
        (
            b"M" + (MAX_PAYLOAD_BYTES + 1).to_bytes(4, "big"),
            f"a message of {MAX_PAYLOAD_BYTES + 1} bytes exceeds the limit of {MAX_PAYLOAD_BYTES}; send smaller ones",
        ),
        (b"M\x7f\xff\xff\xff", f"exceeds the limit of {MAX_PAYLOAD_BYTES}"),
    ],
)
def test_who_breaks_the_protocol_is_cut_off_and_the_log_says_why(
    run: Any, smq: Serve, caplog: pytest.LogCaptureFixture, said: bytes, why: str
) -> None:
    async def main() -> None:
        async with smq() as broker:
            (source,) = await sources(broker)
            await source.send(b"before")
            source.write(said)
            assert await source.rest() == b""
            await source.close()
            await until(lambda: not broker.connections)
            lines = [record.getMessage() for record in caplog.records if record.levelno >= logging.WARNING]
            assert len(lines) == 1
            assert lines[0].startswith("the smq-source from 127.0.0.1:")
            assert why in lines[0]
            assert (await queue_row(broker))["ready"] == 1

    run(main)


@pytest.mark.parametrize("part", [b"M", b"M\0\0", b"M\0\0\0\5four", b"I" + OWN[:9], b"I" + OWN + b"\0\0\0\2x"])
def test_an_end_in_the_middle_stores_nothing_of_it_and_says_nothing(run: Any, smq: Serve, part: bytes) -> None:
    async def main() -> None:
        async with smq() as broker:
            first, second = await sources(broker, 2)
            await first.send(b"whole")
            first.write(part)
            first.writer.write_eof()
            assert await first.rest() == b""
            second.write(part)
            await second.writer.drain()
            second.vanish()
            await first.close()
            await until(lambda: not broker.connections)
            assert (await queue_row(broker))["ready"] == 1

    run(main)


def test_messages_that_come_a_byte_at_a_time_are_taken(run: Any, smq: Serve) -> None:
    async def main() -> None:
        async with smq() as broker:
            (source,) = await sources(broker)
            await until(lambda: bool(broker.connections))
            (connection,) = (each.connection for each in broker.connections.values())
            assert connection is not None
            for number, byte in enumerate(b"M\0\0\0\3abcI" + OWN + b"\0\0\0\0", 1):
                source.write(bytes([byte]))
                await until(lambda number=number: connection.bytes_in == number)
            await source.accepted(2)
            assert (await queue_row(broker))["ready"] == 2
            await source.close()

    run(main)


def test_a_full_queue_is_waited_for_and_nobody_is_refused(run: Any, smq: Serve) -> None:
    async def main() -> None:
        async with smq(max_queue_messages=10) as broker:
            waiting = await sources(broker, 3)
            for number, source in enumerate(waiting):
                for count in range(20):
                    source.say(b"%d-%d" % (number, count))
            taker = await sink(broker)
            row = await queue_row(broker)
            assert row["ready"] + row["in_flight"] <= 10 + len(waiting)
            found = [(await taker.receive()).payload for _ in range(60)]
            for number, source in enumerate(waiting):
                await source.accepted(20)
                own = [payload for payload in found if payload.startswith(b"%d-" % number)]
                assert own == [b"%d-%d" % (number, count) for count in range(20)]
                await source.close()
            await taker.close()

    run(main)


def test_while_the_queue_is_full_a_source_is_read_no_further(run: Any, smq: Serve) -> None:
    async def main() -> None:
        async with smq(max_queue_messages=1) as broker:
            (source,) = await sources(broker)
            await source.send(b"first")
            (connection,) = (each.connection for each in broker.connections.values())
            assert connection is not None
            flood = asyncio.ensure_future(flooded(source))
            await until(lambda: not connection._reading)
            taken = connection.bytes_in
            other = await sources(broker)
            other[0].say(b"waits")
            await queue_row(broker)
            assert connection.bytes_in == taken
            assert broker.partial.bytes < 512 * 1024
            flood.cancel()
            for each in (source, *other):
                each.vanish()

    run(main)


async def flooded(source: Source) -> None:
    while True:
        source.say(b"x" * 10_000)
        await source.writer.drain()


def test_a_queue_that_rejects_ends_the_connection_for_there_is_no_word_for_it(
    run: Any, smq: Serve, caplog: pytest.LogCaptureFixture
) -> None:
    async def main() -> None:
        async with smq(max_queue_messages=1, overflow="reject") as broker:
            (source,) = await sources(broker)
            await source.send(b"first")
            source.say(b"second")
            with pytest.raises(EndedError):
                await source.accepted()
            await source.close()
            await until(lambda: not broker.connections)
            assert "queue 'smq' is full" in caplog.text

    run(main)


def test_no_confirmation_comes_before_the_commit(run: Any, smq: Serve, tmp_path: Any) -> None:
    async def main() -> None:
        async with smq(directory=str(tmp_path / "data")) as broker:
            (source,) = await sources(broker)
            await source.send(b"first")
            storage = broker._storage
            assert storage is not None
            before = storage.statistics()["syncs"]
            await source.send(b"second")
            assert storage.statistics()["syncs"] > before
            source.vanish()
        async with smq(directory=str(tmp_path / "data")) as broker:
            taker = await sink(broker)
            assert [await taker.receive() for _ in range(2)][1].payload == b"second"
            await taker.close()

    run(main)


def test_the_idle_stay_and_who_does_not_complete_a_message_is_cut_off(
    run: Any, smq: Serve, jump: Callable[[float], None]
) -> None:
    async def main() -> None:
        if not isinstance(asyncio.get_running_loop(), asyncio.BaseEventLoop):
            pytest.skip("its timers know nothing of a clock that jumps")
        async with smq(heartbeat=5.0) as broker:
            idle, begun = await sources(broker, 2)
            begun.write(b"M\0\0\0\5ab")
            await until(lambda: any(each.connection.bytes_in for each in broker.connections.values()))
            jump(SILENT_INTERVALS * 5.0 + 1.0)
            assert await begun.rest() == b""
            await idle.send(b"still here")
            await idle.close()
            await begun.close()

    run(main)


def test_native_clients_receive_what_sources_send_and_send_what_sinks_get(run: Any, smq: Serve) -> None:
    async def main() -> None:
        async with smq(smq_sink=None, smq_queue="orders") as broker:
            (source,) = await sources(broker)
            await source.send(b"by SMQ", OWN)
            source.end()
            receiver = Receiver(broker.receive_address, queue="orders", limit=1)
            seen: list[tuple[bytes, bytes]] = []
            await (
                receiver.map(lambda each: seen.append((each.payload, each.id)) or each)
                .to(StreamSink.acknowledge())
                .run()
            )
            assert seen == [(b"by SMQ", OWN)]
            await source.close()

    run(main)


def test_addresses_that_others_can_reach_are_refused_unless_that_is_asked_for(run: Any) -> None:
    async def main() -> None:
        for address, here in (("0.0.0.0:0", "127.0.0.1"), ("[::]:0", "::1")):
            for option in ("smq_source", "smq_sink"):
                options = {"send_address": "127.0.0.1:0", "receive_address": "127.0.0.1:0", option: address}
                config = BrokerConfig(**options)
                broker = Broker(config, listeners=configured_listeners(config))
                with pytest.raises(LocalProtocolError, match=r"can be reached from other machines.*--insecure"):
                    await broker.__aenter__()
                config = BrokerConfig(**options, insecure=True)
                async with Broker(config, listeners=configured_listeners(config)) as broker:
                    port = broker.addresses(option.replace("_", "-"))[0].port
                    with socket.create_connection((here, port)):
                        pass

    run(main)


def test_a_broker_that_is_not_given_the_gateways_it_is_to_have_says_so() -> None:
    for option in ("smq_source", "smq_sink"):
        with pytest.raises(LocalProtocolError, match="configured_listeners"):
            Broker(BrokerConfig(**{option: "127.0.0.1:0"}))


def test_sources_may_use_their_queue_and_nothing_else(run: Any, smq: Serve) -> None:
    async def main() -> None:
        async with smq() as broker:
            (source,) = await sources(broker)
            await source.send(b"a")
            (served,) = broker.connections.values()
            principal = served.operations.principal  # type: ignore[attr-defined]  # of the gateway's connections
            assert str(principal) == "smq"
            assert principal.grants.on("smq")
            assert not principal.grants.on("orders")
            assert not principal.rights
            await source.close()

    run(main)


def test_a_sender_of_ours_beside_a_source_keeps_its_own_order(run: Any, smq: Serve) -> None:
    async def main() -> None:
        async with smq() as broker:
            (source,) = await sources(broker)
            native = Sender(broker.send_address, queue="smq", max_batch_messages=2)
            sending = asyncio.ensure_future(
                Stream.from_iterable([b"n%d" % number for number in range(20)]).to(native).run()
            )
            for number in range(20):
                await source.send(b"s%d" % number)
            await sending
            taker = await sink(broker)
            found = [(await taker.receive()).payload for _ in range(40)]
            for kind in (b"s", b"n"):
                assert [each for each in found if each.startswith(kind)] == [b"%s%d" % (kind, at) for at in range(20)]
            await source.close()
            await taker.close()

    run(main)


class Options:
    """In place of a socket: what is set."""

    def __init__(self) -> None:
        self.set: list[tuple[int, int, int]] = []

    def setsockopt(self, level: int, option: int, value: int) -> None:
        self.set.append((level, option, value))


def test_the_beginning_of_a_message_is_acknowledged_at_once_and_a_whole_one_by_its_answer(run: Any, smq: Serve) -> None:
    """The original's writer sends a head alone where its payload is large, and its system waits for that to be acknowledged."""

    async def main() -> None:
        async with smq() as broker:
            (source,) = await sources(broker)
            await source.send(b"whole")
            (connection,) = (each.connection for each in broker.connections.values())
            assert isinstance(connection, PromptConnection)
            options = connection._socket = Options()
            await source.send(b"whole")
            assert options.set == []
            source.write(b"M" + (9000).to_bytes(4, "big"))
            await until(lambda: bool(options.set))
            source.write(bytes(9000))
            await source.accepted()
            assert set(options.set) == {(socket.IPPROTO_TCP, socket.TCP_QUICKACK, 1)}
            taken = len(options.set)
            await source.send(b"whole")
            assert len(options.set) == taken
            await source.close()

    run(main)
