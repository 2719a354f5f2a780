"""`Sender` against a real broker: confirmation, back-pressure, reconnection without loss or duplicates."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Any

import pytest

from streams import Flow, Sink, Source
from streams.testkit import TestSink, TestSource, settle
from tests.decoding import FrameDecoder
from transport import (
    Backoff,
    BrokerError,
    Confirmation,
    ConnectionLostError,
    LocalProtocolError,
    Message,
    MessageBatch,
    MessageTooLargeError,
    Receiver,
    Sender,
    SendSummary,
)
from transport.clients.link import BrokerLink
from transport.clients.sender_stage import MAX_UNSENT_BYTES
from transport.errors import InvalidNameError, QueueFullError
from transport.wire.codec import decode, encode
from transport.wire.messages import (
    VERSION,
    Ack,
    Command,
    Deliver,
    Demand,
    Error,
    Hello,
    Request,
    Result,
    Send,
    Sent,
    Welcome,
)
from transport.wire.timing import Timed

QUICK = Backoff(minimum=0.001, maximum=0.01, give_up_after=15.0)
MIB = 1 << 20


def numbered(count: int) -> list[bytes]:
    return [b"message %d" % number for number in range(count)]


async def stored(broker: Any, peers: Any, count: int, queue: str = "orders") -> list[bytes]:
    """Take ``count`` messages, see that there are no more, and leave none."""
    payloads: list[bytes] = []
    async with peers() as opened:
        receiver = await opened.open(broker.receive_address, "receiver", queue)
        receiver.send(Request(10_000_000, 1 << 40))
        while len(payloads) < count:
            delivered = await receiver.expect(Deliver)
            payloads += delivered.batch.payloads.tolist()
            receiver.send(Ack([(delivered.first, len(delivered.batch))]))
        assert broker.queues.get(queue) is not None
        await settle()
    assert len(payloads) == count
    return payloads


class Counting:
    """A source that knows how far it was pulled."""

    def __init__(self, elements: list[bytes]) -> None:
        self.elements = elements
        self.pulled = 0

    def __iter__(self) -> Iterator[bytes]:
        for element in self.elements:
            self.pulled += 1
            yield element


def test_everything_is_confirmed_and_stored_in_order(run: Any, serve: Any, peers: Any) -> None:
    payloads = numbered(5000)

    async def main() -> None:
        async with serve() as broker:
            summary = await Source.from_iterable(payloads).to(Sender(broker.send_address, queue="orders")).run()
            assert summary == SendSummary(messages=5000, resent=0, reconnects=0)
            assert await stored(broker, peers, 5000) == payloads

    run(main)


@pytest.mark.parametrize("as_flow", [False, True], ids=["sink", "flow"])
@pytest.mark.parametrize("cancelled", [False, True], ids=["completed", "cancelled"])
def test_a_run_is_over_when_its_connection_is_gone(
    run: Any, serve: Any, monkeypatch: pytest.MonkeyPatch, as_flow: bool, cancelled: bool
) -> None:
    gone: list[BrokerLink] = []
    closed = BrokerLink.connection_closed

    def late(link: BrokerLink, error: Exception | None) -> None:
        """Not in one of the few turns of the loop that the end of a run takes anyway."""

        def tell() -> None:
            gone.append(link)
            closed(link, error)

        asyncio.get_running_loop().call_later(0.02, tell)

    monkeypatch.setattr(BrokerLink, "connection_closed", late)

    async def main() -> None:
        async with serve() as broker:
            source: TestSource[bytes] = TestSource()
            sender = Sender(broker.send_address, queue="orders")
            graph = source.via(sender).to(Sink.ignore()) if as_flow else source.to(sender)
            running = graph.run()
            await source.probe.expect_request()
            if cancelled:
                running.cancel()
            else:
                source.probe.send_complete()
            await asyncio.gather(_awaited(running), return_exceptions=True)
            assert len(gone) == 1

    run(main)


async def _awaited(running: Any) -> Any:
    return await running


def test_an_empty_stream_is_done_at_once(run: Any, serve: Any) -> None:
    async def main() -> None:
        async with serve() as broker:
            summary = await Source.empty().to(Sender(broker.send_address, queue="orders")).run()
            assert summary.messages == 0

    run(main)


def test_messages_and_batches_arrive_with_their_parts(run: Any, serve: Any) -> None:
    sent: list[Any] = [
        Message(b"a", b"k", {"h": "v"}),
        b"b",
        MessageBatch.from_messages([Message(b"c", id=bytes(16)), Message(b"d", b"k2", id=bytes(range(16)))]),
        bytearray(b"e"),
    ]

    async def main() -> None:
        async with serve() as broker:
            await Source.from_iterable(sent).to(Sender(broker.send_address, queue="orders")).run()
            received = await Receiver(broker.receive_address, queue="orders").take(5).to(Sink.collect()).run()
            assert [(d.payload, d.key, d.headers) for d in received] == [
                (b"a", b"k", {"h": "v"}),
                (b"b", None, {}),
                (b"c", None, {}),
                (b"d", b"k2", {}),
                (b"e", None, {}),
            ]
            assert [received[2].id, received[3].id] == [bytes(16), bytes(range(16))]

    run(main)


def test_as_a_flow_it_goes_on_with_a_confirmation_for_each_batch(run: Any, serve: Any) -> None:
    async def main() -> None:
        async with serve() as broker:
            flow = Sender(broker.send_address, queue="orders", max_batch_messages=10)
            confirmations = await Source.from_iterable(numbered(95)).via(flow).to(Sink.collect()).run()
            assert all(isinstance(confirmation, Confirmation) for confirmation in confirmations)
            assert sum(confirmation.count for confirmation in confirmations) == 95
            expected = 0
            for confirmation in confirmations:
                assert confirmation.sequence == confirmation.first == expected
                assert 1 <= confirmation.count <= 10
                expected += confirmation.count

    run(main)


def test_a_downstream_that_takes_no_confirmations_holds_the_source_back(run: Any, serve: Any) -> None:
    async def main() -> None:
        async with serve() as broker:
            source = Counting(numbered(10_000))
            sink: TestSink[Confirmation] = TestSink()
            flow: Flow[Any, Confirmation] = Sender(broker.send_address, queue="orders", max_in_flight=100).as_flow()
            running = Source.from_iterable(lambda: source).via(flow).to(sink).run()
            first = await sink.request_next()
            assert first.sequence == 0
            await sink.expect_no_message(0.05)
            assert source.pulled < 1000
            sink.cancel()
            await running

    run(main)


def test_a_full_queue_stops_the_source_until_messages_are_acknowledged(
    run: Any, serve: Any, peers: Any, until: Any
) -> None:
    async def main() -> None:
        async with serve(max_queue_messages=50) as broker:
            source = Counting(numbered(500))
            running = Source.from_iterable(lambda: source).to(Sender(broker.send_address, queue="orders")).run()
            await until(lambda: source.pulled >= 50)
            await settle(0.05)
            assert source.pulled == 50
            assert not running.done()
            assert await stored(broker, peers, 500) == numbered(500)
            assert (await running).messages == 500

    run(main)


def test_a_queue_full_by_bytes_stops_the_source_too(run: Any, serve: Any, peers: Any, until: Any) -> None:
    payloads = [b"x" * 20_000 + b"%d" % number for number in range(1500)]

    async def main() -> None:
        async with serve(max_queue_bytes=200_000) as broker:
            source = Counting(payloads)
            running = Source.from_iterable(lambda: source).to(Sender(broker.send_address, queue="orders")).run()
            await until(lambda: source.pulled >= 11)
            await settle(0.05)
            # What the queue holds, and what the client may have taken ahead of the demand.
            assert source.pulled * 20_000 < 200_000 + 2 * MAX_UNSENT_BYTES
            assert not running.done()
            assert await stored(broker, peers, 1500) == payloads
            assert (await running).messages == 1500

    run(main)


def test_cut_anywhere_towards_the_broker_nothing_is_lost_or_stored_twice(
    run: Any, serve: Any, peers: Any, cutting: Any
) -> None:
    payloads = numbered(60)

    def sender(address: str) -> Sender:
        return Sender(address, queue="orders", max_batch_messages=7, reconnect=QUICK)

    async def main() -> None:
        async with serve() as broker, cutting(broker.send_address) as proxy:
            await Source.from_iterable(payloads).to(sender(proxy.address)).run()
            await stored(broker, peers, 60)
            whole = bytes(proxy.traffic[0])
        edges = [0]
        while edges[-1] < len(whole):
            edges.append(edges[-1] + int.from_bytes(whole[edges[-1] : edges[-1] + 4], "big"))
        cuts = sorted({edge + step for edge in edges for step in (-1, 0, 1, 5, 9)} & set(range(1, len(whole) + 1)))
        assert len(edges) > 8
        for cut in cuts:
            async with serve() as broker, cutting(broker.send_address) as proxy:
                proxy.up = [cut]
                summary = await Source.from_iterable(payloads).to(sender(proxy.address)).run()
                assert summary.messages == 60, cut
                assert await stored(broker, peers, 60) == payloads, cut

    run(main)


@pytest.mark.parametrize("step", [1, 7])
def test_cut_anywhere_towards_the_sender_nothing_is_lost_or_stored_twice(
    run: Any, serve: Any, peers: Any, cutting: Any, step: int
) -> None:
    payloads = numbered(40)

    async def main() -> None:
        async with serve() as broker, cutting(broker.send_address) as proxy:
            proxy.down = [*range(20, 200, 3 * step)]
            sender = Sender(proxy.address, queue="orders", max_batch_messages=3, reconnect=QUICK)
            summary = await Source.from_iterable(payloads).to(sender).run()
            assert summary.messages == 40
            assert proxy.connections > 1
            assert summary.reconnects <= proxy.connections - 1
            assert await stored(broker, peers, 40) == payloads

    run(main)


def test_a_sender_survives_a_broker_that_stops_and_starts_again(run: Any, serve: Any, peers: Any, until: Any) -> None:
    async def main() -> None:
        confirmed: list[Confirmation] = []

        def messages() -> int:
            return sum(confirmation.count for confirmation in confirmed)

        first = serve(max_queue_messages=100)
        async with first as broker:
            address = broker.send_address
            flow = Sender(address, queue="orders", reconnect=QUICK)
            running = Source.from_iterable(numbered(150)).via(flow).to(Sink.foreach(confirmed.append)).run()
            await until(lambda: messages() == 100)
        assert not running.done()
        async with serve(send_address=address) as second:
            await running
            assert messages() == 150
            assert second.epoch >= first.epoch
            # What the first broker held in memory only, and had confirmed, went with it.
            assert await stored(second, peers, 50) == numbered(150)[100:]

    run(main)


def test_without_a_broker_it_gives_up_when_it_was_told_to(run: Any, serve: Any) -> None:
    async def main() -> None:
        async with serve() as broker:
            address = broker.send_address
        sender = Sender(address, queue="orders", reconnect=Backoff(minimum=0.001, maximum=0.01, give_up_after=0.05))
        with pytest.raises(ConnectionLostError, match="given up after"):
            await Source.from_iterable(numbered(3)).to(sender).run()

    run(main)


def test_a_second_sender_of_the_same_name_takes_over_and_the_first_fails(run: Any, serve: Any, peers: Any) -> None:
    async def main() -> None:
        async with serve() as broker:
            source: TestSource[bytes] = TestSource()
            first = source.to(Sender(broker.send_address, queue="orders", client_id="twin")).run()
            await source.probe.expect_request()
            source.probe.send_next(b"from the first")
            async with peers() as opened:
                admin = await opened.open(broker.send_address, "admin", None)
                row = b""
                while b'"total_in":1' not in row:
                    admin.send(Command(1, "queue.list", {}))
                    row = (await admin.expect(Result)).json
            second = Sender(broker.send_address, queue="orders", client_id="twin")
            summary = await Source.of(b"from the second").to(second).run()
            assert summary.messages == 1
            with pytest.raises(BrokerError, match="taken-over"):
                await first
            await source.probe.expect_cancellation()
            assert await stored(broker, peers, 2) == [b"from the first", b"from the second"]

    run(main)


class Grantor:
    """A broker's end that grants without end and confirms only when told to."""

    def __init__(self) -> None:
        self.sent = 0
        self.address = ""
        self.writer: asyncio.StreamWriter | None = None

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.writer = writer
        decoder = FrameDecoder()
        writer.writelines(encode(Welcome(1, 1, {"heartbeat_ms": 60_000, "last_sequence": None})))
        writer.writelines(encode(Demand(1 << 40, 1 << 50)))
        decoder.max_frame_bytes = 1 << 24
        try:
            while data := await reader.read(1 << 20):
                for raw in decoder.receive_data(data):
                    frame = decode(raw)
                    if isinstance(frame, Send):
                        self.sent = frame.sequence + len(frame.batch)
        except ConnectionResetError:
            return
        finally:
            writer.close()

    def confirm(self) -> None:
        assert self.writer is not None
        self.writer.writelines(encode(Sent(self.sent, 0)))


