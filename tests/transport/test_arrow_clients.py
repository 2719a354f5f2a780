"""Arrow tables through a broker and back: equal, acknowledged when the program is done, and given back when it is not."""

from __future__ import annotations

import asyncio
import gc
import threading
from collections.abc import AsyncGenerator, Iterator
from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

pa = pytest.importorskip("pyarrow")

from streams import MaxInFlightRequestStrategy, Sink, Source  # noqa: E402 - behind what may be missing
from tests.transport.test_arrow_batches import Stream  # noqa: E402
from transport import (  # noqa: E402
    ArrowDelivery,
    ArrowInputError,
    Backoff,
    Broker,
    BrokerConfig,
    ConnectionLostError,
    LocalProtocolError,
    Message,
    MessageBatch,
    Receiver,
    Sender,
    receive_arrow,
    send_arrow,
)
from transport.clients.arrow_batches import message_batches  # noqa: E402
from transport.clients.arrow_headers import HEADERS_TYPE  # noqa: E402
from transport.clients.arrow_reader import ArrowReader  # noqa: E402
from transport.clients.arrow_reading import END_TIMEOUT, Reading  # noqa: E402
from transport.clients.arrow_records import DEFAULT_COLUMNS, arrow_schema  # noqa: E402
from transport.clients.delivery import DeliveredBatch  # noqa: E402
from transport.clients.receiver_session import ReceiverSession  # noqa: E402
from transport.wire.messages import Deliver  # noqa: E402

FREE_PORT = "127.0.0.1:0"
DEADLINE = 30.0
IDLE = 0.2
SENT = ["payload", "key", "headers"]


class BrokerThread:
    """A broker whose loop runs in a thread, for clients that block."""

    def __init__(self) -> None:
        self._ready = threading.Event()
        self._thread = threading.Thread(target=lambda: asyncio.run(self._serve()))
        self._thread.start()
        assert self._ready.wait(DEADLINE)

    async def _serve(self) -> None:
        self._loop, self._over = asyncio.get_running_loop(), asyncio.Event()
        async with Broker(BrokerConfig(FREE_PORT, FREE_PORT)) as broker:
            self.sending, self.receiving = broker.send_address, broker.receive_address
            self._ready.set()
            await self._over.wait()

    def stop(self) -> None:
        self._loop.call_soon_threadsafe(self._over.set)
        self._thread.join(DEADLINE)


@pytest.fixture(scope="module")
def broker() -> Iterator[BrokerThread]:
    running = BrokerThread()
    yield running
    running.stop()


@pytest.fixture
def queue(request: pytest.FixtureRequest) -> str:
    return str(request.node.name).partition("[")[0][:100]


def rows(count: int) -> Any:
    return pa.table({
        "payload": pa.array([b"m%d" % n for n in range(count)]),
        "key": pa.array([b"k" if n % 3 else None for n in range(count)]),
        "headers": pa.array([[("n", b"%d" % n)] if n % 2 else None for n in range(count)], HEADERS_TYPE),
    })  # fmt: skip


SESSION = ("large", MaxInFlightRequestStrategy(1), lambda: None)


def readers() -> list[threading.Thread]:
    return [thread for thread in threading.enumerate() if thread.name == "penstock-arrow-reader"]


def left(broker: BrokerThread, queue: str) -> list[bytes]:
    """What the queue still has, taken from it."""
    return [
        bytes(one) for one in receive_arrow(broker.receiving, queue, idle_exit=IDLE).read_all()["payload"].to_pylist()
    ]


def test_what_is_sent_comes_back_equal_with_what_the_broker_says_of_it(broker: BrokerThread, queue: str) -> None:
    table = rows(5000)
    before = datetime.now(UTC)
    assert send_arrow(broker.sending, queue, table).messages == 5000
    received = receive_arrow(broker.receiving, queue, count=5000).read_all()
    received.validate(full=True)
    assert received.select(SENT).equals(table)
    assert received.schema == arrow_schema()
    assert received["sequence"].to_pylist() == list(range(5000))
    assert len(set(received["id"].to_pylist())) == 5000
    assert set(received["queue"].to_pylist()) == {queue}
    assert set(received["delivery_count"].to_pylist()) == {1}
    assert set(received["possibly_replayed"].to_pylist()) == {False}
    assert all(0 <= (at - before).total_seconds() < DEADLINE for at in set(received["enqueued_at"].to_pylist()))
    assert left(broker, queue) == []
    assert readers() == []


