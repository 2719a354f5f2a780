"""Handlers, codecs and programs that do what nobody should: no message is lost, and the consumer ends as it says."""

from __future__ import annotations

import asyncio
import contextvars
import functools
import logging
import signal
import sys
import warnings
from concurrent.futures import CancelledError as FutureCancelledError
from typing import Any

import pytest

from tests.transport.consumer.test_consumer import Served, counted, letters, sent
from tests.transport.programs import BrokerProcess
from tests.transport.receiver_helpers import row
from transport import (
    Administration,
    Consumer,
    DeadLetterError,
    Delivery,
    LocalProtocolError,
    PartlyFailedError,
)

RETRY = 0.01


class OutcomeError(BaseException):
    """No `Exception`, as those are with which a test is told to fail."""


class UnspeakableError(Exception):
    def __str__(self) -> str:
        raise ZeroDivisionError("no text")


def raising(error: BaseException, *, kind: str) -> Any:
    def called(delivery: Delivery) -> None:
        raise error

    async def awaited(delivery: Delivery) -> None:
        raise error

    return called if kind == "plain" else awaited


# What is raised


@pytest.mark.parametrize("kind", ["async", "plain"])
@pytest.mark.parametrize(
    ("error", "text"),
    [
        (asyncio.CancelledError("somebody else's"), "ancelled"),
        (FutureCancelledError(), "CancelledError"),
        (UnspeakableError(), "UnspeakableError"),
        (ExceptionGroup("two", [ValueError("a"), OSError("b")]), "two"),
        (StopIteration(), "StopIteration"),
        (OutcomeError(), "OutcomeError"),
        (BaseExceptionGroup("two", [OutcomeError()]), "two"),
    ],
)
def test_whatever_a_handler_raises_its_message_has_failed_and_the_consumer_goes_on(
    run: Any, serve: Any, kind: str, error: BaseException, text: str
) -> None:
    async def main() -> None:
        async with serve(max_receives=2) as broker:
            await sent(broker, b"x")
            await sent(broker, b"y", queue="emails")
            _, enough, note = counted(1)
            consumer = Consumer(broker.receive_address, queue="orders", retry_delay=RETRY)
            consumer.handler(raising(error, kind=kind))

            @consumer.handler(queue="emails")
            async def other(payload: bytes) -> None:
                await letters(broker, 1)
                note(payload)

            async with Served(consumer):
                await enough.wait()
                assert consumer.healthy()
            assert text in str(consumer.statistics()["orders"].last_failure)
            assert consumer.statistics()["orders"].returned == 2

    run(main)


@pytest.mark.parametrize("kind", ["plain"])
@pytest.mark.parametrize("error", [SystemExit(3), KeyboardInterrupt(), GeneratorExit()])
def test_a_function_that_would_end_its_thread_fails_its_message_only(
    run: Any, serve: Any, kind: str, error: BaseException
) -> None:
    async def main() -> None:
        async with serve(max_receives=1) as broker:
            await sent(broker, b"x")
            consumer = Consumer(broker.receive_address, queue="orders", retry_delay=RETRY)
            consumer.handler(raising(error, kind=kind))
            async with Served(consumer):
                await letters(broker, 1)
                assert consumer.healthy()
            assert type(error).__name__ in str(consumer.statistics()["orders"].last_failure)

    run(main)


@pytest.mark.parametrize("kind", ["async", "plain"])
@pytest.mark.parametrize("error", [asyncio.CancelledError("x"), StopIteration("x"), UnspeakableError()])
def test_with_stop_whatever_is_raised_ends_the_consumer_with_an_error(
    run: Any, serve: Any, peers: Any, kind: str, error: BaseException
) -> None:
    async def main() -> None:
        async with serve() as broker:
            await sent(broker, b"x")
            consumer = Consumer(broker.receive_address, queue="orders", on_failure="stop")
            consumer.handler(raising(error, kind=kind))
            with pytest.raises(Exception):  # noqa: B017, PT011 - which, the cases above say
                await consumer.serve()
            assert (await row(broker, peers))["ready"] == 1

    run(main)


def test_a_handler_that_cancels_itself_fails_its_message_and_the_next_is_handled_as_ever(run: Any, serve: Any) -> None:
    async def main() -> None:
        async with serve(max_receives=1) as broker:
            await sent(broker, b"bad", b"good")
            noted, enough, note = counted(1)
            consumer = Consumer(broker.receive_address, queue="orders", concurrency=1, retry_delay=RETRY)

            @consumer.handler
            async def work(payload: bytes) -> None:
                task = asyncio.current_task()
                assert task is not None
                if payload == b"bad":
                    task.cancel()
                    await asyncio.Event().wait()
                async with asyncio.TaskGroup() as group:
                    group.create_task(asyncio.Event().wait()).cancel()
                note((payload, task.cancelling()))

            async with Served(consumer):
                await enough.wait()
                (letter,) = await letters(broker, 1)
            assert letter.payload == b"bad"
            assert noted == [(b"good", 0)]

    run(main)


