"""Handlers that are called in processes: at a broker, with real processes."""

from __future__ import annotations

import asyncio
import functools
import json
import logging
import os
import pickle
import select
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from streams import Source
from tests.transport.consumer import process_handlers as handlers
from tests.transport.consumer.test_consumer import Served, letters, sent
from tests.transport.receiver_helpers import row
from transport import (
    Consumer,
    HandlerProcessError,
    LocalProtocolError,
    Message,
    PartlyFailedError,
    Sender,
    TransportError,
)
from transport.consumer import pool

RETRY = 0.01


def job(do: str, file: Path | str = "") -> bytes:
    return json.dumps({"do": do, "file": str(file)}).encode()


def consuming(broker: Any, function: Any, **options: Any) -> Consumer:
    consumer = Consumer(broker.receive_address, queue="orders", retry_delay=RETRY)
    consumer.handler(**({"processes": 1} | options))(function)
    return consumer


def gone(process: int) -> bool:
    """Whether it is no more; one that nobody has asked for its end yet is."""
    try:
        handle = os.pidfd_open(process)
    except ProcessLookupError:
        return True
    try:
        return bool(select.select([handle], [], [], 0)[0])
    finally:
        os.close(handle)


def number(file: Path) -> int:
    return int(file.read_text("utf-8"))


async def answered(broker: Any, peers: Any) -> bool:
    left = await row(broker, peers)
    return (left["ready"], left["in_flight"], left["delayed"]) == (0, 0, 0)


def test_messages_are_handled_in_processes_as_many_at_a_time_as_is_said(
    run: Any, serve: Any, peers: Any, until: Any, tmp_path: Path
) -> None:
    async def main() -> None:
        pipes = [tmp_path / str(n) for n in range(3)]
        for pipe in pipes:
            os.mkfifo(pipe)
        async with serve(max_receives=1) as broker:
            await sent(broker, *(job("hold", pipe) for pipe in pipes))
            async with Served(consuming(broker, handlers.do, processes=2)):
                begun = [pipe.with_suffix(".begun") for pipe in pipes]
                await until(lambda: begun[0].exists() and begun[1].exists())
                processes = {number(file) for file in begun[:2]}
                assert not begun[2].exists()
                assert len(processes | {os.getpid()}) == 3
                for pipe in pipes:
                    await asyncio.to_thread(pipe.write_bytes, b"")
                await until(functools.partial(answered, broker, peers))
            # The third was handled by one of the two, and both have ended with the consumer.
            assert number(begun[2]) in processes
            assert all(map(gone, processes))

    run(main)


def test_the_processes_know_all_of_a_message_and_cannot_answer_for_it(run: Any, serve: Any, tmp_path: Path) -> None:
    async def main() -> None:
        async with serve(max_receives=1) as broker:
            file = tmp_path / "told"
            payload = job("describe", file)
            message = Message(payload, key=b"a key", headers={"trace": "x"})
            await Source.single(message).to(Sender(broker.send_address, queue="orders")).run()
            await sent(broker, b"x", queue="emails")
            consumer = consuming(broker, handlers.describe)
            consumer.handler(queue="emails", processes=1)(handlers.acknowledge)
            async with Served(consumer):
                (letter,) = await letters(broker, 1, "emails.dead")
            told = eval(file.read_text("utf-8"))
            assert len(told.pop("id")) == 16
            assert told == {
                "queue": "orders",
                "sequence": 0,
                "key": b"a key",
                "headers": {"trace": "x"},
                "enqueued": True,
                "count": 1,
                "replayed": False,
                "payload": payload,
            }
            assert letter.payload == b"x"
            assert "cannot answer for its message there" in str(consumer.statistics()["emails"].last_failure)

    run(main)


def test_payloads_are_decoded_in_the_process_and_what_cannot_be_is_a_dead_letter(
    run: Any, serve: Any, until: Any, tmp_path: Path
) -> None:
    async def main() -> None:
        async with serve(max_receives=3) as broker:
            file = tmp_path / "noted"
            await sent(broker, b"no job", b"note|%s" % str(file).encode())
            consumer = consuming(broker, handlers.do, codec=handlers.split)
            async with Served(consumer):
                (letter,) = await letters(broker, 1)
                await until(file.exists)
            assert letter.payload == b"no job"
            assert "it cannot be decoded as dict[str, Any]: ValueError" in str(letter.headers["penstock-dead-error"])
            assert letter.delivery_count == 1

    run(main)