def test_what_is_unconfirmed_is_bounded_whatever_is_granted(run: Any, until: Any) -> None:
    async def main() -> None:
        grantor = Grantor()
        server = await asyncio.start_server(grantor.serve, "127.0.0.1", 0)
        async with server:
            address = f"127.0.0.1:{server.sockets[0].getsockname()[1]}"
            source = Counting(numbered(20_000))
            sender = Sender(address, queue="orders", max_in_flight=500, max_batch_messages=100)
            running = Source.from_iterable(lambda: source).to(sender).run()
            await until(lambda: grantor.sent >= 400)
            await settle(0.05)
            assert source.pulled <= 500
            confirmed = grantor.sent
            grantor.confirm()
            await until(lambda: grantor.sent > confirmed)
            await settle(0.05)
            assert source.pulled <= confirmed + 500
            running.cancel()
            with pytest.raises(asyncio.CancelledError):
                await running

    run(main)


@pytest.mark.parametrize(
    "element",
    [b"x" * (17 * MIB), Message(b"x" * (17 * MIB)), MessageBatch.from_payloads([b"x" * (17 * MIB)])],
    ids=["bytes", "message", "batch"],
)
def test_a_message_that_fits_no_frame_fails_the_stream_and_names_its_size(run: Any, serve: Any, element: Any) -> None:
    async def main() -> None:
        async with serve() as broker:
            running = Source.of(b"a", element, b"b").to(Sender(broker.send_address, queue="orders")).run()
            with pytest.raises(MessageTooLargeError, match="fit a frame"):
                await running

    run(main)