@pytest.mark.parametrize(
    "reason",
    [ValueError("no such customer"), 17, None, b"bytes", "\ud800"],
    ids=["error", "number", "none", "bytes", "no text"],
)
def test_the_reason_of_a_dead_letter_may_be_anything(
    run: Any, serve: Any, reason: Any, caplog: pytest.LogCaptureFixture
) -> None:
    # What is logged goes with the test's report, which takes no text that is none.
    caplog.set_level(logging.CRITICAL, "penstock.receiver")

    async def main() -> None:
        async with serve(max_receives=5) as broker:
            await sent(broker, b"x")
            consumer = Consumer(broker.receive_address, queue="orders")
            consumer.handler(raising(DeadLetterError(reason), kind="plain"))
            async with Served(consumer):
                (letter,) = await letters(broker, 1)
            said = str(letter.headers["penstock-dead-error"])
            assert said == ("?" if reason == "\ud800" else str(reason))

    run(main)


# Returning


@pytest.mark.parametrize("batch", [False, True])
def test_a_function_that_gives_a_coroutine_back_has_not_handled_its_message(run: Any, serve: Any, batch: bool) -> None:
    async def never(payload: Any) -> None: ...

    def decorated(payload: bytes) -> Any:
        return never(payload)

    def decorated_batch(payloads: list[bytes]) -> Any:
        return never(payloads)

    async def main() -> None:
        async with serve(max_receives=1) as broker:
            await sent(broker, b"x")
            consumer = Consumer(broker.receive_address, queue="orders", retry_delay=RETRY)
            if batch:
                consumer.batch_handler(max_wait=0.01)(decorated_batch)
            else:
                consumer.handler(decorated)
            async with Served(consumer):
                (letter,) = await letters(broker, 1)
            assert letter.payload == b"x"
            assert "has returned a coroutine" in str(consumer.statistics()["orders"].last_failure)

    with warnings.catch_warnings():
        warnings.simplefilter("error")
        run(main)


# Batches


@pytest.mark.parametrize(
    "failed",
    [{0: "text"}, {0: asyncio.CancelledError()}, {True: ValueError()}, {-1: ValueError()}, {"0": ValueError()}],
)
@pytest.mark.parametrize("on_failure", ["return", "stop"])
def test_a_batch_that_says_what_cannot_be_has_failed_and_nothing_of_it_is_lost(
    run: Any, serve: Any, peers: Any, failed: Any, on_failure: Any
) -> None:
    async def main() -> None:
        async with serve(max_receives=1) as broker:
            await sent(broker, b"0")
            consumer = Consumer(broker.receive_address, queue="orders", retry_delay=RETRY, on_failure=on_failure)

            @consumer.batch_handler(max_messages=1)
            async def work(payloads: list[bytes]) -> None:
                raise PartlyFailedError(failed)

            if on_failure == "stop":
                with pytest.raises(Exception):  # noqa: B017, PT011 - whatever it says
                    await consumer.serve()
                assert (await row(broker, peers, "orders.dead"))["ready"] == 1
                return
            async with Served(consumer):
                (letter,) = await letters(broker, 1)
                assert consumer.healthy()
            assert letter.payload == b"0"

    run(main)


@pytest.mark.parametrize(
    ("kind", "error"),
    [("async", asyncio.CancelledError("x")), ("plain", asyncio.CancelledError("x")), ("plain", SystemExit(1))],
)
def test_a_batch_handler_that_raises_what_is_no_exception_fails_its_messages(
    run: Any, serve: Any, kind: str, error: BaseException
) -> None:
    async def main() -> None:
        async with serve(max_receives=1) as broker:
            await sent(broker, b"0", b"1")
            consumer = Consumer(broker.receive_address, queue="orders", retry_delay=RETRY)

            async def awaited(payloads: list[bytes]) -> None:
                raise error

            def called(payloads: list[bytes]) -> None:
                raise error

            consumer.batch_handler(max_messages=2, max_wait=60)(awaited if kind == "async" else called)
            async with Served(consumer):
                assert len(await letters(broker, 2)) == 2
                assert consumer.healthy()

    run(main)


