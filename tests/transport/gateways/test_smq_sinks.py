"""The port of sinks, as an independent client sees it."""

from __future__ import annotations

import asyncio
import logging
import socket
from collections.abc import Callable
from typing import Any

import pytest

from streams import Source as Stream
from tests.transport.conftest import until
from tests.transport.gateways.conftest import Serve
from tests.transport.gateways.smq_client import Sink, Source
from transport import Administration, Broker, Message, Sender
from transport.broker.acceptor import KEEPALIVE_IDLE
from transport.gateways.smq.connections import MOST_EARLY
from transport.shell.unsent import WRITE_BUFFER_HIGH
from transport.wire.liveness import HANDSHAKE_TIMEOUT, SILENT_INTERVALS

pytestmark = pytest.mark.event_loop
OWN = bytes.fromhex("ab0a") + bytes(range(14))


async def source(broker: Broker) -> Source:
    return await Source.connect(broker.addresses("smq-source")[0])


async def sinks(broker: Broker, count: int = 1) -> list[Sink]:
    """Each is in line before the next one comes."""
    found = []
    for _ in range(count):
        known = set(broker.connections)
        found.append(await Sink.connect(broker.addresses("smq-sink")[0]))
        await until(lambda known=known: bool(set(broker.connections) - known))
    return found


async def filled(broker: Broker, count: int) -> None:
    filling = await source(broker)
    for number in range(count):
        filling.say(b"%d" % number)
    await filling.accepted(count)
    filling.end()
    await filling.rest()
    await filling.close()


async def handled(broker: Broker) -> dict[str, Any]:
    """The queue's row, once all that was said before is handled."""
    async with Administration(broker.send_address) as admin:
        return next(row for row in await admin.queues() if row["name"] == "smq")


def test_one_message_is_outstanding_and_no_more_come_before_it_is_accepted(run: Any, smq: Serve) -> None:
    async def main() -> None:
        async with smq() as broker:
            await filled(broker, 5)
            (sink,) = await sinks(broker)
            for number in range(5):
                assert (await sink.delivered()).payload == b"%d" % number
                row = await handled(broker)
                assert (row["in_flight"], row["ready"]) == (1, 4 - number)
                sink.yes()
            await until(lambda: is_empty(broker))
            await sink.close()

    run(main)


async def is_empty(broker: Broker) -> bool:
    row = await handled(broker)
    return row["ready"] + row["in_flight"] == 0


def test_early_words_count_four_of_them_accept_four_messages(run: Any, smq: Serve) -> None:
    async def main() -> None:
        async with smq() as broker:
            (sink,) = await sinks(broker)
            sink.yes(4)
            await filled(broker, 6)
            assert [(await sink.delivered()).payload for _ in range(5)] == [b"0", b"1", b"2", b"3", b"4"]
            row = await handled(broker)
            assert (row["in_flight"], row["ready"], row["total_acknowledged"]) == (1, 1, 4)
            await sink.close()

    run(main)


def test_whoever_accepts_without_end_and_takes_nothing_is_cut_off(
    run: Any, smq: Serve, caplog: pytest.LogCaptureFixture
) -> None:
    async def main() -> None:
        async with smq() as broker:
            (flooding,) = await sinks(broker)
            flooding.yes(MOST_EARLY + 1)
            assert await flooding.rest() == b""
            await flooding.close()
            await until(lambda: not broker.connections)

    with caplog.at_level(logging.WARNING, "penstock.broker"):
        run(main)
    assert f"messages beforehand, {MOST_EARLY} at most may be" in caplog.text


def test_a_sink_that_waits_for_the_first_message_gets_it_when_it_comes(run: Any, smq: Serve) -> None:
    async def main() -> None:
        async with smq() as broker:
            (sink,) = await sinks(broker)
            await filled(broker, 1)
            assert (await sink.receive()).payload == b"0"
            await filled(broker, 1)
            assert (await sink.receive()).payload == b"0"
            await sink.close()

    run(main)


