"""The rules of Reactive Streams where there is a network under them: connections, senders and receivers, on real sockets.

What cannot hold there, and how it is told:

* TCP has no elements: bytes are cut anew on their way. Where elements are counted the socket is read a byte at a time, or the elements are
  records of `RECORD` bytes that are cut out again behind the connection.
* The end of a connection is seen by reading, and nothing is read without demand. A processor that is to pass the end on without demand
  needs a buffer, which asks ahead.
* Listening and receiving do not end by themselves, so there is no test of their end, but for a receiver with a limit.
* A receiver connects with its first request (demand goes all the way to the broker), so it cannot fail before that.
* A queue parts its two sides: what happens to its sender is no signal to its receiver. Where a broker stands in the middle of one
  processor, the end and the failure are messages like any other.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import socket
import unittest
from collections.abc import Callable, Coroutine, Iterable
from typing import Any

import pytest

from streams import UNBOUNDED, Flow, Materialization, Processor, Publisher, Running, Sink, Source, Subscriber
from streams.stages.relay import JoinedProcessor
from streams.testkit.verification import (
    Environment,
    IdentityProcessorVerification,
    PublisherVerification,
    SubscriberBlackboxVerification,
    Verification,
)
from streams.testkit.verification.cost import is_quick
from streams.testkit.verification.manual_subscriber import ManualSubscriber
from streams.testkit.verification.whitebox import WhiteboxStage
from transport import Backoff, Broker, BrokerConfig, Confirmation, Delivery, Receiver, Sender
from transport.clients.sender_stage import FIRST_REQUEST
from transport.tcp import Binding, IncomingConnection, bind, outgoing_connection
from transport.tcp import flow as tcp_flow
from transport.wire.address import Address

SILENCE = 0.01
"""Real seconds for which nothing may come: many turns of the loop, and the way through a socket of this machine and back."""
DEADLINE = 20.0
"""Seconds for a whole test: reached only when something that must come does not."""
FREE_PORT = "127.0.0.1:0"
RECORD = 8
"""Bytes of an element on its way through a connection."""
MOST_CONNECTIONS = 20
MOST_MESSAGES = 100
MANY_MESSAGES = 20_000
HURRY = Backoff(minimum=0.001, maximum=0.01, give_up_after=0.02)
LAST = b"last"
"""What is sent to say that there is no more."""


class Captured(Publisher[Any]):
    """An upstream that keeps the subscriber it is given, for the kit to signal to."""

    subscriber: Subscriber[Any]

    def subscribe(self, subscriber: Subscriber[Any]) -> None:
        self.subscriber = subscriber


class OverSockets(Verification):
    """On a real loop; what a test has opened is closed, and awaited, after it."""

    timeout = 5.0
    silence = SILENCE
    _closing: contextlib.AsyncExitStack

    def run(self, coro: Coroutine[Any, Any, Any]) -> Any:
        async def bounded() -> None:
            async with asyncio.timeout(DEADLINE), contextlib.AsyncExitStack() as self._closing:
                await coro

        return asyncio.run(bounded())

    def keep(self, running: Running[Any]) -> Running[Any]:
        """A run that ends with the test."""

        async def settled() -> None:
            with contextlib.suppress(Exception, asyncio.CancelledError):
                running.cancel()
                await running  # however it ends: a test that breaks a rule on purpose has made it fail

        self._closing.push_async_callback(settled)
        return running

    def publisher_of(self, source: Source[Any]) -> Publisher[Any]:
        """The very publisher of a run of ``source``."""
        published: list[Publisher[Any]] = []

        def attach(publisher: Publisher[Any], m: Materialization) -> asyncio.Future[None]:
            published.append(publisher)
            return m.loop.create_future()

        self.keep(source.to(Sink(attach, "kit")).run())
        return published[0]

    def subscriber_of(self, sink: Any) -> Subscriber[Any]:
        """The very subscriber of a run of ``sink``."""
        upstream = Captured()
        self.keep(Source(lambda _m: (upstream, None), "kit").to(sink).run())
        return upstream.subscriber

    async def serving(self, handle: Callable[[asyncio.StreamReader, asyncio.StreamWriter], Any]) -> str:
        """A server of asyncio's own; gives its address."""
        handlers: set[asyncio.Task[Any]] = set()

        async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            task = asyncio.current_task()
            assert task is not None
            handlers.add(task)
            with contextlib.suppress(OSError):
                await handle(reader, writer)
                writer.close()

        server = await asyncio.start_server(serve, "127.0.0.1", 0)

        async def stop() -> None:
            server.close()
            for handler in handlers:
                handler.cancel()
            await asyncio.gather(*handlers, return_exceptions=True)

        self._closing.push_async_callback(stop)
        host, port = server.sockets[0].getsockname()
        return f"{host}:{port}"

    async def broker(self) -> Broker:
        return await self._closing.enter_async_context(
            Broker(BrokerConfig(send_address=FREE_PORT, receive_address=FREE_PORT))
        )

    def connect(self, address: Address) -> None:
        """A peer that connects, and neither sends nor reads."""
        peer = socket.create_connection((address.host, address.port), timeout=self.timeout)
        self._closing.callback(peer.close)

    def background(self, coro: Coroutine[Any, Any, None]) -> None:
        """A task that ends with the test."""
        task = asyncio.create_task(coro)

        async def stop() -> None:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)

        self._closing.push_async_callback(stop)