def test_what_was_received_can_be_sent_on_as_it_is_with_its_ids(broker: BrokerThread, queue: str) -> None:
    send_arrow(broker.sending, queue, rows(10))
    first = receive_arrow(broker.receiving, queue, count=10).read_all()
    send_arrow(broker.sending, f"{queue}-2", first)
    second = receive_arrow(broker.receiving, f"{queue}-2", count=10).read_all()
    assert second.select([*SENT, "id"]).equals(first.select([*SENT, "id"]))


def test_generated_ids_are_those_that_a_delivery_has(broker: BrokerThread, queue: str) -> None:
    send_arrow(broker.sending, queue, rows(300))
    with receive_arrow(broker.receiving, queue, count=300) as reader:
        ids = [one for records in reader for one in records["id"].to_pylist()]
        reader.close()
    assert len(ids) == 300
    send_arrow(broker.sending, queue, pa.array(["last"]))

    async def one() -> tuple[int, bytes]:
        async for delivery in Receiver(broker.receiving, queue=queue, limit=1):
            return delivery.sequence, delivery.id
        raise AssertionError("nothing came")

    number, of_delivery = asyncio.run(one())
    assert of_delivery == ids[0][:8] + number.to_bytes(8, "big")
    assert ids == [ids[0][:8] + n.to_bytes(8, "big") for n in range(300)]


def test_one_asks_for_the_columns_one_wants(broker: BrokerThread, queue: str) -> None:
    send_arrow(broker.sending, queue, rows(3))
    wanted = ["packed_headers", "sequence", "payload"]
    table = receive_arrow(broker.receiving, queue, count=3, columns=wanted).read_all()
    assert table.to_pydict() == {
        "packed_headers": [None, b"\x81\xa1n\xc4\x011", None], "sequence": [0, 1, 2], "payload": [b"m0", b"m1", b"m2"],
    }  # fmt: skip


def test_polars_and_duckdb_and_pandas_read_it_as_any_arrow_stream(broker: BrokerThread, queue: str) -> None:
    send_arrow(broker.sending, queue, Stream(rows(3000)))
    assert pa.table(Stream(receive_arrow(broker.receiving, queue, count=3000))).select(SENT).equals(rows(3000))
    assert left(broker, queue) == []


def test_a_record_batch_is_acknowledged_when_the_next_is_asked_for(broker: BrokerThread, queue: str) -> None:
    send_arrow(broker.sending, queue, pa.array([b"a" * 200_000, b"b" * 200_000]))
    reader = receive_arrow(broker.receiving, queue, max_in_flight=1)
    assert [len(next(reader)), len(next(reader))] == [1, 1]
    reader.close()
    assert left(broker, queue) == [b"b" * 200_000]


def test_what_a_with_block_fails_on_goes_back(broker: BrokerThread, queue: str) -> None:
    send_arrow(broker.sending, queue, pa.array(["a", "b"]))
    with pytest.raises(KeyError), receive_arrow(broker.receiving, queue, count=2) as reader:
        raise KeyError(len(next(reader)))
    again = receive_arrow(broker.receiving, queue, count=2).read_all()
    assert again["payload"].to_pylist() == [b"a", b"b"]
    assert again["delivery_count"].to_pylist() == [2, 2]
    assert again["possibly_replayed"].to_pylist() == [True, True]


@pytest.mark.parametrize("fails", [False, True])
def test_at_exit_everything_is_acknowledged_or_nothing(broker: BrokerThread, queue: str, fails: bool) -> None:
    name = f"{queue}-{fails}"
    send_arrow(broker.sending, name, rows(4000))
    held = receive_arrow(broker.receiving, name, count=4000, acknowledge="at-exit")
    try:
        with held as reader:
            assert reader.read_all().num_rows == 4000
            if fails:
                raise KeyError
    except KeyError:
        pass
    assert len(left(broker, name)) == (4000 if fails else 0)


def test_what_is_held_can_be_acknowledged_by_hand(broker: BrokerThread, queue: str) -> None:
    send_arrow(broker.sending, queue, rows(3))
    reader = receive_arrow(broker.receiving, queue, idle_exit=IDLE, acknowledge="at-exit")
    assert reader.read_all().num_rows == 3
    reader.acknowledge()
    reader.close()
    assert left(broker, queue) == []