def test_a_second_sink_waits_connected_and_silent_and_is_served_on_the_same_connection(run: Any, smq: Serve) -> None:
    async def main() -> None:
        async with smq() as broker:
            await filled(broker, 4)
            first, second, third = await sinks(broker, 3)
            assert (await first.receive()).payload == b"0"
            assert (await first.delivered()).payload == b"1"
            await handled(broker)
            served = {each.number: each.connection for each in broker.connections.values() if each.role == "smq-sink"}
            assert [connection.bytes_out for _, connection in sorted(served.items())[1:]] == [0, 0]
            await first.close()
            again = await second.delivered()
            assert (again.kind, again.payload) == (b"R", b"1")
            second.yes()
            assert (await second.delivered()).payload == b"2"
            third.vanish()
            second.vanish()
            (last,) = await sinks(broker)
            assert (await last.delivered()).kind == b"R"
            await last.close()

    run(main)


@pytest.mark.parametrize("leaves", ["close", "vanish"])
def test_a_sink_that_leaves_a_message_unaccepted_gives_it_back_to_the_head_as_possibly_replayed(
    run: Any, smq: Serve, leaves: str
) -> None:
    async def main() -> None:
        async with smq() as broker:
            await filled(broker, 3)
            (sink,) = await sinks(broker)
            first = await sink.delivered()
            assert first.kind == b"M"
            for _ in range(2):
                await sink.close() if leaves == "close" else sink.vanish()
                (sink,) = await sinks(broker)
                again = await sink.delivered()
                assert (again.kind, again.id, again.payload) == (b"R", first.id, b"0")
            sink.yes()
            assert [await sink.receive() for _ in range(2)][1].kind == b"M"
            await sink.close()

    run(main)


@pytest.mark.parametrize("word", [b"X", b"E", b"y", b"\x00", b"\x80", b"\xff", b"YX"])
def test_another_word_ends_the_connection_and_the_log_says_which(
    run: Any, smq: Serve, caplog: pytest.LogCaptureFixture, word: bytes
) -> None:
    async def main() -> None:
        async with smq() as broker:
            await filled(broker, 3)
            (sink,) = await sinks(broker)
            assert (await sink.delivered()).payload == b"0"
            sink.write(word)
            # What was said before the wrong byte counts; what else was delivered for it may have left.
            await sink.rest()
            await sink.close()
            (sink,) = await sinks(broker)
            assert (await sink.delivered()).payload == (b"1" if word.startswith(b"Y") else b"0")
            lines = [record.getMessage() for record in caplog.records if record.levelno >= logging.WARNING]
            assert len(lines) == 1
            assert lines[0].startswith("the smq-sink from 127.0.0.1:")
            assert lines[0].endswith(f"a sink said a byte {word[-1]:#04x}, which is no Y")
            await sink.close()

    run(main)


def test_messages_of_any_size_arrive_whole(run: Any, smq: Serve) -> None:
    async def main() -> None:
        async with smq() as broker:
            payloads = [bytes([size % 251]) * size for size in (0, 1, 8150, 8192, 8193, 20_000, 65_536, 8 << 20)]
            filling = await source(broker)
            (sink,) = await sinks(broker)
            for payload in payloads:
                await filling.send(payload, OWN)
                assert await sink.receive() == (b"M", OWN, payload)
            await filling.close()
            await sink.close()

    run(main)


def test_what_native_senders_send_comes_as_their_payload_and_id(run: Any, smq: Serve) -> None:
    async def main() -> None:
        async with smq() as broker:
            messages = [Message(b"own", key=b"k", headers={"h": "v"}, id=OWN), Message(b"none")]
            for message in messages:
                await Stream.from_iterable([message]).to(Sender(broker.send_address, queue="smq")).run()
            (sink,) = await sinks(broker)
            assert await sink.receive() == (b"M", OWN, b"own")
            kind, made, payload = await sink.receive()
            assert (kind, payload) == (b"M", b"none")
            assert made == broker.id_prefix("smq") + (1).to_bytes(8, "big")
            await sink.close()

    run(main)


def test_a_batch_of_many_is_given_one_by_one_each_with_its_own_id(run: Any, smq: Serve) -> None:
    async def main() -> None:
        async with smq() as broker:
            ids = [bytes([number]) * 16 for number in range(50)]
            messages = [Message(b"%d" % number, id=ids[number]) for number in range(50)]
            await Stream.from_iterable(messages).to(Sender(broker.send_address, queue="smq")).run()
            (sink,) = await sinks(broker)
            for number in range(50):
                assert await sink.receive() == (b"M", ids[number], b"%d" % number)
            await sink.close()

    run(main)