@pytest.mark.parametrize(
    ("do", "kind", "text"),
    [
        ("fail", KeyError, "customer"),
        ("fail with two parts", HandlerProcessError, "TwoPartsError: one, two"),
        ("fail with what is held", HandlerProcessError, "HeldError: it is held"),
        ("exit", TransportError, "the handler has raised SystemExit: enough"),
        ("exit at once", HandlerProcessError, "the process with the message in it ended with exit code 3"),
        (
            "be killed",
            HandlerProcessError,
            "the process with the message in it was killed by SIGKILL: .* short of memory",
        ),
    ],
)
def test_with_stop_the_consumer_raises_what_the_handler_has_or_how_its_process_has_ended(
    run: Any, serve: Any, peers: Any, do: str, kind: type[Exception], text: str
) -> None:
    async def main() -> None:
        async with serve(max_receives=5) as broker:
            await sent(broker, job(do))
            with pytest.raises(kind, match=text) as raised:
                await consuming(broker, handlers.do, on_failure="stop").serve()
            if do not in ("exit at once", "be killed"):
                assert "In a process of the handler:\nTraceback" in raised.value.__notes__[0]
                assert "in do\n" in raised.value.__notes__[0]
            assert (await row(broker, peers))["ready"] == 1

    run(main)


def test_the_end_of_a_process_is_noticed_though_what_it_has_started_holds_its_pipes(
    run: Any, serve: Any, tmp_path: Path
) -> None:
    async def main() -> None:
        file = tmp_path / "child"
        async with serve(max_receives=5) as broker:
            await sent(broker, job("be killed with a child", file))
            try:
                with pytest.raises(HandlerProcessError, match="was killed by SIGKILL"):
                    await consuming(broker, handlers.do, on_failure="stop").serve()
                assert not gone(number(file))
            finally:
                os.kill(number(file), signal.SIGKILL)

    run(main)


def test_a_process_that_is_killed_takes_one_message_with_it_and_is_replaced(
    run: Any, serve: Any, peers: Any, until: Any, tmp_path: Path
) -> None:
    async def main() -> None:
        pipe = tmp_path / "held"
        os.mkfifo(pipe)
        async with serve(max_receives=2) as broker:
            await sent(broker, job("hold", pipe), job("be killed"), *(job("note", tmp_path / str(n)) for n in range(9)))
            consumer = consuming(broker, handlers.do, processes=2)
            async with Served(consumer):
                # It has been tried as often as the queue allows; meanwhile the other process has gone on with what was in it.
                (letter,) = await letters(broker, 1)
                await asyncio.to_thread(pipe.write_bytes, b"")
                await until(functools.partial(answered, broker, peers))
            assert letter.payload == job("be killed")
            assert (tmp_path / "held.done").exists()
            assert all((tmp_path / str(n)).exists() for n in range(9))
            assert consumer.statistics()["orders"].returned == 2

    run(main)


def test_a_process_that_is_killed_with_nothing_in_it_fails_no_message(
    run: Any, serve: Any, peers: Any, until: Any, tmp_path: Path
) -> None:
    async def main() -> None:
        async with serve(max_receives=1) as broker:
            await sent(broker, job("note", tmp_path / "1"))
            consumer = consuming(broker, handlers.do)
            async with Served(consumer):
                await until(functools.partial(answered, broker, peers))
                first = number(tmp_path / "1")
                os.kill(first, signal.SIGKILL)
                await sent(broker, job("note", tmp_path / "2"))
                await until(functools.partial(answered, broker, peers))
            assert number(tmp_path / "2") != first
            assert consumer.statistics()["orders"].returned == 0

    run(main)


def test_what_a_handler_has_forked_does_not_hold_up_the_messages_behind_its_process(
    run: Any, serve: Any, peers: Any, until: Any, tmp_path: Path
) -> None:
    async def main() -> None:
        file = tmp_path / "1"
        async with serve(max_receives=1) as broker:
            await sent(broker, job("fork", file))
            async with Served(consuming(broker, handlers.do)):
                await until(functools.partial(answered, broker, peers))
                try:
                    os.kill(number(file), signal.SIGKILL)
                    # More than a pipe takes that nobody reads.
                    await sent(broker, job("note", tmp_path / "2") + b" " * 2**21)
                    await until(functools.partial(answered, broker, peers))
                finally:
                    os.kill(number(file.with_suffix(".forked")), signal.SIGKILL)
            assert number(tmp_path / "2") != number(file)

    run(main)


