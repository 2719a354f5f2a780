"""`Sender` against a real broker: confirmation, back-pressure, sizes, and the ways in which a run ends."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Any

import pytest

from streams import Flow, Sink, Source
from streams.testkit import TestSink, TestSource, settle
from tests.decoding import FrameDecoder
from tests.transport.sender_helpers import QUICK, numbered, stored
from transport import (
    BrokerError,
    Confirmation,
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
from transport.errors import InvalidNameError
from transport.wire.codec import decode, encode
from transport.wire.messages import (
    Command,
    Demand,
    Error,
    Result,
    Send,
    Sent,
    Welcome,
)

MIB = 1 << 20


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
            async with asyncio.timeout(20):
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
            async with asyncio.timeout(20):
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
