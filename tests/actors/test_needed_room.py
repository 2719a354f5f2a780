"""A sender that publishes one request has room of just that, in just the queues that it goes to."""

from __future__ import annotations

from typing import Any

from actors.queue.exchange_sender import ExchangeSender
from actors.queue.vocabulary import commands, replies
from actors.queue.vocabulary.needed import Needed
from actors.queue.vocabulary.settings import QueueSettings
from streams.testkit import run_in_virtual_time
from tests.actors.publishing_bench import batch_of
from tests.actors.stored_queues import StoredQueues, turns


class Asking:
    """The port of one request, and its sender."""

    def __init__(self, bench: StoredQueues, needed: Needed) -> None:
        self.told: list[Any] = []
        self.ref = ExchangeSender.start(bench.queues.exchanges.publishing, "x", None, None, self, needed=needed)

    def tell(self, reply: Any) -> None:
        self.told.append(reply)

    def caught_up(self) -> None:
        raise AssertionError("nobody has asked")

    def refused(self, code: str, text: str, close: bool) -> None:
        raise AssertionError((code, text, close))

    @property
    def granted(self) -> int:
        return sum(each.messages for each in self.told if isinstance(each, replies.CapacityGranted))


async def bench_with(**queues: tuple[str, QueueSettings]) -> StoredQueues:
    bench = StoredQueues(None)
    await bench.queues.exchanges.declare("x")
    for name, (key, settings) in queues.items():
        bench.queues.declare(name, settings)
        await bench.queues.exchanges.bind("x", name, key)
    return bench


def test_a_request_is_granted_what_it_has_and_leaves_the_rest_to_others() -> None:
    async def main() -> None:
        bench = await bench_with(a=("a", QueueSettings(max_messages=10)), b=("b", QueueSettings(max_messages=10)))
        first = Asking(bench, Needed(4, 1000, ("a",)))
        second = Asking(bench, Needed(6, 1000, ("a",)))
        third = Asking(bench, Needed(5, 1000, ("a",)))
        of_b = Asking(bench, Needed(3, 1000, ("b",)))
        await turns()
        # Whoever waits has one, so that it goes on where others rest.
        assert [each.granted for each in (first, second, third, of_b)] == [4, 6, 1, 3]
        first.ref.tell(commands.OfferBatch(0, batch_of(b"1", b"2", b"3", b"4"), connection=first.ref))
        await turns()
        assert [each.up_to for each in first.told if isinstance(each, replies.SentMessages)] == [4]
        second.ref.stop_nowait()
        await turns()
        assert third.granted == 5
        await bench.close()

    run_in_virtual_time(main())


def test_a_request_with_several_keys_has_the_room_of_the_fullest_queue() -> None:
    async def main() -> None:
        bench = await bench_with(a=("a", QueueSettings(max_messages=1)), b=("b", QueueSettings(max_messages=10)))
        both = Asking(bench, Needed(3, 1000, ("b", "a")))
        await turns()
        assert both.granted == 1
        await bench.close()

    run_in_virtual_time(main())


def test_where_headers_decide_it_has_room_of_all_that_may_be_reached() -> None:
    async def main() -> None:
        bench = await bench_with(a=("a", QueueSettings(max_messages=1)), b=("b", QueueSettings(max_messages=10)))
        alone = Asking(bench, Needed(3, 1000, ("b",)))
        anywhere = Asking(bench, Needed(3, 1000))
        await turns()
        assert (alone.granted, anywhere.granted) == (3, 1)
        await bench.close()

    run_in_virtual_time(main())
