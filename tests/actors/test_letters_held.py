"""Dead letters wait for room in every queue that they go to, and ask nobody meanwhile; they go by other settings when there are some."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from pathlib import Path
from typing import Any
from unittest import mock

import pytest

from actors.queue.letters_out import LettersOut
from actors.queue.vocabulary import commands
from actors.queue.vocabulary.settings import DEAD_LETTER_BATCHES, DEAD_LETTER_TIMEOUT, QueueSettings
from actors.runtime.loop_future import ask
from streams.testkit import elapse, run_in_virtual_time
from tests.actors.letters_bench import Letters
from tests.actors.publishing_bench import received, receiver
from tests.actors.stored_queues import durable, turns

SMALL = QueueSettings(max_messages=2)


async def full(folder: Path | None, small: QueueSettings = SMALL) -> Letters:
    """The exchange leads to ``small``, which is full, and to ``large``; three dead letters wait."""
    bench = Letters(folder)
    bench.queues.declare("small", small)
    await bench.bound(small="", large="")
    bench.store(b"a", b"b", name="small")
    await bench.die_of(b"1", b"2", b"3")
    return bench


async def altered(bench: Letters, name: str = "q", **changed: Any) -> None:
    answer = ask(bench.queues.get(name), bench.queues.alter(name, changed))
    await bench.settled()
    await answer


@pytest.mark.parametrize("overflow", ["block", "reject"])
def test_a_full_queue_holds_all_of_them_back_until_it_has_room(tmp_path: Path, overflow: str) -> None:
    async def main() -> None:
        bench = await full(tmp_path / "data", QueueSettings(max_messages=2, overflow=overflow))
        assert bench.holds("q", "small", "large", "q.dead") == [[b"1", b"2", b"3"], [b"a", b"b"], [], []]
        assert bench.figures("q").leaving == 3
        await bench.acknowledge("small", 1)
        assert bench.holds("q", "small", "large") == [[b"2", b"3"], [b"b", b"1"], [b"1"]]
        await bench.acknowledge("small", 2)
        assert bench.holds("q", "small", "large") == [[], [b"2", b"3"], [b"1", b"2", b"3"]]
        assert (bench.figures("q").leaving, bench.figures("q").total_dead_lettered) == (0, 3)
        assert bench.figures("small").total_rejected == 0
        await bench.close()

    run_in_virtual_time(main())


def test_so_it_is_in_memory() -> None:
    async def main() -> None:
        bench = await full(None)
        assert bench.holds("q", "small", "large") == [[b"1", b"2", b"3"], [b"a", b"b"], []]
        await bench.acknowledge("small", 2)
        assert bench.holds("q", "small", "large") == [[b"3"], [b"1", b"2"], [b"1", b"2"]]
        await bench.close()

    run_in_virtual_time(main())


@durable
async def test_bytes_hold_them_back_too_and_one_that_is_too_large_passes_alone(folder: Path) -> None:
    bench = Letters(folder)
    bench.queues.declare("small", QueueSettings(max_bytes=2_000))
    await bench.bound(small="", large="")
    await bench.die_of(b"1" * 1_900, b"2" * 1_900, b"3" * 1_900, b"4" * 5_000)
    assert bench.holds("large") == [[b"1" * 1_900]]
    await bench.acknowledge("small", 1)
    assert bench.holds("large")[0][1:] == [b"2" * 1_900]
    await bench.acknowledge("small", 1)
    await bench.acknowledge("small", 1)
    assert bench.holds("q", "small") == [[], [b"4" * 5_000]]
    await bench.close()


@durable
async def test_nothing_is_looked_at_again_while_there_is_no_room_but_what_comes_again_in_time(folder: Path) -> None:
    bench = await full(folder)
    with mock.patch.object(LettersOut, "step", autospec=True, side_effect=LettersOut.step) as steps:
        for number in range(3):
            await bench.die_of(b"%d" % (4 + number))
        await elapse(DEAD_LETTER_TIMEOUT / 2)
        bench.store(b"large", name="large")
        await turns()
        assert steps.call_count == 0
        await elapse(DEAD_LETTER_TIMEOUT)
        assert 1 <= steps.call_count <= 4
    await bench.acknowledge("small", 2)
    assert bench.holds("small", "q") == [[b"1", b"2"], [b"3", b"4", b"5", b"6"]]
    await bench.close()


@durable
async def test_others_that_are_full_are_waited_for_one_after_the_other(folder: Path) -> None:
    bench = await full(folder)
    bench.queues.declare("second", SMALL)
    await bench.bound(exchange="x", second="")
    bench.store(b"c", b"d", name="second")
    await bench.acknowledge("small", 2)
    assert bench.holds("q", "small", "second", "large") == [[b"1", b"2", b"3"], [], [b"c", b"d"], []]
    await bench.acknowledge("second", 2)
    assert bench.holds("q", "small", "second", "large") == [[b"3"], [b"1", b"2"], [b"1", b"2"], [b"1", b"2"]]
    await bench.close()


@durable
async def test_two_queues_that_wait_for_the_same_are_both_told(folder: Path) -> None:
    bench = await full(folder)
    bench.queues.declare("p", QueueSettings(max_receives=1, dead_letter_exchange="x"))
    await bench.die_of(b"p", name="p")
    for _ in range(2):
        await bench.acknowledge("small", 2)
    assert bench.holds("p", "q") == [[], []]
    assert sorted(bench.holds("large")[0]) == [b"1", b"2", b"3", b"p"]
    await bench.close()


@durable
async def test_they_go_on_at_once_when_the_full_queue_is_deleted(folder: Path) -> None:
    bench = await full(folder)
    bench.queues.delete("small")
    await turns()
    assert bench.holds("q", "large") == [[], [b"1", b"2", b"3"]]
    await bench.close()


@durable
async def test_they_go_on_at_once_when_the_full_queue_may_hold_more(folder: Path) -> None:
    bench = await full(folder)
    await altered(bench, "small", max_messages=100)
    assert bench.holds("q", "large") == [[], [b"1", b"2", b"3"]]
    await bench.close()


async def changed(bench: Letters, change: Coroutine[Any, Any, bool]) -> None:
    """Have a command on exchanges carried out, as a client's."""
    doing = asyncio.ensure_future(change)
    await bench.settled()
    assert await doing