@pytest.mark.parametrize(
    "element",
    [
        "text",
        Message(b"x", id=b"short"),
        Message(b"x", headers={f"h{number}": "v" for number in range(65)}),
        Message(b"x", headers={"h": 1}),  # type: ignore[dict-item]  # a wrong one is what the test is about
        Message("text"),  # type: ignore[arg-type]  # as above
    ],
    ids=["text", "id", "headers", "header", "payload"],
)
def test_what_cannot_be_sent_fails_the_stream_and_does_not_hang(run: Any, serve: Any, element: Any) -> None:
    async def main() -> None:
        async with serve() as broker:
            running = Source.of(b"a", element, b"b").to(Sender(broker.send_address, queue="orders")).run()
            async with asyncio.timeout(3):
                with pytest.raises((ValueError, TypeError, LocalProtocolError)):
                    await running

    run(main)


@pytest.mark.parametrize("size", [0, 1, 3 * MIB])
def test_payloads_of_any_size_that_fits_arrive(run: Any, serve: Any, peers: Any, size: int) -> None:
    payloads = [bytes([number]) * size for number in range(8)]

    async def main() -> None:
        async with serve() as broker:
            await Source.from_iterable(payloads).to(Sender(broker.send_address, queue="orders")).run()
            assert await stored(broker, peers, 8) == payloads

    run(main)