# Codecs and payloads


async def awaited_codec(payload: bytes) -> Any:
    return payload


@pytest.mark.parametrize("codec", [awaited_codec])
def test_a_codec_that_is_to_be_awaited_is_refused(codec: Any) -> None:
    def work(order: dict[str, Any]) -> None: ...

    with pytest.raises(LocalProtocolError, match="a codec is a plain function"):
        Consumer(queue="orders", codec=codec).handler(work)


@pytest.mark.parametrize("error", [UnspeakableError(), DeadLetterError("no"), RecursionError(), StopIteration()])
def test_whatever_a_codec_raises_its_payload_is_a_dead_letter(run: Any, serve: Any, error: Exception) -> None:
    async def main() -> None:
        def codec(payload: bytes) -> Any:
            raise error

        async with serve(max_receives=5) as broker:
            await sent(broker, b"x")
            consumer = Consumer(broker.receive_address, queue="orders", codec=codec)

            @consumer.handler
            async def work(order: Any) -> None: ...

            async with Served(consumer):
                (letter,) = await letters(broker, 1)
                assert consumer.healthy()
            assert str(letter.headers["penstock-dead-error"]).startswith("it cannot be decoded as Any: ")

    run(main)


@pytest.mark.parametrize(
    "payload", [b"", b"\xff", b"[" * 100_000, b"9" * 5000, b'{"a": NaN', b"null", b"x" * (8 << 20)]
)
def test_no_payload_ends_the_consumer(run: Any, serve: Any, payload: bytes) -> None:
    async def main() -> None:
        async with serve(max_receives=5) as broker:
            await sent(broker, payload)
            consumer = Consumer(broker.receive_address, queue="orders")

            @consumer.handler
            async def work(order: dict[str, Any]) -> None: ...

            async with Served(consumer):
                (letter,) = await letters(broker, 1)
                assert consumer.healthy()
            assert letter.payload == payload

    run(main)


# Registration


def generator(order: dict[str, Any]) -> Any:
    yield order


BROKEN: dict[str, Any] = {"bad": "1 +", "worse": "int.nothing", "worst": "1 | 'x'"}


@pytest.mark.parametrize("annotation", list(BROKEN.values()))
def test_an_annotation_that_cannot_be_read_is_told_with_the_handlers_name(annotation: str) -> None:
    def work(order: Any) -> None: ...

    work.__annotations__["order"] = annotation
    with pytest.raises(LocalProtocolError, match=r"handler .*work: an annotation cannot be read"):
        Consumer(queue="orders").handler(work)


@pytest.mark.parametrize("function", [functools.partial(generator), iter, min, "text", None.__class__, 5])
def test_what_is_no_handler_is_refused_in_words(function: Any) -> None:
    with pytest.raises(LocalProtocolError):
        Consumer(queue="orders").handler()(function)


def test_an_empty_name_of_a_queue_is_no_name() -> None:
    with pytest.raises(ValueError, match="queue"):
        Consumer(queue="orders").handler(queue="")(generator_of_nothing)


async def generator_of_nothing(payload: bytes) -> None: ...


# Programs


def test_a_consumer_within_an_event_loop_says_what_to_call_instead(run: Any) -> None:
    async def main() -> None:
        consumer = Consumer(queue="orders")
        consumer.handler(generator_of_nothing)
        with pytest.raises(LocalProtocolError, match=r"await consumer\.serve\(\)"):
            consumer.run()

    with warnings.catch_warnings():
        warnings.simplefilter("error")
        run(main)


def test_stop_before_and_after_a_run_and_from_a_thread_after_its_loop_does_nothing(run: Any, serve: Any) -> None:
    consumers: list[Consumer] = []

    async def main() -> None:
        async with serve() as broker:
            await sent(broker, b"x")
            noted, enough, note = counted(1)
            consumer = Consumer(broker.receive_address, queue="orders")
            consumers.append(consumer)

            @consumer.handler
            async def work(payload: bytes) -> None:
                note(payload)

            consumer.stop()
            async with Served(consumer):
                await enough.wait()
            consumer.stop()
            assert noted == [b"x"]

    run(main)
    closed = asyncio.new_event_loop()
    closed.close()
    consumers[0]._loop = closed
    consumers[0].stop()