def test_a_reader_that_is_dropped_gives_back_what_it_had(broker: BrokerThread, queue: str) -> None:
    send_arrow(broker.sending, queue, rows(3))
    reader = receive_arrow(broker.receiving, queue)
    kept = next(reader)
    del reader
    gc.collect()
    assert readers() == []
    assert left(broker, queue) == [b"m0", b"m1", b"m2"]
    assert kept["payload"].to_pylist() == [b"m0", b"m1", b"m2"]


def test_a_reader_that_is_collected_in_its_own_thread_gives_back_what_it_had(broker: BrokerThread, queue: str) -> None:
    send_arrow(broker.sending, queue, rows(3))
    cycle: dict[str, Any] = {"reader": receive_arrow(broker.receiving, queue)}
    cycle["itself"] = cycle
    next(cycle["reader"])
    loop = cycle["reader"]._reading._loop
    (thread,) = readers()
    gc.disable()
    try:
        del cycle
        loop.call_soon_threadsafe(gc.collect)
        thread.join(END_TIMEOUT / 3)
    finally:
        gc.enable()
    assert not thread.is_alive()
    assert left(broker, queue) == [b"m0", b"m1", b"m2"]


def test_ctrl_c_while_nothing_comes_ends_the_reader_and_is_what_the_program_sees(
    broker: BrokerThread, queue: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    submit = asyncio.run_coroutine_threadsafe

    def interrupted(coroutine: Any, loop: asyncio.AbstractEventLoop) -> Any:
        monkeypatch.undo()
        future = submit(coroutine, loop)
        submit(asyncio.sleep(0), loop).result(DEADLINE)  # it waits now
        future.result = raise_interrupt  # type: ignore[method-assign]  # as a signal would
        return future

    def raise_interrupt(_timeout: float | None = None) -> Any:
        raise KeyboardInterrupt

    monkeypatch.setattr(asyncio, "run_coroutine_threadsafe", interrupted)
    reader = receive_arrow(broker.receiving, queue)
    with pytest.raises(KeyboardInterrupt):
        next(reader)
    assert readers() == []
    assert list(reader) == []


def test_rows_outlive_their_reader_and_their_acknowledgement(broker: BrokerThread, queue: str) -> None:
    kept = []
    for n in range(50):
        send_arrow(broker.sending, queue, pa.array([b"%d" % n] * 100))
        kept.append(receive_arrow(broker.receiving, queue, count=100).read_all().slice(7, 1))
    gc.collect()
    assert [one["payload"][0].as_py() for one in kept] == [b"%d" % n for n in range(50)]


def test_a_broker_that_is_not_there_is_an_error_and_not_an_idle_queue() -> None:
    reconnect = Backoff(give_up_after=0.3)
    with pytest.raises(ConnectionLostError):
        receive_arrow("127.0.0.1:1", "orders", idle_exit=0.01, reconnect=reconnect).read_all()
    with pytest.raises(ConnectionLostError):
        send_arrow("127.0.0.1:1", "orders", rows(1), reconnect=reconnect)
    assert readers() == []


def test_what_stands_before_a_bad_row_is_stored(broker: BrokerThread, queue: str) -> None:
    with pytest.raises(ArrowInputError, match="row 3 has no payload"):
        send_arrow(broker.sending, queue, [rows(2), pa.array(["c", None])])
    assert left(broker, queue) == [b"m0", b"m1"]


@pytest.mark.parametrize(
    "options",
    [
        {"columns": ["payload", "value"]},
        {"columns": []},
        {"columns": "payload"},
        {"columns": ["key", "key"]},
        {"acknowledge": "never"},
        {"idle_exit": 0},
        {"idle_exit": float("nan")},
        {"hold": 13 * 3600.0},
        {"count": 0},
    ],
)
def test_an_option_that_cannot_be_is_refused_before_anything_happens(options: dict[str, Any]) -> None:
    with pytest.raises(LocalProtocolError):
        receive_arrow("127.0.0.1:1", "orders", **options)


def test_in_a_stream_tables_go_to_a_sender_and_record_batches_come_with_their_answer(broker: BrokerThread) -> None:
    seen: list[Any] = []

    def take(delivery: ArrowDelivery) -> ArrowDelivery:
        assert pa.record_batch(delivery).equals(delivery.records)
        assert len(delivery) == delivery.records.num_rows
        seen.append(delivery.records)
        return delivery

    async def run() -> None:
        sent = await Source.of(rows(10), pa.array(["last"])).to(Sender(broker.sending, queue="stream").arrow()).run()
        assert sent.messages == 11
        receiver = Receiver(broker.receiving, queue="stream", limit=11)
        await receiver.arrow(["payload", "key"]).map(take).to(Sink.acknowledge()).run()

    asyncio.run(run())
    table = pa.Table.from_batches(seen)
    assert table.column_names == ["payload", "key"]
    assert table["payload"].to_pylist() == [*rows(10)["payload"].to_pylist(), b"last"]
    assert left(broker, "stream") == []


def test_record_batches_go_with_any_other_stage_as_message_batches(broker: BrokerThread, queue: str) -> None:
    async def run() -> int:
        confirmed = Source.of(rows(10)).map_concat(message_batches).via(Sender(broker.sending, queue=queue))
        return sum([confirmation.count async for confirmation in confirmed])

    assert asyncio.run(run()) == 10
    assert len(left(broker, queue)) == 10


def test_headers_that_another_client_made_wrong_are_null_and_can_be_read_packed(
    broker: BrokerThread, queue: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("actors.batch.pack_headers", lambda headers: b"\xc1" if headers else b"")
    monkeypatch.setattr("transport.clients.sender_batches.pack_headers", lambda headers: b"\xc1" if headers else b"")
    Source.of(Message(b"a", headers={"x": "y"})).to(Sender(broker.sending, queue=queue)).run_blocking()
    columns = ["headers", "packed_headers"]
    table = receive_arrow(broker.receiving, queue, count=1, columns=columns).read_all()
    assert table.to_pydict() == {"headers": [None], "packed_headers": [b"\xc1"]}


def test_of_large_deliveries_that_wait_together_every_row_is_read() -> None:
    size, count = 15 * 1024 * 1024, 150
    batch = MessageBatch.from_payloads([bytes(size)])
    schema = arrow_schema(["payload", "sequence"])

    async def waiting() -> AsyncGenerator[ArrowDelivery, None]:
        for number in range(count):
            yield ArrowDelivery(
                DeliveredBatch(Deliver(number, 0, 1, False, batch), "large", ReceiverSession(*SESSION)), schema
            )

    reading = Reading(Receiver(queue="large"), schema, _deliveries=waiting())
    reader, numbers = ArrowReader(reading), []
    for records in reader:
        assert records.nbytes < 4 * size
        numbers += records["sequence"].to_pylist()
    assert numbers == list(range(count))


def test_memory_does_not_grow_over_a_thousand_batches(broker: BrokerThread, queue: str) -> None:
    part = pa.table({"payload": [bytes(1000)] * 100})
    before, most = pa.total_allocated_bytes(), 0
    send_arrow(broker.sending, queue, (part for _ in range(1000)))
    with receive_arrow(broker.receiving, queue, count=100_000, columns=DEFAULT_COLUMNS[:1]) as reader:
        for records in reader:
            assert records.num_rows
            most = max(most, pa.total_allocated_bytes())
    assert most - before < 2**24


ROWS = st.lists(
    st.tuples(
        st.binary(max_size=20),
        st.none() | st.binary(min_size=1, max_size=5),
        st.none() | st.dictionaries(st.text(max_size=3), st.binary(max_size=3), min_size=1, max_size=3),
    ),
    min_size=1,
    max_size=30,
)


@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(ROWS, st.integers(1, 30))
def test_any_table_that_is_sent_is_received_equal(broker: BrokerThread, values: list[Any], chunk: int) -> None:
    columns = list(zip(*values, strict=True))
    headers = [one and list(one.items()) for one in columns[2]]
    table = pa.table({
        "payload": pa.array(columns[0], pa.binary()),
        "key": pa.array(columns[1], pa.binary()),
        "headers": pa.array(headers, HEADERS_TYPE),
    })  # fmt: skip
    send_arrow(broker.sending, "any", table.to_batches(max_chunksize=chunk))
    received = receive_arrow(broker.receiving, "any", count=len(values), columns=SENT).read_all()
    assert received.equals(table)