@pytest.mark.parametrize("way", ["grace", "cancel"])
def test_a_call_that_is_not_done_in_time_is_killed_and_its_message_has_not_failed(
    run: Any, serve: Any, peers: Any, until: Any, tmp_path: Path, way: str
) -> None:
    async def main() -> None:
        pipe = tmp_path / "held"
        os.mkfifo(pipe)
        async with serve(max_receives=1) as broker:
            await sent(broker, job("hold", pipe), job("note", tmp_path / "never"))
            consumer = Consumer(broker.receive_address, queue="orders", grace=0.01)
            consumer.handler(processes=1)(handlers.do)
            task = asyncio.create_task(consumer.serve())
            begun = pipe.with_suffix(".begun")
            await until(begun.exists)
            consumer.stop() if way == "grace" else task.cancel()
            before = asyncio.get_running_loop().time()
            await asyncio.wait((task,))
            # It is not waited for as a thread is, for 10 s.
            assert asyncio.get_running_loop().time() - before < 5.0
            assert task.cancelled() == (way == "cancel")
            assert gone(number(begun))
            assert (await row(broker, peers))["ready"] == 2

    run(main)


def test_what_is_under_way_in_a_process_is_finished_when_the_consumer_is_told_to_stop(
    run: Any, serve: Any, peers: Any, until: Any, tmp_path: Path
) -> None:
    async def main() -> None:
        pipe = tmp_path / "held"
        os.mkfifo(pipe)
        async with serve(max_receives=1) as broker:
            await sent(broker, job("hold", pipe), job("note", tmp_path / "never"))
            consumer = consuming(broker, handlers.do)
            async with Served(consumer):
                await until(pipe.with_suffix(".begun").exists)
                consumer.stop()
                await until(lambda: not consumer.healthy())
                await asyncio.to_thread(pipe.write_bytes, b"")
            assert pipe.with_suffix(".done").exists()
            assert (await row(broker, peers))["ready"] == 1

    run(main)


def test_a_consumer_with_processes_runs_again_when_it_has_ended(
    run: Any, serve: Any, until: Any, tmp_path: Path
) -> None:
    async def main() -> None:
        async with serve(max_receives=1) as broker:
            consumer = consuming(broker, handlers.do)
            for n in range(2):
                file = tmp_path / str(n)
                await sent(broker, job("note", file))
                async with Served(consumer):
                    await until(file.exists)
            assert number(tmp_path / "0") != number(tmp_path / "1")

    run(main)


def test_what_a_handler_in_a_process_starts_can_be_told_to_end(
    run: Any, serve: Any, until: Any, tmp_path: Path
) -> None:
    async def main() -> None:
        async with serve(max_receives=1) as broker:
            file = tmp_path / "code"
            await sent(broker, job("obey signals", file))
            async with Served(consuming(broker, handlers.do)):
                await until(file.exists)
            assert number(file) == -signal.SIGTERM

    run(main)


# Batches


def test_a_batch_handler_is_called_in_processes(run: Any, serve: Any, peers: Any, until: Any, tmp_path: Path) -> None:
    async def main() -> None:
        async with serve(max_receives=1) as broker:
            await sent(broker, *(job("note", tmp_path / "first") for _ in range(10)))
            consumer = Consumer(broker.receive_address, queue="orders")
            consumer.batch_handler(max_messages=10, max_wait=60, processes=1)(handlers.all_of)
            async with Served(consumer):
                await until(functools.partial(answered, broker, peers))
            assert number(tmp_path / "first") == 10

    run(main)


@pytest.mark.parametrize(("do", "failed"), [("fail", {"2", "no job"}), ("be killed", {"1", "2", "3", "no job"})])
def test_of_a_batch_in_a_process_those_have_failed_that_it_names_or_all_that_were_in_it(
    run: Any, serve: Any, peers: Any, until: Any, do: str, failed: set[str]
) -> None:
    async def main() -> None:
        async with serve(max_receives=1) as broker:
            await sent(broker, b"no job", job("note", "1"), job(do, "2"), job("note", "3"))
            consumer = Consumer(broker.receive_address, queue="orders", retry_delay=RETRY)
            consumer.batch_handler(max_messages=4, max_wait=60, processes=1)(handlers.all_but)
            async with Served(consumer):
                found = await letters(broker, len(failed))
                await until(functools.partial(answered, broker, peers))
            names = {
                letter.payload if b"{" not in letter.payload else json.loads(letter.payload)["file"] for letter in found
            }
            assert {name if isinstance(name, str) else name.decode() for name in names} == failed

    run(main)


# What cannot be


def within() -> Callable[[bytes], None]:
    def handler(payload: bytes) -> None: ...

    return handler