def test_run_leaves_the_programs_own_signal_handlers_as_they_were(run: Any) -> None:
    def mine(*_: object) -> None: ...

    before = [signal.signal(each, mine) for each in (signal.SIGINT, signal.SIGTERM)]
    try:
        consumer = Consumer("127.0.0.1:9", queue="orders", health="192.0.2.1:9")
        consumer.handler(generator_of_nothing)
        with pytest.raises(OSError, match="address"):
            consumer.run()
        assert [signal.getsignal(each) for each in (signal.SIGINT, signal.SIGTERM)] == [mine, mine]
    finally:
        for each, handler in zip((signal.SIGINT, signal.SIGTERM), before, strict=True):
            signal.signal(each, handler)


@pytest.mark.parametrize("batch", [False, True])
def test_what_is_under_way_when_the_loop_ends_under_a_consumer_comes_back_and_is_not_rejected(batch: bool) -> None:
    with BrokerProcess("--max-receives", "3") as broker:
        broker.fill("orders", [b"x"] * 4)

        async def main() -> asyncio.Task[None]:
            _, enough, note = counted(1 if batch else 4)
            consumer = Consumer(broker.receiving, queue="orders", concurrency=4, on_failure="reject")

            async def work(payload: bytes) -> None:
                note(payload)
                await asyncio.Event().wait()

            async def work_on_all(payloads: list[bytes]) -> None:
                await work(payloads[0])

            if batch:
                consumer.batch_handler(max_messages=4, max_wait=60)(work_on_all)
            else:
                consumer.handler(work)
            task = asyncio.create_task(consumer.serve())
            await enough.wait()
            return task

        asyncio.run(main())
        # Nobody can say why the program left them, so that counts as a failure; it is no rejection of them.
        figures = broker.until("orders", lambda figures: figures["in_flight"] == 0)
        assert figures["ready"] == 4


def test_plain_handlers_have_context_variables_of_their_own(run: Any, serve: Any) -> None:
    variable: contextvars.ContextVar[int] = contextvars.ContextVar("variable", default=0)

    async def main() -> None:
        async with serve() as broker:
            await sent(broker, *[b"x"] * 20)
            noted, enough, note = counted(20)
            consumer = Consumer(broker.receive_address, queue="orders", concurrency=2)
            variable.set(5)

            @consumer.handler
            def work(payload: bytes) -> None:
                variable.set(variable.get() + 1)
                note(variable.get())

            async with Served(consumer):
                await enough.wait()
            assert set(noted) == {6}

    run(main)


def test_one_function_may_be_registered_twice_and_two_consumers_may_run_beside_one_another(
    run: Any, serve: Any, peers: Any
) -> None:
    async def main() -> None:
        async with serve() as broker:
            noted, enough, note = counted(60)

            async def work(payload: bytes) -> None:
                note(payload)

            both = [Consumer(broker.receive_address, queue="orders", concurrency=1) for _ in range(2)]
            for consumer in both:
                consumer.handler(consumer.handler(work))
            async with Served(both[0]), Served(both[1]):
                await sent(broker, *(b"%d" % n for n in range(60)))
                await enough.wait()
                with pytest.raises(LocalProtocolError, match="is running already"):
                    await both[0].serve()
            assert sorted(noted) == sorted(b"%d" % n for n in range(60))
            assert (await row(broker, peers))["ready"] == 0

    run(main)


def test_a_queue_that_is_deleted_under_a_consumer_is_not_lost_sight_of(run: Any, serve: Any, until: Any) -> None:
    async def main() -> None:
        async with serve() as broker:
            noted, enough, note = counted(1)
            consumer = Consumer(broker.receive_address, queue="orders")

            @consumer.handler
            async def work(payload: bytes) -> None:
                note(payload)

            task = asyncio.create_task(consumer.serve())
            await until(consumer.healthy)
            async with Administration(broker.send_address) as admin:
                await admin.delete_queue("orders")
            await sent(broker, b"x")
            await enough.wait()
            assert noted == [b"x"]
            consumer.stop()
            await task

    run(main)


def test_a_handler_that_calls_exit_ends_the_program_with_its_code_and_its_message_comes_back(
    run: Any, serve: Any, peers: Any
) -> None:
    text = (
        "import sys\nfrom transport import Consumer\nconsumer = Consumer(sys.argv[1], queue='orders')\n@consumer.handler\n"
        "async def work(payload: bytes) -> None:\n    sys.exit(3)\nconsumer.run()\n"
    )

    async def main() -> None:
        async with serve(max_receives=5) as broker:
            await sent(broker, b"x")
            started = await asyncio.create_subprocess_exec(
                sys.executable, "-c", text, broker.receive_address, stderr=asyncio.subprocess.PIPE
            )
            _, errors = await started.communicate()
            assert (started.returncode, errors) == (3, b"")
            assert (await row(broker, peers))["ready"] == 1

    run(main)