def test_the_first_address_that_answers_is_taken(run: Any, serve: Any, peers: Any) -> None:
    async def main() -> None:
        async with serve() as gone:
            nobody = gone.send_address
        async with serve() as broker:
            sender = Sender([nobody, broker.send_address], queue="orders", reconnect=QUICK)
            assert (await Source.of(b"a").to(sender).run()).messages == 1
            assert await stored(broker, peers, 1) == [b"a"]

    run(main)


def test_a_queue_that_is_deleted_under_a_sender_is_created_anew(run: Any, serve: Any, peers: Any) -> None:
    async def main() -> None:
        async with serve() as broker, peers() as opened:
            source: TestSource[bytes] = TestSource()
            running = source.to(Sender(broker.send_address, queue="orders", reconnect=QUICK)).run()
            await source.probe.expect_request()
            admin = await opened.open(broker.send_address, "admin", None)
            admin.send(Command(1, "queue.delete", {"name": "orders"}))
            await admin.expect(Result)
            source.probe.send_next(b"a")
            source.probe.send_complete()
            summary = await running
            assert (summary.messages, summary.reconnects) == (1, 1)
            assert await stored(broker, peers, 1) == [b"a"]

    run(main)


def test_what_upstream_gave_before_it_failed_is_sent_and_confirmed(run: Any, serve: Any, peers: Any) -> None:
    async def main() -> None:
        async with serve() as broker:
            source: TestSource[bytes] = TestSource()
            running = source.to(Sender(broker.send_address, queue="orders")).run()
            await source.probe.expect_request()
            source.probe.send_next(*numbered(10))
            source.probe.send_error(ZeroDivisionError("upstream"))
            with pytest.raises(ZeroDivisionError, match="upstream"):
                await running
            async with asyncio.timeout(3):
                assert await stored(broker, peers, 10) == numbered(10)

    run(main)


