"""A consumer that handles several messages at a time: of one group one after the other, in order, and others beside them."""

from __future__ import annotations

import asyncio
import threading
from collections import defaultdict
from typing import Any

import pytest

from streams import Source
from tests.transport.consumer.test_consumer import Served
from transport import Administration, Backoff, Consumer, Delivery, Message, Sender

QUICK = Backoff(minimum=0.001, maximum=0.01, give_up_after=15.0)


async def sent(broker: Any, said: list[tuple[str | None, bytes]], **settings: Any) -> None:
    async with Administration(broker.send_address) as administration:
        await administration.create_queue("orders", groups=True, **settings)
    messages = [Message(payload, group=group) for group, payload in said]
    await Source.from_iterable(messages).to(Sender(broker.send_address, queue="orders")).run()


async def waiting(broker: Any) -> int:
    async with Administration(broker.send_address) as administration:
        return int((await administration.queue("orders"))["stored_messages"])


def test_while_one_of_a_group_is_handled_the_next_waits_and_other_groups_go_on(run: Any, serve: Any) -> None:
    async def main() -> None:
        async with serve() as broker:
            await sent(broker, [("a", b"a1"), ("a", b"a2"), ("a", b"a3"), ("b", b"b1"), (None, b"n1"), (None, b"n2")])
            go, others, handled = asyncio.Event(), asyncio.Event(), []
            done = asyncio.Event()
            consumer = Consumer(broker.receive_address, queue="orders", concurrency=2, max_in_flight=10)

            @consumer.handler
            async def work(delivery: Delivery) -> None:
                if delivery.payload == b"a1":
                    await go.wait()
                handled.append(delivery.payload)
                if len(handled) == 3:
                    others.set()
                if len(handled) == 6:
                    done.set()

            async with Served(consumer):
                await others.wait()
                assert sorted(handled) == [b"b1", b"n1", b"n2"], "they pass those that wait behind a1"
                go.set()
                await done.wait()
            assert handled[3:] == [b"a1", b"a2", b"a3"]
            assert await waiting(broker) == 0

    run(main)


@pytest.mark.parametrize("kind", ["async", "thread", "batch"])
def test_no_two_of_a_group_are_handled_at_a_time_and_each_group_is_in_order(run: Any, serve: Any, kind: str) -> None:
    groups = ["a", "b", "c"]
    said: list[tuple[str | None, bytes]] = [(groups[number % 3], b"%d" % number) for number in range(60)]

    async def main() -> None:
        async with serve() as broker:
            await sent(broker, said)
            loop, done, lock = asyncio.get_running_loop(), asyncio.Event(), threading.Lock()
            at_work: dict[str, int] = defaultdict(int)
            most: dict[str, int] = defaultdict(int)
            seen: dict[str, list[int]] = defaultdict(list)

            def begin(delivery: Delivery) -> str:
                group = str(delivery.headers["group-id"])
                with lock:
                    at_work[group] += 1
                    most[group] = max(most[group], at_work[group])
                    seen[group].append(int(delivery.payload))
                return group

            def end(group: str) -> None:
                with lock:
                    at_work[group] -= 1
                    if sum(map(len, seen.values())) == len(said):
                        loop.call_soon_threadsafe(done.set)

            consumer = Consumer(broker.receive_address, queue="orders", concurrency=4, max_in_flight=20)
            if kind == "async":

                @consumer.handler
                async def awaited(delivery: Delivery) -> None:
                    group = begin(delivery)
                    for _ in range(3):
                        await asyncio.sleep(0)
                    end(group)

            elif kind == "thread":

                @consumer.handler
                def called(delivery: Delivery) -> None:
                    end(begin(delivery))

            else:

                @consumer.batch_handler(max_messages=4, max_wait=0.001)
                async def listed(deliveries: list[Delivery]) -> None:
                    begun = [begin(each) for each in deliveries]
                    await asyncio.sleep(0)
                    for group in begun:
                        end(group)

            async with Served(consumer):
                await done.wait()
            assert set(most.values()) == {1}
            assert all(numbers == sorted(numbers) for numbers in seen.values())
            assert await waiting(broker) == 0

    run(main)