def closed_port() -> str:
    """An address that nobody listens on."""
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        host, port = unused.getsockname()
    return f"{host}:{port}"


def silent() -> Source[Any]:
    """Neither elements nor an end."""
    return Source(lambda _m: (_Silent(), None), "silent")


class _Silent(Publisher[Any]):
    def subscribe(self, subscriber: Subscriber[Any]) -> None:
        class Nothing:
            def request(self, n: int) -> None: ...

            def cancel(self) -> None: ...

        subscriber.on_subscribe(Nothing())


def counted(elements: int) -> Iterable[int]:
    return itertools.count() if elements >= UNBOUNDED else range(elements)


def payload(n: int) -> bytes:
    return b"%0*d" % (RECORD, n)


def records() -> Callable[[bytes], list[bytes]]:
    """Cuts records out of chunks of any size."""
    rest = bytearray()

    def cut(chunk: bytes) -> list[bytes]:
        rest.extend(chunk)
        whole = len(rest) // RECORD
        found = [bytes(rest[i * RECORD : (i + 1) * RECORD]) for i in range(whole)]
        del rest[: whole * RECORD]
        return found

    return cut


async def echo(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    while chunk := await reader.read(65536):
        writer.write(chunk)
        await writer.drain()


class TestIncomingBytes(OverSockets, PublisherVerification[bytes]):
    """What arrives on a connection, read a byte at a time."""

    @pytest.fixture(autouse=True)
    def _a_byte_an_element(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(tcp_flow, "CHUNK_BYTES", 1)

    async def create_publisher(self, elements: int) -> Publisher[bytes]:
        async def send(_reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            left = elements
            while left > 0:
                some = min(left, 4096)
                left -= some
                writer.write(b"x" * some)
                await writer.drain()

        return self.publisher_of(silent().via(outgoing_connection(await self.serving(send))))

    def create_failed_publisher(self) -> Publisher[bytes]:
        return self.publisher_of(silent().via(outgoing_connection(closed_port())))


class TestConnections(OverSockets, PublisherVerification[IncomingConnection]):
    """What is accepted on a listening socket."""

    max_elements = MOST_CONNECTIONS
    completes = False

    @pytest.fixture(autouse=True)
    def _what_is_handed_on_is_closed(self, monkeypatch: pytest.MonkeyPatch) -> None:
        made = IncomingConnection.__init__

        def noted(connection: IncomingConnection, tcp: tcp_flow.TcpFlow) -> None:
            made(connection, tcp)
            self._closing.callback(connection.close)

        monkeypatch.setattr(IncomingConnection, "__init__", noted)

    def create_publisher(self, elements: int) -> Publisher[IncomingConnection]:
        publisher = self.publisher_of(bind(FREE_PORT))
        assert isinstance(publisher, Binding)
        self.background(self._connect(publisher, elements))
        return publisher

    async def _connect(self, binding: Binding, connections: int) -> None:
        address = await binding.address()
        for _ in range(connections):
            self.connect(address)

    async def create_failed_publisher(self) -> Publisher[IncomingConnection]:
        return self.publisher_of(bind(await self.serving(echo)))


class TestReceiver(OverSockets, PublisherVerification[Delivery]):
    """What a broker delivers."""

    max_elements = MOST_MESSAGES
    completes = False

    async def create_publisher(self, elements: int) -> Publisher[Delivery]:
        broker = await self.filled(elements)
        return self.publisher_of(Receiver(broker.receive_address, queue="orders"))

    async def filled(self, elements: int) -> Broker:
        broker = await self.broker()
        sender = Sender(broker.send_address, queue="orders")
        await Source.from_iterable(map(payload, range(elements))).to(sender).run()
        return broker


def test_a_receiver_that_is_cancelled_gives_back_thousands_of_messages_at_once(run: Any, serve: Any) -> None:
    cancelled: list[bool] = []

    class Leaving(ManualSubscriber[Delivery]):
        def received(self, _element: Delivery) -> None:
            if self.count == FIRST_REQUEST + 1:  # the first of a batch of a thousand
                cancelled.append(is_quick(self.cancel))

    async def main() -> None:
        async with serve() as broker:
            sender = Sender(broker.send_address, queue="orders", max_batch_messages=MANY_MESSAGES)
            await Source.from_iterable([b"x"] * MANY_MESSAGES).to(sender).run()
            leaving = Leaving(Environment(5.0, SILENCE, "3.5"))

            def attach(publisher: Publisher[Any], m: Materialization) -> asyncio.Future[None]:
                publisher.subscribe(leaving)
                return m.loop.create_future()

            receiver = Receiver(broker.receive_address, queue="orders", max_in_flight=MANY_MESSAGES)
            running = receiver.to(Sink(attach)).run()
            leaving.request(MANY_MESSAGES)
            await leaving.elements(FIRST_REQUEST + 1, "3.5")
            await leaving.nothing("3.5", "it was cancelled")
            running.cancel()
            with pytest.raises(asyncio.CancelledError):
                await running
            last = await Receiver(broker.receive_address, queue="orders", limit=MANY_MESSAGES).run_with(
                Sink.acknowledge()
            )
            assert last == MANY_MESSAGES

    run(main)
    assert cancelled == [True]


class TestReceiverOfBatches(TestReceiver):
    """What a broker delivers, a batch at a time."""

    async def create_publisher(self, elements: int) -> Publisher[Any]:
        broker = await self.broker()
        sender = Sender(broker.send_address, queue="orders", max_batch_messages=1)
        await Source.from_iterable(map(payload, range(elements))).to(sender).run()
        receiver = Receiver(broker.receive_address, queue="orders", max_in_flight=1)
        return self.publisher_of(receiver.batches().map(acknowledged))


class TestReceiverWithALimit(TestReceiver):
    """What a broker delivers, acknowledged at once: it ends with the last."""

    completes = True

    async def create_publisher(self, elements: int) -> Publisher[Delivery]:
        if elements < 1:
            raise unittest.SkipTest("a receiver's limit is 1 or more")
        broker = await self.filled(elements)
        receiver = Receiver(broker.receive_address, queue="orders", limit=elements)
        return self.publisher_of(receiver.map(acknowledged))


def acknowledged(delivery: Any) -> Any:
    delivery.acknowledge()
    return delivery


class TestConfirmations(OverSockets, PublisherVerification[Confirmation]):
    """What a sender says is stored, a message a batch."""

    async def create_publisher(self, elements: int) -> Publisher[Confirmation]:
        broker = await self.broker()
        sender = Sender(broker.send_address, queue="orders", max_batch_messages=1)
        return self.publisher_of(Source.from_iterable(map(payload, counted(elements))).via(sender))

    def create_failed_publisher(self) -> Publisher[Confirmation]:
        return self.publisher_of(silent().via(Sender(closed_port(), queue="orders", reconnect=HURRY)))


class TestSender(OverSockets, SubscriberBlackboxVerification[bytes]):
    """The end of a stream that goes to a broker."""

    async def create_subscriber(self) -> Subscriber[bytes]:
        broker = await self.broker()
        return self.subscriber_of(Sender(broker.send_address, queue="orders"))

    def create_element(self, n: int) -> bytes:
        return payload(n)


class TestSenderInTheMiddle(TestSender):
    """The same where the stream goes on with confirmations."""

    async def create_subscriber(self) -> Subscriber[bytes]:
        broker = await self.broker()
        sender = Sender(broker.send_address, queue="orders")
        return self.subscriber_of(Flow[bytes, bytes].identity().via(sender).to(Sink.ignore()))


class TestOutgoingBytes(OverSockets, SubscriberBlackboxVerification[bytes]):
    """What is sent on a connection."""

    async def create_subscriber(self) -> Subscriber[bytes]:
        return self.subscriber_of(outgoing_connection(await self.serving(echo)).to(Sink.ignore()))

    def create_element(self, n: int) -> bytes:
        return payload(n)


class TestAnswers(TestOutgoingBytes):
    """What is sent on a connection that was accepted."""

    async def create_subscriber(self) -> Subscriber[bytes]:
        upstream = Captured()
        accepted = asyncio.Event()

        def handle(connection: IncomingConnection) -> None:
            self.keep(connection.handle_with(Flow(lambda _incoming, _m: upstream)))
            accepted.set()

        binding: Binding = self.keep(bind(FREE_PORT).run_with(Sink.foreach(handle))).value
        self.connect(await binding.address())
        await accepted.wait()
        return upstream.subscriber


class Between(OverSockets, IdentityProcessorVerification[int]):
    """A processor that asks its upstream for elements as soon as it is connected."""

    _staged = False

    def create_element(self, n: int) -> int:
        return n

    async def stage(self) -> WhiteboxStage[int]:
        stage = await super().stage()
        if self._staged:
            # Another beside the first: what it asks for by itself, it is to have asked for before the first is looked at.
            await stage.subscription.expect_demand(1, "3.1")
        self._staged = True
        return stage


class TestThroughAConnection(Between):
    """A processor with a TCP connection in the middle: to an echo and back."""

    async def create_processor(self, buffer_size: int) -> Processor[int, int]:
        connection = outgoing_connection(await self.serving(echo))
        there: Flow[int, bytes] = Flow[int, int].identity().map(payload).via(connection)
        back = there.map_concat(records()).map(int).buffer(buffer_size)
        processor: Processor[int, int] = self.keep(back.to_processor().run()).value
        return processor


class TestThroughABroker(Between):
    """A processor with a queue in the middle, from a sender to a receiver: its end and its failure are messages as well."""

    async def create_processor(self, buffer_size: int) -> Processor[int, int]:
        broker = await self.broker()
        failures: list[BaseException] = []

        def decoded(message: bytes) -> int:
            if failures and message == LAST:
                raise failures[0]
            return int(message)

        there = (
            Source[int]
            .as_subscriber()
            .map(payload)
            .recover(lambda error: failures.append(error) or LAST)
            .concat(Source.single(LAST))
            .to(Sender(broker.send_address, queue="through"))
        )
        sending = self.keep(there.run())
        back = (
            Receiver(broker.receive_address, queue="through")
            .map(lambda delivery: acknowledged(delivery).payload)
            .take_while(lambda message: message != LAST or bool(failures))
            .map(decoded)
            .buffer(buffer_size)
            .watch_termination(lambda _error: sending.cancel())
            .to(Sink.as_publisher())
        )
        return JoinedProcessor(sending.value, self.keep(back.run()).value)
