"""What one who looks sees: order, filter, place, totals, and the parties of a queue with their rates."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from types import SimpleNamespace
from typing import Any
from unittest import mock

import pytest

from actors.batch import MessageBatch
from actors.queue.vocabulary import commands
from actors.queue.vocabulary.settings import QueueSettings
from actors.runtime.loop_ref import LoopActorRef
from streams.testkit import elapse, run_in_virtual_time, settle
from tests.actors.stored_queues import StoredQueues
from transport.errors import LimitExceededError, RemoteProtocolError
from transport.picture.ordered import MADE, ORDERS
from transport.picture.sampler import MOST_LOOKS, SAMPLE_SECONDS, Sampler
from transport.picture.slices import TURNS_BETWEEN
from transport.picture.view import (
    MOST_BEFORE,
    MOST_FILTER,
    MOST_PARTIES,
    MOST_ROWS,
    PARTIES_AT_ONCE,
    Asked,
    View,
    asked_of,
)


class Bench(StoredQueues):
    """Queues in memory, connections that have names, and a view of both."""

    def __init__(self, now: Callable[[], float]) -> None:
        super().__init__(None)
        self.sampler = Sampler(self.queues, now)
        self.connections: dict[int, Any] = {}
        self.view = View(self.sampler, self.queues, self.connections)

    async def attach(self, queue: str, client: str | None, *told: Callable[[Any], Any]) -> LoopActorRef[Any]:
        ref, _ = await self.connect(self.queues.get_or_create(queue), *told)
        if client is not None:
            number = len(self.connections) + 1
            self.connections[number] = SimpleNamespace(
                number=number,
                role="sender",
                queue=queue,
                client_id=client,
                actor=ref,
                connection=SimpleNamespace(peer=f"127.0.0.1:{number}"),
                receivers={},
            )
        return ref

    async def sender(self, queue: str, client: str | None = None) -> Callable[[int], Coroutine[Any, Any, None]]:
        ref = await self.attach(
            queue,
            client,
            lambda ref: commands.AttachSender(None, connection=ref),
            lambda ref: commands.RequestCapacity(100, 10**5, connection=ref),
        )
        sent = 0

        async def send(count: int) -> None:
            nonlocal sent
            payloads = MessageBatch.from_payloads([b"x"] * count)
            self.queues.get_or_create(queue).tell(commands.OfferBatch(sent, payloads, None, None, connection=ref))
            sent += count
            await settle()

        return send

    async def filled(self, **counts: int) -> None:
        for name, count in counts.items():
            send = await self.sender(name)
            if count:
                await send(count)

    async def round(self) -> None:
        """Wait for a round that begins after now."""
        await elapse(SAMPLE_SECONDS * 1.01)
        assert await self.view.next()

    async def names(self, **asked: Any) -> list[str]:
        return [row["name"] for row in (await self.view.take(Asked(**asked)))["queues"]]


def till_rates(first: float, second: float) -> list[tuple[str, Any]]:
    return [("till-1", pytest.approx(first, 0.02)), ("till-2", pytest.approx(second, 0.02))]


async def turns(count: int) -> None:
    for _ in range(count):
        await asyncio.sleep(0)


def bench(test: Callable[[Bench], Coroutine[Any, Any, None]]) -> Callable[[], None]:
    def run() -> None:
        async def main() -> None:
            made = Bench(asyncio.get_running_loop().time)
            try:
                await test(made)
            finally:
                made.view.close()
                made.sampler.end()
                await made.close()

        run_in_virtual_time(main())

    run.__name__, run.__doc__ = test.__name__, test.__doc__
    return run


@bench
async def test_the_most_come_first_and_names_upwards(bench: Bench) -> None:
    await bench.filled(a=0, b=5, c=9, d=5, e=0)
    await bench.round()
    assert await bench.names(order="backlog") == ["c", "b", "d", "a", "e"]
    assert await bench.names(order="name") == ["a", "b", "c", "d", "e"]
    assert await bench.names(order="pressure") == ["c", "b", "d", "a", "e"]
    assert await bench.names(order="rate") == ["a", "b", "c", "d", "e"]
    send = await bench.sender("e")
    await send(1)
    await bench.round()
    assert await bench.names(order="rate") == ["e", "a", "b", "c", "d"]


@bench
async def test_a_list_that_is_put_together_of_many_pieces_is_in_order_wherever_it_begins(bench: Bench) -> None:
    await bench.filled(**{f"q{number:02}": number * 7 % 20 for number in range(20)})
    await bench.round()
    whole = {order: await bench.names(order=order) for order in ORDERS}
    assert whole["backlog"] == [f"q{number:02}" for number in sorted(range(20), key=lambda each: -(each * 7 % 20))]
    with mock.patch("transport.picture.view.CHUNK", 3):
        for order, names in whole.items():
            for start, limit in ((0, 1), (0, 20), (2, 5), (7, 13), (19, 4), (20, 1)):
                assert await bench.names(order=order, start=start, limit=limit) == names[start : start + limit]


@bench
async def test_of_more_parties_than_are_judged_one_by_one_the_sentence_has_the_number(bench: Bench) -> None:
    for client in ("packer", "loader"):
        await bench.attach("a", client, lambda ref: commands.AttachReceiver(connection=ref))
    await bench.filled(a=3)
    await bench.round()
    await bench.round()
    flow = (await bench.view.take(Asked(queue="a")))["flow"]
    assert flow["sentence"] == "queue a has 3 messages ready: receivers loader and packer ask for no more"
    with mock.patch("transport.picture.view.MOST_JUDGED", 1):
        flow = (await bench.view.take(Asked(queue="a")))["flow"]
    assert flow["sentence"] == "queue a has 3 messages ready: 2 receivers ask for no more"
    assert flow["all_receivers"] == 2


@bench
async def test_a_filter_narrows_the_list_and_not_the_totals(bench: Bench) -> None:
    await bench.filled(orders=2, stock=3, reorder=4)
    await bench.round()
    seen = await bench.view.take(Asked(contains="order", order="name"))
    assert [row["name"] for row in seen["queues"]] == ["orders", "reorder"]
    assert seen["matching"] == 2
    assert seen["totals"]["queues"] == 3
    assert (seen["totals"]["ready"], seen["totals"]["stored_messages"]) == (9, 9)
    assert (await bench.view.take(Asked(contains="nothing")))["queues"] == []


@bench
async def test_a_part_of_the_list_begins_where_it_is_asked_to(bench: Bench) -> None:
    await bench.filled(**{f"q{number:04}": 0 for number in range(MADE + 20)})
    await bench.round()
    assert await bench.names(order="name", start=2, limit=3) == ["q0002", "q0003", "q0004"]
    assert await bench.names(order="name", start=MADE - 1, limit=2) == [f"q{MADE - 1:04}", f"q{MADE:04}"]
    assert await bench.names(order="name", start=MADE + 18, limit=9) == [f"q{MADE + 18:04}", f"q{MADE + 19:04}"]
    assert await bench.names(start=MOST_BEFORE) == []


@bench
async def test_of_one_queue_all_who_send_and_receive_are_shown_with_their_rates(bench: Bench) -> None:
    first, second = await bench.sender("a", "till-1"), await bench.sender("a", "till-2")
    await bench.attach("a", "packer", lambda ref: commands.AttachReceiver(connection=ref))
    await bench.round()
    flow = (await bench.view.take(Asked(queue="a")))["flow"]
    assert flow is not None
    assert {each["rate"] for each in flow["senders"]} == {0.0}
    await first(6)
    await second(2)
    await bench.round()
    flow = (await bench.view.take(Asked(queue="a")))["flow"]
    assert [(each["client"], each["rate"]) for each in flow["senders"]] == till_rates(6, 2)
    # Twice in one round it is the same.
    again = (await bench.view.take(Asked(queue="a")))["flow"]
    assert [(each["client"], each["rate"]) for each in again["senders"]] == till_rates(6, 2)
    await bench.round()
    flow = (await bench.view.take(Asked(queue="a")))["flow"]
    assert {each["messages"] for each in flow["senders"]} == {6, 2}
    assert (flow["all_senders"], flow["all_receivers"]) == (2, 1)


@bench
async def test_those_who_have_no_connection_are_told_apart(bench: Bench) -> None:
    one, other = await bench.sender("a"), await bench.sender("a")
    await bench.round()
    await bench.view.take(Asked(queue="a"))
    await one(3)
    await other(1)
    await bench.round()
    flow = (await bench.view.take(Asked(queue="a")))["flow"]
    assert [(each["id"], each["client"], each["rate"]) for each in flow["senders"]] == [
        (None, "", pytest.approx(3, 0.02)),
        (None, "", pytest.approx(1, 0.02)),
    ]


@bench
async def test_of_very_many_parties_the_busiest_are_shown_and_all_are_counted(bench: Bench) -> None:
    sends = [await bench.sender("a", f"till-{number}") for number in range(MOST_PARTIES + 5)]
    await bench.round()
    await bench.view.take(Asked(queue="a"))
    await sends[-1](9)
    await bench.round()
    flow = (await bench.view.take(Asked(queue="a")))["flow"]
    assert len(flow["senders"]) == MOST_PARTIES
    assert flow["all_senders"] == MOST_PARTIES + 5
    assert flow["senders"][0]["client"] == f"till-{MOST_PARTIES + 4}"


@bench
async def test_a_queue_that_is_not_there_has_no_flow(bench: Bench) -> None:
    await bench.round()
    assert (await bench.view.take(Asked(queue="nobody")))["flow"] is None
    bench.queues.get_or_create("nobody")
    await bench.round()
    assert (await bench.view.take(Asked(queue="nobody")))["flow"] is not None
    bench.queues.delete("nobody")
    assert (await bench.view.take(Asked(queue="nobody")))["flow"] is None


@bench
async def test_samples_are_kept_of_the_queues_that_are_shown(bench: Bench) -> None:
    await bench.filled(a=1, b=0)
    await bench.round()
    await bench.view.take(Asked(contains="a", queue="b"))
    await bench.round()
    found = bench.view.history(["a", "b", "c"])
    assert [len(each) for each in found.values()] == [1, 1, 0]
    assert found["a"][0].ready == 1


@bench
async def test_the_age_of_the_next_message_goes_on_while_the_queue_is_at_rest(bench: Bench) -> None:
    await bench.filled(a=1, b=0)
    for seconds in (0, 60):
        await elapse(seconds)
        await bench.round()
        rows = {row["name"]: row for row in (await bench.view.take(Asked()))["queues"]}
        assert rows["a"]["oldest_ms"] == pytest.approx(1000 * seconds + 1000, abs=1500)
        assert rows["b"]["oldest_ms"] == 0


@bench
async def test_the_queue_that_is_asked_for_is_kept_beside_as_many_as_are_shown(bench: Bench) -> None:
    await bench.filled(**{f"q{number:03}": 0 for number in range(MOST_ROWS + 1)})
    last = f"q{MOST_ROWS:03}"
    await bench.round()
    shown = await bench.view.take(Asked(order="name", limit=MOST_ROWS, queue=last))
    names = [row["name"] for row in shown["queues"]]
    assert last not in names
    await bench.round()
    assert [len(each) for each in bench.view.history([*names, last]).values()] == [1] * (MOST_ROWS + 1)


@bench
async def test_very_many_who_send_and_receive_are_looked_at_a_few_at_a_time(
    bench: Bench,
) -> None:
    for number in range(3 * PARTIES_AT_ONCE):
        await bench.attach("a", f"packer-{number}", lambda ref: commands.AttachReceiver(connection=ref))
    await bench.round()
    between = 0
    with mock.patch("transport.picture.slices.SLICE_SECONDS", 0.0):
        taking = asyncio.ensure_future(bench.view.take(Asked(queue="a")))
        while not taking.done():
            between += 1
            await asyncio.sleep(0)
    assert between >= 3 * TURNS_BETWEEN
    flow = taking.result()["flow"]
    assert flow["all_receivers"] == 3 * PARTIES_AT_ONCE


@bench
async def test_receivers_of_an_exclusive_queue_may_all_leave_while_they_are_looked_at(
    bench: Bench,
) -> None:
    bench.queues.declare("a", QueueSettings(exclusive=True))
    refs = [
        await bench.attach("a", f"packer-{number}", lambda ref: commands.AttachReceiver(connection=ref))
        for number in range(2 * PARTIES_AT_ONCE)
    ]
    await bench.round()
    flow = (await bench.view.take(Asked(queue="a")))["flow"]
    assert [each["waits"] for each in flow["receivers"]].count(False) <= 1
    assert flow["all_receivers"] == len(refs)
    slices = "transport.picture.slices"
    with mock.patch(f"{slices}.SLICE_SECONDS", 0.0), mock.patch(f"{slices}.TURNS_BETWEEN", 50):
        # Behind the row there are fifty turns, and behind the first of those who receive as many.
        taking = asyncio.ensure_future(bench.view.take(Asked(queue="a")))
        await turns(70)
        for ref in refs:
            ref.stop(block=False)
        flow = (await taking)["flow"]
    assert flow["all_receivers"] < len(refs)


@bench
async def test_a_view_is_one_who_looks_and_none_when_it_is_closed(bench: Bench) -> None:
    looks = [bench.sampler.look() for _ in range(MOST_LOOKS - 1)]
    with pytest.raises(LimitExceededError):
        View(bench.sampler, bench.queues, {})
    for look in looks:
        look.close()
    bench.view.close()
    bench.view.close()
    assert not bench.sampler.running


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"order": "size"}, "the order 'size' is unknown"),
        ({"order": 3}, "the argument order must be a text"),
        ({"limit": 0}, "limit is 0"),
        ({"limit": MOST_ROWS + 1}, "a picture has 1 to 200"),
        ({"limit": True}, "the argument limit must be a whole number"),
        ({"start": -1}, "start is -1"),
        ({"start": MOST_BEFORE + 1}, "1000 is the most"),
        ({"contains": "x" * (MOST_FILTER + 1)}, "256 characters"),
        ({"contains": b"x"}, "the argument contains must be a text"),
        ({"queue": 7}, "the argument queue must be a text"),
    ],
)
def test_what_cannot_be_is_refused_with_its_reason(arguments: dict[str, Any], words: str) -> None:
    with pytest.raises(RemoteProtocolError, match=words):
        asked_of(arguments)


def test_what_is_not_said_is_as_by_default_and_what_is_unknown_passed_over() -> None:
    assert asked_of({}) == asked_of({"order": None, "later": 1}) == Asked()
    assert asked_of({"order": "rate", "limit": 3, "queue": "q"}) == Asked("rate", limit=3, queue="q")
