"""The rows of the metrics: kept up by what has changed, whatever becomes of the queues meanwhile, and for a while alone."""

from __future__ import annotations

import asyncio
import gc
import weakref
from itertools import count
from random import Random
from typing import Any

from actors.queue.changes import MOST_NAMES
from actors.queue.counts import less, plus
from actors.queue.operations.counting import Counters, counters_of
from actors.queue.queue_actor import QueueActor
from streams.testkit import elapse, run_in_virtual_time
from tests.actors.stored_queues import StoredQueues
from tests.actors.test_counts import used
from transport.picture.letting_go import PART, let_go
from transport.picture.loop_delay import LINGER_SECONDS
from transport.picture.rows import COUNTED, READY, Rows
from transport.picture.slices import Slices, own_turn


def verify(rows: Rows, bench: StoredQueues) -> None:
    """The rows say what the queues say now."""
    queues = bench.queues
    assert rows.names == sorted(queues.names) == sorted(rows.rows)
    total = Counters()
    for name in rows.names:
        state = queues.state(name)
        assert state is not None
        own = less(counters_of(state), queues.base(name))
        assert rows.rows[name].values[:COUNTED] == own
        total = plus(total, own)
    assert tuple(rows.sums[:COUNTED]) == total
    assert rows.sums[READY] == sum(row.values[READY] for row in rows.rows.values())
    assert rows.failed == sum(row.failed for row in rows.rows.values())
    assert sum(rows.kinds.values()) == sum(row.kind is not None for row in rows.rows.values())


def test_the_sums_are_those_of_the_queues_whatever_becomes_of_them() -> None:
    async def main() -> None:
        bench, random = StoredQueues(None), Random(15)
        rows = Rows(bench.queues, lambda: None)
        for _ in range(60):
            name = f"q{random.randrange(8)}"
            what = random.choice(("use", "delete", "fail", "look"))
            if what == "use":
                await used(bench, name, random.randrange(1, 4))
            elif name in bench.queues and what == "delete":
                bench.queues.delete(name)
            elif name in bench.queues and what == "fail":
                queue = bench.queues.get(name)
                for _ in range(QueueActor.max_restarts + 1):
                    queue.tell(object())
                await queue.stopped()
            await rows.bring_up(Slices())
            verify(rows, bench)
        rows.end()
        await bench.close()

    run_in_virtual_time(main())


def test_so_many_changes_that_no_names_are_kept_have_all_rows_read_again() -> None:
    async def main() -> None:
        bench = StoredQueues(None)
        rows = Rows(bench.queues, lambda: None)
        await used(bench, "a", 2)
        await used(bench, "b", 1)
        await rows.bring_up(Slices())
        bench.queues.delete("b")
        await used(bench, "a", 1)
        for number in range(MOST_NAMES):
            bench.queues.changes.note(f"gone-{number}")
        await rows.bring_up(Slices())
        verify(rows, bench)
        assert rows.names == ["a"]
        rows.end()
        await bench.close()

    run_in_virtual_time(main())


def test_rows_are_kept_for_a_while_and_then_nothing_is_noted_any_more() -> None:
    async def main() -> None:
        bench, forgotten = StoredQueues(None), []
        rows = Rows(bench.queues, lambda: forgotten.append(True))
        await used(bench, "a", 2)
        await rows.bring_up(Slices())
        row = rows.rows["a"]
        await elapse(LINGER_SECONDS - 1)
        assert rows.kept
        await rows.bring_up(Slices())
        # Nothing has changed, so it is the same.
        assert rows.rows["a"] is row
        await elapse(LINGER_SECONDS + 1)
        assert not rows.kept
        assert forgotten == [True]
        assert bench.queues.changes.names is None
        await rows.bring_up(Slices())
        verify(rows, bench)
        rows.end()
        await bench.close()

    run_in_virtual_time(main())


def test_whoever_goes_away_meanwhile_leaves_no_row_unread() -> None:
    async def main() -> None:
        bench = StoredQueues(None)
        for number in range(200):
            bench.queues.get_or_create(f"q{number:03}")
        rows = Rows(bench.queues, lambda: None)
        for turns in range(30):
            # A clock that says each time that the slice is over.
            asking = asyncio.ensure_future(rows.bring_up(Slices(count().__next__)))
            for _ in range(turns):
                await asyncio.sleep(0)
            asking.cancel()
            await asyncio.gather(asking, return_exceptions=True)
        await rows.bring_up(Slices())
        verify(rows, bench)
        assert len(rows.names) == 200
        rows.end()
        await bench.close()

    run_in_virtual_time(main())


def test_no_turn_of_the_loop_has_two_slices() -> None:
    async def main() -> None:
        turn, slices = 0, []

        async def work(times: int) -> None:
            # A clock that says each time that the slice is over.
            mine = Slices(count().__next__)
            await mine.begin()
            for _ in range(times):
                slices.append(turn)
                await mine.pause()

        async def others() -> None:
            nonlocal turn
            while not all(each.done() for each in working):
                turn += 1
                await asyncio.sleep(0)

        working = [asyncio.ensure_future(work(10)) for _ in range(7)]
        working.append(asyncio.ensure_future(work(1_000)))
        counted = asyncio.ensure_future(others())
        # One that goes away while it waits for its turn, or has it, leaves it to the others.
        await asyncio.sleep(0)
        working[-1].cancel()
        await asyncio.gather(*working, counted, return_exceptions=True)
        assert len(slices) >= 70
        assert len(set(slices)) == len(slices)

    run_in_virtual_time(main())


def test_a_loop_on_which_there_were_slices_is_freed_when_it_is_over() -> None:
    async def main() -> weakref.ref[Any]:
        await asyncio.gather(*(own_turn() for _ in range(5)))
        gone = [asyncio.ensure_future(own_turn()) for _ in range(3)]
        await asyncio.sleep(0)
        for each in gone:
            each.cancel()
        return weakref.ref(asyncio.get_running_loop())

    loops = [asyncio.run(main()) for _ in range(4)]
    gc.collect()
    assert [loop for loop in loops if loop() is not None] == []


def test_what_is_let_go_is_freed_a_part_in_a_turn() -> None:
    async def main() -> None:
        kept = dict.fromkeys(range(2 * PART + 1))
        sizes = []
        let_go(kept)
        while kept:
            sizes.append(len(kept))
            await asyncio.sleep(0)
        assert sizes == [PART + 1, 1]

    run_in_virtual_time(main())