def test_a_slow_sink_accepts_after_the_visibility_timeout_and_gets_nothing_twice(run: Any, smq: Serve) -> None:
    async def main() -> None:
        async with smq(visibility_timeout=0.05) as broker:
            await filled(broker, 3)
            (sink,) = await sinks(broker)
            for number in range(3):
                delivery = await sink.delivered()
                assert (delivery.kind, delivery.payload) == (b"M", b"%d" % number)
                await until(lambda: lapsed(broker))
                sink.yes()
            await until(lambda: is_empty(broker))
            await sink.close()

    run(main)


async def lapsed(broker: Broker) -> bool:
    return (await handled(broker))["in_flight"] == 0


def test_a_restart_keeps_what_was_not_accepted_in_order(run: Any, smq: Serve, tmp_path: Any) -> None:
    async def main() -> None:
        options = {"directory": str(tmp_path / "data")}
        async with smq(**options) as broker:
            await filled(broker, 4)
            (sink,) = await sinks(broker)
            await sink.receive()
            assert (await sink.delivered()).payload == b"1"
            await sink.close()
        async with smq(**options) as broker:
            (sink,) = await sinks(broker)
            found = [await sink.receive() for _ in range(3)]
            assert [each.payload for each in found] == [b"1", b"2", b"3"]
            assert found[0].kind == b"R"
            await sink.close()

    run(main)


def test_the_queue_of_sinks_is_exclusive_whatever_is_said_of_it_and_made_anew_so(run: Any, smq: Serve) -> None:
    async def main() -> None:
        async with smq() as broker:
            await filled(broker, 1)
            (sink,) = await sinks(broker)
            await sink.receive()
            async with Administration(broker.send_address) as admin:
                await admin.delete_queue("smq")
            assert await sink.rest() == b""
            await sink.close()
            await filled(broker, 2)
            first, second = await sinks(broker, 2)
            assert (await first.delivered()).payload == b"0"
            row = await handled(broker)
            assert row["ready"] == 1
            assert broker.queues.settings_of("smq").exclusive
            await first.close()
            await second.close()

    run(main)


def test_a_quiet_sink_stays_and_its_system_is_asked_whether_it_is_there(
    run: Any, smq: Serve, jump: Callable[[float], None]
) -> None:
    async def main() -> None:
        if not isinstance(asyncio.get_running_loop(), asyncio.BaseEventLoop):
            pytest.skip("its timers know nothing of a clock that jumps")
        async with smq() as broker:
            await filled(broker, 1)
            (sink,) = await sinks(broker)
            await sink.delivered()
            (connection,) = (each.connection for each in broker.connections.values())
            assert connection is not None
            own = connection._transport.get_extra_info("socket")

            assert own.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE) == 1
            assert own.getsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPIDLE) == KEEPALIVE_IDLE
            jump(max(HANDSHAKE_TIMEOUT, SILENT_INTERVALS * 5.0) + 1.0)
            sink.yes()
            await until(lambda: is_empty(broker))
            await sink.close()

    run(main)


def test_a_waiting_sink_that_leaves_is_gone_at_once(run: Any, smq: Serve) -> None:
    async def main() -> None:
        async with smq() as broker:
            first, second = await sinks(broker, 2)
            await second.close()
            await until(lambda: len(broker.connections) == 1)
            await filled(broker, 1)
            assert (await first.receive()).payload == b"0"
            await first.close()

    run(main)


def test_a_sink_that_accepts_beforehand_and_reads_nothing_is_given_no_more_than_fits(run: Any, smq: Serve) -> None:
    async def main() -> None:
        async with smq(max_queue_bytes=1 << 30) as broker:
            payload, count = bytes(1 << 20), 40
            filling = await source(broker)
            for _ in range(count):
                await filling.send(payload)
            (sink,) = await sinks(broker)
            sink.writer.transport.pause_reading()  # type: ignore[attr-defined]  # a StreamWriter's transport is a whole one
            sink.yes(count)
            (connection,) = (each.connection for each in broker.connections.values() if each.role == "smq-sink")
            assert connection is not None
            await until(lambda: connection._transport.get_write_buffer_size() > WRITE_BUFFER_HIGH)
            before, ready = count, count - 1
            while ready < before:
                # Whatever is still given is given between two questions.
                before, ready = ready, (await handled(broker))["ready"]
            assert ready > count // 4
            sink.writer.transport.resume_reading()  # type: ignore[attr-defined]  # as above
            for _ in range(count):
                assert (await sink.delivered()).payload == payload
            await filling.close()
            await sink.close()

    run(main)