def test_a_cancelled_run_stops_its_source_and_ends_its_connection(run: Any, serve: Any, until: Any) -> None:
    async def main() -> None:
        async with serve() as broker:
            source: TestSource[bytes] = TestSource()
            running = source.to(Sender(broker.send_address, queue="orders")).run()
            await source.probe.expect_request()
            source.probe.send_next(b"a")
            running.cancel()
            await source.probe.expect_cancellation()
            with pytest.raises(asyncio.CancelledError):
                await running
            await until(lambda: not broker.connections)

    run(main)


def test_a_sender_can_be_run_again_and_goes_on_numbering(run: Any, serve: Any, peers: Any) -> None:
    async def main() -> None:
        async with serve() as broker:
            sender = Sender(broker.send_address, queue="orders", client_id="named")
            graph = Source.from_iterable(lambda: numbered(3)).to(sender)
            assert (await graph.run()).messages == 3
            assert (await graph.run()).messages == 3
            assert await stored(broker, peers, 6) == numbered(3) * 2

    run(main)


def test_what_cannot_be_a_sender_is_refused_when_it_is_made() -> None:
    with pytest.raises(InvalidNameError):
        Sender(queue="two words")
    with pytest.raises(InvalidNameError):
        Sender(queue="q", client_id="a\nb")
    with pytest.raises(LocalProtocolError, match="max_in_flight is 0"):
        Sender(queue="q", max_in_flight=0)