@pytest.mark.parametrize(
    ("function", "options", "text"),
    [
        (handlers.awaited, {}, "make it no coroutine function, or leave out processes"),
        (lambda delivery: None, {}, "<lambda> is a lambda or within a function"),
        (within(), {}, "is a lambda or within a function; define it with def at the top of a module"),
        (handlers.Handlers().method, {}, "it has to be a function of a module"),
        (handlers.Called(), {}, "it has to be a function of a module"),
        (handlers.do, {"codec": lambda payload: payload}, "its codec has to be found by its name there"),
        (handlers.do, {"processes": 0}, "processes is 0; it is a whole number"),
        (handlers.do, {"processes": True}, "processes is True; it is a whole number"),
        (handlers.do, {"concurrency": 2}, "leave out concurrency"),
    ],
)
def test_what_no_process_could_call_is_refused_where_it_is_registered(
    function: Any, options: dict[str, Any], text: str
) -> None:
    consumer = Consumer(queue="orders")
    with pytest.raises(LocalProtocolError, match=text):
        consumer.handler(**({"processes": 2} | options))(function)


def test_a_function_of_a_class_and_one_that_a_decorator_has_registered_are_found(
    run: Any, serve: Any, until: Any, tmp_path: Path
) -> None:
    async def main() -> None:
        async with serve(max_receives=1) as broker:
            await sent(broker, b"x")
            await sent(broker, job("note", tmp_path / "noted"), queue="emails")
            consumer = consuming(broker, handlers.Handlers.static)
            consumer.handler(queue="emails", processes=1)(handlers.in_place)
            async with Served(consumer):
                await until((tmp_path / "noted").exists)
            assert number(tmp_path / "noted") != os.getpid()

    run(main)


def test_a_function_that_has_lost_its_name_is_told_at_the_start_and_no_message_is_touched(
    run: Any, serve: Any, peers: Any
) -> None:
    async def main() -> None:
        async with serve(max_receives=1) as broker:
            await sent(broker, b"x")
            with pytest.raises(HandlerProcessError, match=r"cannot be started: PicklingError: .*not the same object"):
                await consuming(broker, handlers.found_by_another_name).serve()
            assert (await row(broker, peers))["ready"] == 1

    run(main)


def test_a_consumer_that_is_told_to_stop_while_its_first_process_starts_ends(run: Any, serve: Any, until: Any) -> None:
    async def main() -> None:
        async with serve(max_receives=1) as broker:
            consumer = consuming(broker, handlers.do)
            task = asyncio.create_task(consumer.serve())
            binding = consumer._bindings[0]
            await until(lambda: binding._pool is not None and binding._pool._workers)
            consumer.stop()
            await task
            assert binding._pool is not None
            assert not binding._pool._workers

    run(main)


def test_where_no_process_can_be_had_any_more_the_consumer_ends_and_the_message_has_not_failed(
    run: Any, serve: Any, peers: Any, until: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuses(*_: object) -> None:
        raise OSError("no more processes")

    async def main() -> None:
        async with serve(max_receives=1) as broker:
            await sent(broker, job("note", tmp_path / "1"))
            consumer = consuming(broker, handlers.do)
            task = asyncio.create_task(consumer.serve())
            await until(functools.partial(answered, broker, peers))
            os.kill(number(tmp_path / "1"), signal.SIGKILL)
            monkeypatch.setattr(pool._context.Process, "start", refuses)
            await sent(broker, job("note", tmp_path / "2"), job("note", tmp_path / "3"))
            with pytest.raises(HandlerProcessError, match="cannot be started: OSError: no more processes"):
                await task
            assert (await row(broker, peers))["ready"] == 2

    run(main)


@pytest.mark.parametrize("failed", [[0, 2], {0: "a", 2: "b"}])
def test_a_batch_that_has_partly_failed_says_the_same_of_itself_when_it_has_been_carried(failed: Any) -> None:
    error = PartlyFailedError(
        {place: KeyError(each) for place, each in failed.items()} if isinstance(failed, dict) else failed
    )
    error.add_note("seen to")
    carried = pickle.loads(pickle.dumps(error))
    assert str(carried) == "2 of the batch failed"
    assert list(carried.failed) == [0, 2]
    assert carried.__notes__ == ["seen to"]
    if isinstance(failed, list):
        assert set(carried.failed.values()) == {carried}


def test_failures_in_a_process_are_logged_with_what_it_was_at(
    run: Any, serve: Any, caplog: pytest.LogCaptureFixture
) -> None:
    async def main() -> None:
        async with serve(max_receives=1) as broker:
            await sent(broker, job("fail"))
            async with Served(consuming(broker, handlers.do)):
                await letters(broker, 1)

    caplog.set_level(logging.WARNING, "penstock.receiver")
    run(main)
    assert "In a process of the handler:\nTraceback" in caplog.text
    assert 'raise KeyError("customer")' in caplog.text