@durable
async def test_they_go_on_at_once_when_the_full_queue_is_bound_no_more(folder: Path) -> None:
    bench = await full(folder)
    await changed(bench, bench.queues.exchanges.unbind("x", "small"))
    assert bench.holds("q", "small", "large") == [[], [b"a", b"b"], [b"1", b"2", b"3"]]
    assert bench.queues.exchanges.held == {}
    await bench.close()


@durable
async def test_they_go_to_the_queues_own_at_once_when_the_exchange_is_deleted(folder: Path) -> None:
    bench = await full(folder)
    await changed(bench, bench.queues.exchanges.delete("x"))
    assert bench.holds("q", "small", "large", "q.dead") == [[], [b"a", b"b"], [], [b"1", b"2", b"3"]]
    await bench.close()


@durable
async def test_what_is_half_stored_goes_on_where_it_leads_from_now_on(folder: Path) -> None:
    bench = await full(folder)
    await bench.acknowledge("small", 1)
    assert bench.holds("q", "small", "large") == [[b"2", b"3"], [b"b", b"1"], [b"1"]]
    bench.queues.get_or_create("other")
    await changed(bench, bench.queues.exchanges.bind("x", "other"))
    assert bench.holds("q", "other") == [[b"2", b"3"], []], "small has no room yet"
    await changed(bench, bench.queues.exchanges.unbind("x", "small"))
    assert bench.holds("q", "small", "large", "other") == [[], [b"b", b"1"], [b"1", b"2", b"3"], [b"2", b"3"]]
    await bench.close()


@durable
async def test_a_change_that_leads_them_nowhere_else_has_nothing_looked_for_and_the_next_is_noticed_too(
    folder: Path,
) -> None:
    bench = await full(folder)
    exchanges = bench.queues.exchanges
    with mock.patch.object(LettersOut, "step", autospec=True) as step:
        for number in range(3):
            await changed(bench, exchanges.declare(f"other-{number}"))
            await changed(bench, exchanges.bind(f"other-{number}", "small"))
        assert step.call_count == 0
    await changed(bench, exchanges.unbind("x", "small"))
    assert bench.holds("q", "large") == [[], [b"1", b"2", b"3"]]
    await bench.close()


@durable
async def test_a_queue_that_is_deleted_while_its_letters_wait_hears_of_nothing_more(folder: Path) -> None:
    bench = await full(folder)
    assert list(bench.queues.exchanges.held) == [bench.queues.get("q")]
    bench.queues.delete("q")
    await turns()
    assert bench.queues.exchanges.held == {}
    await changed(bench, bench.queues.exchanges.unbind("x", "small"))
    await bench.close()