def test_a_dead_letter_makes_way_too_and_at_the_end_what_was_held_back_has_not_failed(run: Any, serve: Any) -> None:
    async def main() -> None:
        async with serve() as broker:
            await sent(broker, [("a", b"fails"), ("a", b"stays"), ("a", b"behind"), ("a", b"last")], max_receives=5)
            reached = asyncio.Event()
            counts: list[tuple[bytes, int]] = []
            consumer = Consumer(
                broker.receive_address,
                queue="orders",
                concurrency=3,
                max_in_flight=4,
                on_failure="reject",
                grace=0.1,
            )

            @consumer.handler
            async def work(delivery: Delivery) -> None:
                counts.append((delivery.payload, delivery.failures))
                if delivery.payload == b"fails":
                    raise ValueError("on purpose")
                reached.set()
                await asyncio.Event().wait()

            async with Served(consumer):
                await reached.wait()
            assert counts == [(b"fails", 0), (b"stays", 0)]
            assert await waiting(broker) == 3
            async with Administration(broker.send_address) as administration:
                found = {each.payload: each.deliveries for each in await administration.peek("orders", 10)}
            assert found.keys() == {b"stays", b"behind", b"last"}

    run(main)


@pytest.mark.parametrize("kind", ["async", "thread", "batch"])
def test_what_is_held_back_and_went_back_with_its_connection_is_not_handled(
    run: Any, serve: Any, cutting: Any, until: Any, kind: str
) -> None:
    async def main() -> None:
        async with serve() as broker, cutting(broker.receive_address) as proxy:
            await sent(broker, [("a", b"a1"), ("a", b"a2"), ("a", b"a3")])
            begun, go, handled = threading.Event(), threading.Event(), []
            consumer = Consumer(proxy.address, queue="orders", concurrency=2, max_in_flight=10, reconnect=QUICK)

            if kind == "thread":

                @consumer.handler
                def called(delivery: Delivery) -> None:
                    handled.append(delivery.payload)
                    begun.set()
                    go.wait()

            elif kind == "async":

                @consumer.handler
                async def awaited(delivery: Delivery) -> None:
                    handled.append(delivery.payload)
                    begun.set()
                    await asyncio.to_thread(go.wait)

            else:

                @consumer.batch_handler(max_messages=1, max_wait=0.001)
                async def listed(deliveries: list[Delivery]) -> None:
                    handled.extend(each.payload for each in deliveries)
                    begun.set()
                    await asyncio.to_thread(go.wait)

            async def came_again() -> bool:
                async with Administration(broker.send_address) as administration:
                    return proxy.connections == 2 and (await administration.queue("orders"))["total_redelivered"] == 3

            async def all_done() -> bool:
                return await waiting(broker) == 0

            async with Served(consumer):
                await until(begun.is_set)
                proxy.cut()
                await until(came_again)
                go.set()
                await until(all_done)
            assert handled == [b"a1", b"a1", b"a2", b"a3"], "the first was begun before its connection ended"

    run(main)


def test_what_waits_to_be_in_a_list_and_went_back_with_its_connection_is_not_handled(
    run: Any, serve: Any, cutting: Any, until: Any
) -> None:
    async def main() -> None:
        async with serve() as broker, cutting(broker.receive_address) as proxy:
            await sent(broker, [("a", b"a1"), ("a", b"a2"), (None, b"n1")])
            handled: list[list[bytes]] = []
            consumer = Consumer(proxy.address, queue="orders", concurrency=1, max_in_flight=6, reconnect=QUICK)

            @consumer.batch_handler(max_messages=6, max_wait=30)
            async def listed(deliveries: list[Delivery]) -> None:
                handled.append([each.payload for each in deliveries])

            async def held() -> bool:
                async with Administration(broker.send_address) as administration:
                    return bool((await administration.queue("orders"))["in_flight"] == 3)

            async def all_done() -> bool:
                return await waiting(broker) == 0

            async with Served(consumer):
                await until(held)
                proxy.cut()
                await until(all_done)
            assert handled == [[b"a1", b"a2", b"n1"]], "those that came again"

    run(main)