def test_a_scripted_refusal_for_good_fails_the_stream(run: Any) -> None:
    async def refuse(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.writelines(encode(Error("invalid-name", "no", close=True)))
        writer.close()

    async def main() -> None:
        server = await asyncio.start_server(refuse, "127.0.0.1", 0)
        async with server:
            address = f"127.0.0.1:{server.sockets[0].getsockname()[1]}"
            with pytest.raises(BrokerError, match="invalid-name"):
                await Source.of(b"a").to(Sender(address, queue="orders")).run()

    run(main)


def test_a_queue_that_rejects_fails_its_sender_and_holds_what_it_confirmed_and_nothing_behind(
    run: Any, serve: Any, peers: Any
) -> None:
    async def main() -> None:
        async with serve(max_queue_messages=20, overflow="reject") as broker:
            confirmed: list[Confirmation] = []
            flow = Sender(broker.send_address, queue="orders", max_batch_messages=7)
            with pytest.raises(QueueFullError, match="'orders' rejected") as caught:
                await Source.from_iterable(numbered(100)).via(flow).to(Sink.foreach(confirmed.append)).run()
            count = sum(confirmation.count for confirmation in confirmed)
            assert 0 < count <= 20
            assert caught.value.sequence == count
            assert await stored(broker, peers, count) == numbered(count)

    run(main)


def test_a_sender_that_drops_what_is_rejected_sends_the_rest(run: Any, serve: Any, peers: Any, until: Any) -> None:
    async def main() -> None:
        async with serve(max_queue_messages=20, overflow="reject") as broker:
            source: TestSource[bytes] = TestSource()
            sender = Sender(broker.send_address, queue="orders", max_batch_messages=10, on_rejected="drop")
            answers: list[Confirmation] = []
            running = source.via(sender).to(Sink.foreach(answers.append)).run()
            await source.probe.expect_request()
            source.probe.send_next(*numbered(16))
            await until(lambda: sum(answer.count for answer in answers) == 16)
            assert not any(answer.rejected for answer in answers)
            source.probe.send_next(*numbered(10))
            await until(lambda: sum(answer.count for answer in answers) == 26)
            kept = sum(answer.count for answer in answers if answer.rejected is None)
            assert 16 <= kept <= 20
            assert len(await stored(broker, peers, kept)) == kept
            source.probe.send_next(b"after")
            source.probe.send_complete()
            await running
            assert (answers[-1].sequence, answers[-1].count, answers[-1].rejected) == (kept, 1, None)
            assert await stored(broker, peers, 1) == [b"after"]

    run(main)


def test_delayed_messages_come_after_their_delay_and_in_batches_of_their_own(run: Any, serve: Any) -> None:
    async def main() -> None:
        async with serve() as broker:
            elements = [b"a", Timed(b"later", delay=0.08), b"b"]
            await Source.from_iterable(elements).to(Sender(broker.send_address, queue="orders")).run()
            found = await Receiver(broker.receive_address, queue="orders").take(3).to(Sink.collect()).run()
            assert [(d.payload, d.sequence) for d in found] == [(b"a", 0), (b"b", 2), (b"later", 1)]

    run(main)


def test_a_sender_without_a_name_of_its_own_says_so_and_others_are_not_forgotten_for_it(run: Any, serve: Any) -> None:
    async def main() -> None:
        async with serve() as broker:
            for client_id in (None, "named", None):
                sender = Sender(broker.send_address, queue="orders", client_id=client_id, reconnect=QUICK)
                assert (await Source.single(b"x").to(sender).run()).messages == 1
            log = broker.queues.logs()["orders"]
            assert dict(log.producers) == {"named": 1}
            assert len(log.temporary) == 2

    run(main)


def test_a_sender_without_a_name_of_its_own_duplicates_nothing_when_its_connection_breaks(
    run: Any, serve: Any, peers: Any, cutting: Any
) -> None:
    async def main() -> None:
        async with serve() as broker, cutting(broker.send_address) as proxy:
            # The answer to HELLO comes through, confirmations of what was sent do not all.
            proxy.down = [400, 400, 400, 400]
            sender = Sender(proxy.address, queue="orders", reconnect=QUICK, max_batch_messages=10)
            summary = await Source.from_iterable(numbered(500)).to(sender).run()
            assert summary.messages == 500
            assert proxy.connections > 1
            assert await stored(broker, peers, 500) == numbered(500)

    run(main)


@pytest.mark.parametrize("value", [1, "yes", None])
def test_an_option_temporary_that_is_neither_true_nor_false_is_refused(
    run: Any, serve: Any, peers: Any, value: Any
) -> None:
    async def main() -> None:
        async with serve() as broker, peers() as opened:
            peer = await opened.connect(broker.send_address)
            peer.send(Hello(VERSION, "sender", "orders", "p", {"temporary": value}))
            error = await peer.refusal()
            assert (error.code, "temporary" in error.text) == ("protocol-error", True)

    run(main)
