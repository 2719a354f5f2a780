"""A message of a group that fails and comes again: a client that holds what is behind it in the group does not handle that before."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from streams import Sink, Source
from tests.transport.consumer import process_handlers
from tests.transport.consumer.test_consumer import Served
from transport import Administration, Consumer, Delivery, Message, Receiver, Sender

KINDS = ["async", "thread", "process", "async batch", "thread batch", "process batch"]
RETRIED = [(0, 0), (1, 0), (1, 1), (2, 0), (3, 0), (4, 0), (5, 0)]
"""Number and failures of each message of the group, in the order in which they are handled."""
ONCE = [(number, 0) for number in range(6)]


class Noted:
    """What handlers have written into a pipe, by group, and an event for when there is so much."""

    def __init__(self, expected: int) -> None:
        self.by_group: dict[str, list[tuple[int, int]]] = {}
        self.enough = asyncio.Event()
        self._expected = expected

    def line(self, line: str) -> None:
        group, number, failures = line.split()
        self.by_group.setdefault(group, []).append((int(number), int(failures)))
        if sum(map(len, self.by_group.values())) == self._expected:
            self.enough.set()


@contextmanager
def noting(path: Path, expected: int) -> Iterator[Noted]:
    os.mkfifo(path)
    pipe = os.open(path, os.O_RDWR | os.O_NONBLOCK)
    loop, noted = asyncio.get_running_loop(), Noted(expected)

    def read() -> None:
        for line in os.read(pipe, 65_536).decode().splitlines():
            noted.line(line)

    loop.add_reader(pipe, read)
    try:
        yield noted
    finally:
        loop.remove_reader(pipe)
        os.close(pipe)


async def sent(broker: Any, pipe: Path, groups: str = "ab", **settings: Any) -> None:
    """Six messages of each group, in turn; of group a the second is to fail."""
    async with Administration(broker.send_address) as administration:
        await administration.create_queue("orders", groups=True, **settings)
    messages = [
        Message(f"{pipe} {number} {'fails' if (group, number) == ('a', 1) else 'succeeds'}".encode(), group=group)
        for number in range(6)
        for group in groups
    ]
    await Source.from_iterable(messages).to(Sender(broker.send_address, queue="orders")).run()


async def stored(broker: Any) -> int:
    async with Administration(broker.send_address) as administration:
        return int((await administration.queue("orders"))["stored_messages"])


def register(consumer: Consumer, kind: str, at_a_time: int) -> None:
    how: dict[str, Any] = {"processes" if "process" in kind else "concurrency": at_a_time}
    if "batch" in kind:
        how |= {"max_messages": 2, "max_wait": 0.005}
    match kind:
        case "process":
            consumer.handler(**how)(process_handlers.fail_once)
        case "thread":

            @consumer.handler(**how)
            def called(delivery: Delivery) -> None:
                process_handlers.fail_once(delivery)

        case "async":

            @consumer.handler(**how)
            async def awaited(delivery: Delivery) -> None:
                await asyncio.sleep(0)
                process_handlers.fail_once(delivery)

        case "process batch":
            consumer.batch_handler(**how)(process_handlers.fail_some_once)
        case "thread batch":

            @consumer.batch_handler(**how)
            def listed(deliveries: list[Delivery]) -> None:
                process_handlers.fail_some_once(deliveries)

        case "async batch":

            @consumer.batch_handler(**how)
            async def gathered(deliveries: list[Delivery]) -> None:
                await asyncio.sleep(0)
                process_handlers.fail_some_once(deliveries)


@pytest.mark.parametrize("retry_delay", [0.0, 0.02])
@pytest.mark.parametrize("at_a_time", [1, 2, 4])
@pytest.mark.parametrize("kind", KINDS)
def test_one_that_fails_is_handled_again_before_what_the_consumer_holds_behind_it(
    run: Any, serve: Any, tmp_path: Path, kind: str, at_a_time: int, retry_delay: float
) -> None:
    async def main() -> None:
        async with serve() as broker:
            with noting(tmp_path / "pipe", len(RETRIED) + len(ONCE)) as noted:
                await sent(broker, tmp_path / "pipe")
                consumer = Consumer(
                    broker.receive_address,
                    queue="orders",
                    max_in_flight=20,
                    on_failure="return",
                    retry_delay=retry_delay,
                )
                register(consumer, kind, at_a_time)
                async with Served(consumer):
                    await noted.enough.wait()
                assert noted.by_group == {"a": RETRIED, "b": ONCE}
                assert await stored(broker) == 0

    run(main)


@pytest.mark.parametrize("retry_delay", [0.0, 0.02])
def test_a_receiver_that_handles_one_at_a_time_does_so_too(
    run: Any, serve: Any, tmp_path: Path, retry_delay: float
) -> None:
    async def main() -> None:
        async with serve() as broker:
            with noting(tmp_path / "pipe", len(RETRIED) + len(ONCE)) as noted:
                await sent(broker, tmp_path / "pipe")

                async def work(delivery: Delivery) -> None:
                    process_handlers.fail_once(delivery)

                receiver = Receiver(
                    broker.receive_address, queue="orders", on_failure="return", retry_delay=retry_delay, limit=12
                )
                await receiver.handle(1, work).to(Sink.acknowledge()).run()
                await noted.enough.wait()
                assert noted.by_group == {"a": RETRIED, "b": ONCE}
                assert await stored(broker) == 0

    run(main)


@pytest.mark.parametrize("at_a_time", [1, 3])
@pytest.mark.parametrize(
    ("on_failure", "settings"),
    [
        ("reject", {"max_receives": 5}),
        ("return", {"max_receives": 1}),
        ("return", {"max_receives": 1, "drop_failed": True}),
    ],
)
def test_one_that_is_a_dead_letter_or_dropped_holds_nothing_up(
    run: Any, serve: Any, tmp_path: Path, on_failure: Any, settings: Any, at_a_time: int
) -> None:
    async def main() -> None:
        async with serve() as broker:
            with noting(tmp_path / "pipe", len(ONCE)) as noted:
                await sent(broker, tmp_path / "pipe", "a", **settings)
                consumer = Consumer(
                    broker.receive_address,
                    queue="orders",
                    concurrency=at_a_time,
                    max_in_flight=20,
                    on_failure=on_failure,
                    retry_delay=3600.0,
                )
                register(consumer, "async", at_a_time)
                async with Served(consumer):
                    await noted.enough.wait()
                assert noted.by_group == {"a": ONCE}
                assert await stored(broker) == 0

    run(main)


def test_while_it_waits_another_has_its_group_neither_and_the_rest_has_not_failed(
    run: Any, serve: Any, tmp_path: Path
) -> None:
    async def main() -> None:
        async with serve() as broker:
            with noting(tmp_path / "pipe", 2 + len(ONCE)) as noted:
                await sent(broker, tmp_path / "pipe", max_receives=2)
                consumer = Consumer(
                    broker.receive_address, queue="orders", max_in_flight=20, on_failure="return", retry_delay=3600.0
                )
                register(consumer, "async", 2)
                async with Served(consumer):
                    await noted.enough.wait()
                assert noted.by_group == {"a": ONCE[:2], "b": ONCE}
                async with Administration(broker.send_address) as administration:
                    left = await administration.peek("orders", 10)
                assert [int(each.payload.split()[1]) for each in left] == [1, 2, 3, 4, 5]

    run(main)


def test_a_list_of_which_some_fail_is_answered_one_by_one(run: Any, serve: Any, tmp_path: Path) -> None:
    async def main() -> None:
        async with serve() as broker:
            with noting(tmp_path / "pipe", 5) as noted:
                await sent(broker, tmp_path / "pipe", "a")
                lists: list[list[int]] = []
                consumer = Consumer(
                    broker.receive_address, queue="orders", max_in_flight=20, on_failure="return", retry_delay=0.0
                )

                @consumer.batch_handler(max_messages=3, max_wait=60.0, concurrency=1)
                async def work(deliveries: list[Delivery]) -> None:
                    lists.append([int(each.payload.split()[1]) for each in deliveries])
                    process_handlers.fail_some_once(deliveries)

                async with Served(consumer):
                    await noted.enough.wait()
                assert lists[0] == [0, 1, 2], "what one call is given, it is done with"
                behind = [number for each in lists[1:] for number in each]
                assert behind == [1, 3, 4, 5][: len(behind)]

    run(main)