@durable
async def test_what_senders_were_granted_and_have_not_sent_does_not_hold_them_back(folder: Path) -> None:
    bench = Letters(folder)
    bench.queues.declare("small", SMALL)
    await bench.bound(small="")
    await bench.connect(
        bench.queues.get("small"),
        lambda ref: commands.AttachSender(None, connection=ref),
        lambda ref: commands.RequestCapacity(100, 10**9, ref),
    )
    assert bench.figures("small").capacity_granted == 2
    await bench.die_of(b"1", b"2")
    assert bench.holds("small") == [[b"1", b"2"]]
    await bench.close()


@durable
async def test_what_waits_for_room_goes_to_the_queue_that_is_named_instead(folder: Path) -> None:
    bench = await full(folder)
    await altered(bench, dead_letter_exchange=None, dead_letter_queue="other")
    await bench.settled()
    assert bench.holds("q", "other", "small", "large") == [[], [b"1", b"2", b"3"], [b"a", b"b"], []]
    await bench.acknowledge("small", 2)
    await elapse(2 * DEAD_LETTER_TIMEOUT)
    await bench.settled()
    assert bench.holds("other", "small", "large") == [[b"1", b"2", b"3"], [], []]
    assert bench.figures("q").total_dead_lettered == 3
    await bench.close()


@durable
async def test_what_waits_for_room_goes_to_another_exchange_and_by_another_key(folder: Path) -> None:
    bench = await full(folder)
    await bench.bound("direct", exchange="y", c="k")
    await altered(bench, dead_letter_exchange="y", dead_letter_routing_key="k")
    assert bench.holds("q", "c", "large") == [[], [b"1", b"2", b"3"], []]
    await bench.close()


@durable
async def test_what_waits_for_room_is_received_again_where_failures_do_not_count_any_more(folder: Path) -> None:
    bench = await full(folder)
    _, told = await receiver(bench, "q")
    await altered(bench, dead_letter_exchange=None, max_receives=None)
    await bench.settled()
    assert received(told) == [b"1", b"2", b"3"]
    assert bench.figures("q").leaving == 0
    await bench.acknowledge("small", 2)
    await elapse(2 * DEAD_LETTER_TIMEOUT)
    assert bench.holds("small", "large") == [[], []]
    await bench.close()


@durable
async def test_other_limits_of_their_own_queue_change_nothing_for_them(folder: Path) -> None:
    bench = await full(folder)
    await altered(bench, max_messages=50)
    assert bench.figures("q").leaving == 3
    await bench.acknowledge("small", 2)
    assert bench.holds("q", "small", "large") == [[b"3"], [b"1", b"2"], [b"1", b"2"]]
    await bench.close()


@durable
async def test_few_of_them_are_under_way_however_many_wait(folder: Path) -> None:
    bench = await full(folder)
    for number in range(100):
        bench.store(b"%03d" % number)
    await bench.refuse()
    assert bench.figures("q").leaving == 103
    state = bench.queues.state("q")
    assert state is not None
    assert len(state.outbox.sent) <= DEAD_LETTER_BATCHES
    await altered(bench, "small", max_messages=1_000)
    for _ in range(5):
        await bench.settled()
    assert bench.holds("large") == [[b"1", b"2", b"3", *(b"%03d" % number for number in range(100))]]
    await bench.close()


@durable
async def test_what_has_expired_and_waits_is_dropped_where_nothing_is_named_for_it_any_more(folder: Path) -> None:
    bench = Letters(folder, QueueSettings(ttl=5.0, dead_letter_exchange="x"))
    bench.queues.declare("small", SMALL)
    await bench.bound(small="")
    bench.store(b"a", b"b", name="small")
    for number in range(DEAD_LETTER_BATCHES + 5):
        bench.store(b"%d" % number)
    await turns()
    await elapse(6.0)
    state = bench.queues.state("q")
    assert state is not None
    assert state.outbox.waiting, "some are handed over, and some wait for these"
    await altered(bench, dead_letter_exchange=None)
    await bench.settled()
    assert bench.figures("q").total_expired == DEAD_LETTER_BATCHES + 5
    assert bench.holds("q", "small", "q.dead") == [[], [b"a", b"b"], []]
    await bench.close()
