"""Tracing: a trace goes with a message from its sender through queues and handlers, and costs nothing where it is not asked for."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from opentelemetry import trace
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import SpanKind, StatusCode

from actors.batch import MAX_HEADERS_PER_MESSAGE
from streams import Sink, Source
from transport import (
    ArrowDelivery,
    Backoff,
    Delivery,
    Message,
    MessageBatch,
    QueueFullError,
    Receiver,
    Sender,
    StageClient,
    Timed,
    Tracing,
    TransactionClient,
    receive,
    receive_arrow,
    send,
    send_arrow,
)
from transport.clients.sender_batches import MAX_BATCH_BYTES
from transport.clients.trace_context import MAX_LINKS
from transport.testing import HostedBroker

ROOT = Path(__file__).resolve().parents[2]
INCOMING = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
INCOMING_TRACE = 0x0AF7651916CD43DD8448EB211C80319C


class Told:
    """What was exported."""

    def __init__(self) -> None:
        self._spans = InMemorySpanExporter()
        self._metrics = InMemoryMetricReader()
        self.tracers = TracerProvider()
        self.tracers.add_span_processor(SimpleSpanProcessor(self._spans))
        self.meters = MeterProvider([self._metrics])
        self.tracing = Tracing(self.tracers, self.meters)

    def spans(self, name: str | None = None) -> list[ReadableSpan]:
        return [span for span in self._spans.get_finished_spans() if name in (None, span.name)]

    def span(self, name: str) -> ReadableSpan:
        (found,) = self.spans(name)
        return found

    def points(self, metric: str) -> list[Any]:
        data = self._metrics.get_metrics_data()
        found = [] if data is None else data.resource_metrics[0].scope_metrics[0].metrics
        return [point for each in found if each.name == metric for point in each.data.data_points]


@pytest.fixture
def told() -> Iterator[Told]:
    told = Told()
    yield told
    told.tracers.shutdown()
    told.meters.shutdown()


def attributes(span: ReadableSpan) -> dict[str, Any]:
    return dict(span.attributes or {})


def trace_of(span: ReadableSpan) -> int:
    assert span.context is not None
    return span.context.trace_id


def child_of(span: ReadableSpan, parent: ReadableSpan) -> bool:
    return span.parent is not None and parent.context is not None and span.parent.span_id == parent.context.span_id


async def received(broker: Any, count: int, queue: str = "orders", **options: Any) -> list[Delivery]:
    found: list[Delivery] = []

    def note(delivery: Delivery) -> Delivery:
        found.append(delivery)
        return delivery

    receiver = Receiver(broker.receive_address, queue=queue, limit=count, **options)
    await receiver.map(note).to(Sink.acknowledge()).run()
    return found


@pytest.mark.parametrize("blocking", [False, True], ids=["handle", "handle_blocking"])
def test_one_trace_goes_through_two_queues_and_their_handlers(
    run: Any, serve: Any, told: Told, *, blocking: bool
) -> None:
    tracing = told.tracing

    async def main() -> None:
        async with serve() as broker:
            first = Receiver(broker.receive_address, queue="first", limit=1, tracing=tracing)
            second = Receiver(broker.receive_address, queue="second", limit=1, tracing=tracing)

            async def forward(delivery: Delivery) -> None:
                sender = Sender(broker.send_address, queue="second", tracing=tracing)
                await Source.single(delivery.payload + b"!").to(sender).run()

            def forward_blocking(delivery: Delivery) -> None:
                send(broker.send_address, "second", [delivery.payload + b"!"], tracing=tracing)

            async def work(delivery: Delivery) -> None:
                assert delivery.payload == b"hello!"
                trace.get_current_span().add_event("worked")

            with told.tracers.get_tracer("test").start_as_current_span("request"):
                sender = Sender(broker.send_address, queue="first", tracing=tracing)
                await Source.single(b"hello").to(sender).run()
            handled = first.handle_blocking(2, forward_blocking) if blocking else first.handle(2, forward)
            await handled.to(Sink.acknowledge()).run()
            await second.handle(1, work).to(Sink.acknowledge()).run()

    run(main)
    names = ["send first", "receive first", "process first", "send second", "receive second", "process second"]
    spans = {name: told.span(name) for name in ["request", *names]}
    assert len(told.spans()) == len(spans)
    assert len({trace_of(span) for span in spans.values()}) == 1
    assert child_of(spans["send first"], spans["request"])
    assert child_of(spans["receive first"], spans["send first"])
    assert child_of(spans["process first"], spans["send first"])
    assert child_of(spans["send second"], spans["process first"])
    assert child_of(spans["process second"], spans["send second"])
    assert [event.name for event in spans["process second"].events] == ["worked"]
    assert [spans[name].kind for name in names] == [SpanKind.PRODUCER, SpanKind.CLIENT, SpanKind.CONSUMER] * 2


def test_spans_say_what_the_conventions_ask_for(run: Any, serve: Any, told: Told) -> None:
    async def main() -> None:
        async with serve() as broker:
            sender = Sender(broker.send_address, queue="orders", client_id="shop", tracing=told.tracing)
            await Source.single(b"hello").to(sender).run()
            handled = Receiver(broker.receive_address, queue="orders", limit=1, tracing=told.tracing).handle(1, ids)
            await handled.to(Sink.acknowledge()).run()

    found: list[str] = []

    async def ids(delivery: Delivery) -> None:
        found.append(delivery.id.hex())

    run(main)
    sent, waited, processed = told.span("send orders"), told.span("receive orders"), told.span("process orders")
    for span, operation in ((sent, "send"), (waited, "receive"), (processed, "process")):
        common = {key: value for key, value in attributes(span).items() if key.startswith("messaging.")}
        assert common["messaging.system"] == "penstock"
        assert common["messaging.destination.name"] == "orders"
        assert common["messaging.operation.name"] == common["messaging.operation.type"] == operation
        assert common["messaging.message.body.size"] == 5
        assert span.status.status_code is StatusCode.UNSET
    assert attributes(sent)["messaging.client.id"] == "shop"
    assert attributes(sent)["server.address"] == "127.0.0.1"
    assert attributes(sent)["server.port"] > 0
    assert attributes(sent)["penstock.sequence"] == attributes(processed)["penstock.sequence"] == 0
    assert attributes(processed)["penstock.delivery_count"] == 1
    assert [attributes(processed)["messaging.message.id"]] == found
    assert [link.context.span_id for link in processed.links] == [sent.context.span_id]  # type: ignore[union-attr]
    assert waited.start_time <= waited.end_time <= processed.start_time  # type: ignore[operator]


def test_a_thousand_messages_have_a_span_each_and_are_counted(run: Any, serve: Any, told: Told) -> None:
    async def main() -> None:
        async with serve() as broker:
            sender = Sender(broker.send_address, queue="orders", max_batch_messages=64, tracing=told.tracing)
            payloads = [b"message %d" % number for number in range(1000)]
            await Source.from_iterable(payloads).to(sender).run()
            receiver = Receiver(broker.receive_address, queue="orders", limit=1000, tracing=told.tracing)
            await receiver.handle(8, nothing).to(Sink.acknowledge()).run()

    async def nothing(delivery: Delivery) -> None:
        assert delivery.headers.keys() == {"traceparent"}

    run(main)
    sent, processed = told.spans("send orders"), told.spans("process orders")
    assert len(sent) == len(processed) == 1000
    assert sorted(attributes(span)["penstock.sequence"] for span in sent) == list(range(1000))
    assert {trace_of(span) for span in sent} == {trace_of(span) for span in processed}
    assert len({trace_of(span) for span in sent}) == 1000, "nothing was current, so each begins a trace"
    assert [point.value for point in told.points("messaging.client.sent.messages")] == [1000]
    assert [point.value for point in told.points("messaging.client.consumed.messages")] == [1000]
    assert [point.count for point in told.points("messaging.client.operation.duration")] == [1000]
    (duration,) = told.points("messaging.process.duration")
    assert duration.count == 1000
    assert duration.explicit_bounds[0] == 0.005
    assert duration.attributes["messaging.destination.name"] == "orders"


@pytest.mark.parametrize("on_failure", ["stop", "reject"])
def test_what_a_handler_raises_is_recorded(run: Any, serve: Any, told: Told, on_failure: Any) -> None:
    async def fail(delivery: Delivery) -> None:
        if delivery.payload == b"bad":
            raise ValueError("cannot read it")

    async def main() -> None:
        async with serve(max_receives=3) as broker:
            sender = Sender(broker.send_address, queue="orders", tracing=told.tracing)
            await Source.from_iterable([b"bad", b"good"]).to(sender).run()
            receiver = Receiver(
                broker.receive_address, queue="orders", limit=1, tracing=told.tracing, on_failure=on_failure
            )
            running = receiver.handle(1, fail).to(Sink.acknowledge()).run()
            if on_failure == "stop":
                with pytest.raises(ValueError, match="cannot read it"):
                    await running
            else:
                await running

    run(main)
    (span,) = (span for span in told.spans("process orders") if attributes(span)["penstock.sequence"] == 0)
    assert (span.status.status_code, span.status.description) == (StatusCode.ERROR, "cannot read it")
    assert attributes(span)["error.type"] == "ValueError"
    assert [event.name for event in span.events] == ["exception"]
    failed = [point for point in told.points("messaging.process.duration") if "error.type" in point.attributes]
    assert [(point.count, point.attributes["error.type"]) for point in failed] == [(1, "ValueError")]


@pytest.mark.parametrize(
    "headers",
    [
        {"traceparent": "nonsense"},
        {"traceparent": "00-00000000000000000000000000000000-b7ad6b7169203331-01"},
        {"traceparent": b"\xff" * 55},
        {"traceparent": INCOMING.encode()},
        {"tracestate": "a=1,,,=", "baggage": ";;;=%zz," * 100},
        {"traceparent": INCOMING.upper()[:-1]},
    ],
)
def test_headers_that_are_no_trace_context_are_ignored(run: Any, serve: Any, told: Told, headers: Any) -> None:
    async def nothing(delivery: Delivery) -> None:
        assert delivery.headers == headers

    async def main() -> None:
        async with serve() as broker:
            await Source.single(Message(b"x", headers=headers)).to(Sender(broker.send_address, queue="orders")).run()
            receiver = Receiver(broker.receive_address, queue="orders", limit=1, tracing=told.tracing)
            await receiver.handle(1, nothing).to(Sink.acknowledge()).run()

    run(main)
    span = told.span("process orders")
    assert span.parent is None
    assert list(span.links) == []


def test_a_message_that_carries_a_context_is_sent_in_it(run: Any, serve: Any, told: Told) -> None:
    async def main() -> None:
        async with serve() as broker:
            sender = Sender(broker.send_address, queue="orders", tracing=told.tracing)
            with told.tracers.get_tracer("test").start_as_current_span("request"):
                mine = told.tracing.message(b"mine")
            other = Message(b"x", b"key", {"traceparent": INCOMING, "tracestate": "a=1", "mine": b"kept"}, b"i" * 16)
            await Source.from_iterable([other, mine]).to(sender).run()
            first, second = await received(broker, 2)
            assert (first.payload, first.key, first.id) == (b"x", b"key", b"i" * 16)
            assert first.headers.keys() == {"traceparent", "tracestate", "mine"}
            assert (first.headers["tracestate"], first.headers["mine"]) == ("a=1", b"kept")
            assert second.headers.keys() == {"traceparent"}
            assert first.headers["traceparent"] != INCOMING

    run(main)
    sent = {attributes(span)["penstock.sequence"]: span for span in told.spans("send orders")}
    assert trace_of(sent[0]) == INCOMING_TRACE
    assert attributes(sent[0])["messaging.message.id"] == (b"i" * 16).hex()
    assert child_of(sent[1], told.span("request"))


def test_a_batch_made_by_the_program_has_one_span_and_is_sent_as_it_is(run: Any, serve: Any, told: Told) -> None:
    async def main() -> None:
        async with serve() as broker:
            sender = Sender(broker.send_address, queue="orders", tracing=told.tracing)
            elements = [b"a", MessageBatch.from_payloads([b"b", b"c"]), Timed(b"d", ttl=60)]
            await Source.from_iterable(elements).to(sender).run()
            found = await received(broker, 4)
            assert [delivery.payload for delivery in found] == [b"a", b"b", b"c", b"d"]
            assert [bool(delivery.headers_raw) for delivery in found] == [True, False, False, True]

    run(main)
    assert [attributes(span).get("messaging.batch.message_count") for span in told.spans()] == [None, 2, None]
    assert [attributes(span)["penstock.sequence"] for span in told.spans()] == [0, 1, 3]
    assert [point.value for point in told.points("messaging.client.sent.messages")] == [4]


def test_a_delivered_batch_has_a_span_with_links_to_its_messages_as_many_as_are_kept(
    run: Any, serve: Any, told: Told
) -> None:
    async def main() -> None:
        async with serve() as broker:
            sender = Sender(broker.send_address, queue="orders", tracing=told.tracing)
            await Source.from_iterable([b"x"] * (MAX_LINKS + 1)).to(sender).run()
            receiver = Receiver(broker.receive_address, queue="orders", limit=MAX_LINKS + 1, tracing=told.tracing)
            async for batch in receiver.batches():
                with told.tracing.process(batch) as span:
                    assert trace.get_current_span() is span
                batch.acknowledge()

    run(main)
    spans = told.spans("process orders")
    assert sum(attributes(span)["messaging.batch.message_count"] for span in spans) == MAX_LINKS + 1
    sent = {span.context.span_id for span in told.spans("send orders")}  # type: ignore[union-attr]
    for span in spans:
        linked = {link.context.span_id for link in span.links}
        assert len(linked) == min(attributes(span)["messaging.batch.message_count"], MAX_LINKS)
        assert linked <= sent
    assert sum(point.value for point in told.points("messaging.client.consumed.messages")) == MAX_LINKS + 1


def test_arrow_in_and_out_is_traced_a_batch_at_a_time(told: Told) -> None:
    pa = pytest.importorskip("pyarrow")
    with HostedBroker() as broker:
        with told.tracers.get_tracer("shop").start_as_current_span("export") as export:
            send_arrow(broker.send_address, "orders", pa.array(["a", "b", "c"]), tracing=told.tracing)
        sent = told.span("send orders")
        assert sent.parent is not None
        assert sent.parent.span_id == export.get_span_context().span_id
        assert attributes(sent)["messaging.batch.message_count"] == 3
        reader = receive_arrow(broker.receive_address, "orders", count=3, tracing=told.tracing)
        assert reader.read_all().num_rows == 3
    (consumed,) = told.points("messaging.client.consumed.messages")
    assert consumed.value == 3


def test_an_arrow_delivery_is_processed_with_links_to_its_messages(run: Any, serve: Any, told: Told) -> None:
    pytest.importorskip("pyarrow")

    async def main() -> None:
        async with serve() as broker:
            sender = Sender(broker.send_address, queue="orders", tracing=told.tracing)
            await Source.of(b"a", b"b").to(sender).run()

            def work(delivery: ArrowDelivery) -> ArrowDelivery:
                with told.tracing.process(delivery):
                    return delivery

            receiver = Receiver(broker.receive_address, queue="orders", limit=2)
            await receiver.arrow().map(work).to(Sink.acknowledge()).run()

    run(main)
    links = {link.context.span_id for span in told.spans("process orders") for link in span.links}
    assert links == {span.context.span_id for span in told.spans("send orders") if span.context is not None}


def test_a_message_of_a_transaction_carries_the_context_that_it_was_given(told: Told) -> None:
    with HostedBroker() as broker:
        with told.tracers.get_tracer("shop").start_as_current_span("write") as write:
            batch = MessageBatch.from_messages([told.tracing.message(b"a")])
        with StageClient(broker.send_address, queue="orders", writer="w", version=1, stage="s") as stage:
            stage.send(batch)
            stored = stage.finish()
        with TransactionClient(broker.send_address, writer="w", version=1) as transaction:
            assert transaction.commit([stored]) == 1
        for delivery in receive(broker.receive_address, "orders", limit=1):
            with told.tracing.process(delivery):
                assert delivery.payload == b"a"
    processed = told.span("process orders")
    assert processed.parent is not None
    assert processed.parent.span_id == write.get_span_context().span_id


def test_a_message_without_room_for_a_context_goes_without(run: Any, serve: Any, told: Told) -> None:
    full = {f"h{number}": "x" for number in range(MAX_HEADERS_PER_MESSAGE)}
    large = bytes(MAX_BATCH_BYTES)

    async def main() -> None:
        async with serve() as broker:
            sender = Sender(broker.send_address, queue="orders", tracing=told.tracing)
            await Source.from_iterable([Message(b"full", headers=full), large]).to(sender).run()
            first, second = await received(broker, 2)
            assert first.headers == full
            assert second.payload == large
            assert second.headers_raw == b""

    run(main)
    assert len(told.spans("send orders")) == 2


def test_what_is_rejected_has_failed(run: Any, serve: Any, told: Told) -> None:
    async def main() -> None:
        async with serve(overflow="reject", max_queue_messages=2) as broker:
            sender = Sender(broker.send_address, queue="orders", max_batch_messages=1, tracing=told.tracing)
            with pytest.raises(QueueFullError):
                await Source.from_iterable([b"1", b"2", b"3", b"4", b"5"]).to(sender).run()

    run(main)
    spans = told.spans("send orders")
    stored = [span for span in spans if span.status.status_code is StatusCode.UNSET]
    assert len(stored) == 2
    failed = [span for span in spans if span.status.status_code is StatusCode.ERROR]
    assert failed
    assert {attributes(span)["error.type"] for span in failed} == {"QueueFullError"}
    counted = {
        point.attributes.get("error.type"): point.value for point in told.points("messaging.client.sent.messages")
    }
    assert counted == {None: 2, "QueueFullError": len(failed)}


@pytest.mark.parametrize("direction", ["up", "down"])
def test_what_is_sent_again_on_another_connection_has_one_span(
    run: Any, serve: Any, cutting: Any, told: Told, direction: str
) -> None:
    payloads = [b"message %d" % number for number in range(60)]

    def sender(address: str) -> Sender:
        quick = Backoff(minimum=0.001, maximum=0.01)
        return Sender(address, queue="orders", max_batch_messages=7, reconnect=quick, tracing=told.tracing)

    async def main() -> None:
        async with serve() as broker, cutting(broker.send_address) as proxy:
            await Source.from_iterable(payloads).to(sender(proxy.address)).run()
            whole = len((proxy.traffic if direction == "up" else proxy.received)[0])
        for share in (0.3, 0.5, 0.9):
            async with serve() as broker, cutting(broker.send_address) as proxy:
                setattr(proxy, direction, [int(whole * share)])
                summary = await Source.from_iterable(payloads).to(sender(proxy.address)).run()
                assert summary.messages == 60
                found = await received(broker, 60)
                assert [delivery.payload for delivery in found] == payloads
                carried = [str(delivery.headers["traceparent"]).split("-")[1] for delivery in found]
                # In the order of the messages, each of which begins a trace.
                assert carried == [f"{trace_of(span):032x}" for span in told.spans("send orders")[-60:]]

    run(main)
    spans = told.spans("send orders")
    assert len(spans) == 240
    assert {span.status.status_code for span in spans} == {StatusCode.UNSET}


def test_what_was_under_way_when_a_run_was_cancelled_is_said_to_be_unconfirmed(run: Any, told: Told) -> None:
    async def main() -> None:
        # Nothing listens there, and nothing is requested: what there is comes by itself.
        sender = Sender("127.0.0.1:1", queue="orders", tracing=told.tracing)
        stage = sender._stage()(sender, lambda _: None, lambda _: None)
        stage.on_next(b"x")
        stage.cancel()
        stage.cancel()
        stage.on_next(b"y")

    run(main)
    span = told.span("send orders")
    assert attributes(span)["error.type"] == "unconfirmed"
    assert span.status.status_code is StatusCode.ERROR


@pytest.mark.parametrize(
    "element", [7, "text", Message("text"), Message(b"x", headers={"a": 1}), Message(b"x", headers=[1])]
)  # type: ignore[list-item, arg-type, dict-item]
def test_what_is_no_message_fails_as_without_tracing(run: Any, serve: Any, told: Told, element: Any) -> None:
    async def main() -> None:
        async with serve() as broker:
            failures = []
            for tracing in (None, told.tracing):
                sender = Sender(broker.send_address, queue="orders", tracing=tracing)
                with pytest.raises(Exception) as failed:  # noqa: PT011 - which one is compared
                    await Source.single(element).to(sender).run()
                failures.append((failed.type, str(failed.value)))
            assert failures[0] == failures[1]

    run(main)
    assert all(span.status.status_code is StatusCode.ERROR for span in told.spans())


class SpeechlessError(Exception):
    def __str__(self) -> str:
        raise KeyError("no words")


def test_an_error_that_fails_to_say_what_it_is_fails_its_message_as_without_tracing(
    run: Any, serve: Any, told: Told
) -> None:
    async def fail(_delivery: Delivery) -> None:
        raise SpeechlessError

    def broken() -> Iterator[bytes]:
        yield b"a"
        raise SpeechlessError

    async def main() -> None:
        async with serve() as broker:
            with pytest.raises(SpeechlessError):
                await (
                    Source.from_iterable(broken).to(Sender(broker.send_address, queue="a", tracing=told.tracing)).run()
                )
            await Source.single(b"a").to(Sender(broker.send_address, queue="orders")).run()
            receiver = Receiver(broker.receive_address, queue="orders", tracing=told.tracing)
            with pytest.raises(SpeechlessError):
                await receiver.handle(1, fail).to(Sink.acknowledge()).run()

    run(main)
    (span,) = told.spans("process orders")
    assert attributes(span)["error.type"] == "SpeechlessError"
    assert (span.status.status_code, span.status.description) == (StatusCode.ERROR, "SpeechlessError")


def test_a_handler_that_is_cancelled_has_not_failed(run: Any, serve: Any, told: Told) -> None:
    async def main() -> None:
        begun = asyncio.Event()

        async def forever(delivery: Delivery) -> None:
            begun.set()
            await asyncio.Event().wait()

        async with serve() as broker:
            await Source.single(b"x").to(Sender(broker.send_address, queue="orders")).run()
            receiver = Receiver(broker.receive_address, queue="orders", tracing=told.tracing)
            running = receiver.handle(1, forever).to(Sink.acknowledge()).run()
            await begun.wait()
            await running.stop()

    run(main)
    span = told.span("process orders")
    assert span.status.status_code is StatusCode.UNSET
    assert attributes(span)["error.type"] == "CancelledError"


def test_a_propagator_that_fails_fails_no_message(run: Any, serve: Any, told: Told) -> None:
    class Broken:
        fields: frozenset[str] = frozenset()

        def inject(self, *_: Any, **__: Any) -> None:
            raise RuntimeError("broken")

        extract = inject

    tracing = Tracing(told.tracers, told.meters, propagator=Broken())  # type: ignore[arg-type]

    async def main() -> None:
        async with serve() as broker:
            await Source.single(b"x").to(Sender(broker.send_address, queue="orders", tracing=tracing)).run()
            elements = [Message(b"y", headers={"traceparent": INCOMING})]
            await Source.from_iterable(elements).to(Sender(broker.send_address, queue="orders", tracing=tracing)).run()
            receiver = Receiver(broker.receive_address, queue="orders", limit=2, tracing=tracing)
            await receiver.handle(1, nothing).to(Sink.acknowledge()).run()

    async def nothing(delivery: Delivery) -> None: ...

    run(main)
    assert len(told.spans("process orders")) == 2


@pytest.mark.parametrize("how", ["off", "no SDK"])
def test_without_tracing_or_an_sdk_nothing_is_added_to_a_message(run: Any, serve: Any, how: str) -> None:
    async def nothing(delivery: Delivery) -> None: ...

    async def main() -> None:
        tracing = None if how == "off" else Tracing()
        async with serve() as broker:
            sender = Sender(broker.send_address, queue="orders", tracing=tracing)
            await Source.from_iterable([b"x", Message(b"y", headers={"a": "b"})]).to(sender).run()
            first, second = await received(broker, 2)
            assert first.headers_raw == b""
            assert second.headers == {"a": "b"}
            await Source.single(b"x").to(sender).run()
            receiver = Receiver(broker.receive_address, queue="orders", limit=1, tracing=tracing)
            await receiver.handle(1, nothing).to(Sink.acknowledge()).run()

    run(main)


PROGRAM = """
import sys
from transport import Receiver, Sender, receive, send
Sender(queue="orders"); Receiver(queue="orders")
print(*(name for name in sys.modules if name.startswith(("opentelemetry", "transport.clients.trac"))))
"""


def test_who_does_not_trace_loads_nothing_of_it() -> None:
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM], cwd=ROOT, capture_output=True, text=True, timeout=60, check=True
    )
    assert done.stdout.strip() == ""


def test_without_the_package_one_line_says_how_to_get_it() -> None:
    program = "import sys; sys.modules['opentelemetry'] = None; from transport import Tracing"
    done = subprocess.run(
        [sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, timeout=60, check=False
    )
    assert done.stderr.splitlines()[-1].startswith("ImportError: Tracing in Penstock's clients needs opentelemetry-api")
    assert done.stderr.splitlines()[-1].endswith("pip install 'penstock-mq[otel]'")
