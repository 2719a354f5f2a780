"""A few cells of the kill matrix, and that it finds what differs; ``python -m tests.fault.spark_kills`` runs them all."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from random import Random
from typing import Any

import pytest

from tests.fault.spark_cells import BOTH, BROKER, JVM, LATE, SENT_ROWS, Cell, bench
from tests.fault.spark_exchange import EVERYTHING, KEY_RUN, NAMES, judged, key_of, planned
from tests.fault.spark_gate import Gate, gone, processes_of
from tests.fault.spark_kills import CORES, sink_cells, source_cells
from tests.fault.spark_long import BROKER as A_BROKER
from tests.fault.spark_long import JVM as A_JVM
from tests.fault.spark_long import numbered
from tests.fault.spark_points import (
    ACKNOWLEDGEMENT_AFTER,
    ANYWHERE,
    LOG_AFTER,
    LOG_BEFORE,
    PUBLISH_AFTER,
    READ_AMID,
    RESERVATION_AFTER,
    ROWS_PER_BATCH,
    SINK_POINTS,
    SOURCE_POINTS,
    STAGE_AFTER,
    STAGE_AMID,
    Hold,
    batch_at,
    batch_before,
)
from tests.fault.spark_query import difference, session

pytestmark = [
    pytest.mark.spark,
    # JVMs start in these, on a machine that may be busy with others.
    pytest.mark.timeout(300),
    # py4j leaves the sockets of its callback threads to the garbage collector.
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
]

ROWS = [b"a", b"b", b"b", b"c"]


@pytest.fixture(scope="module")
def spark(spark_python: str) -> Iterator[Any]:
    from pyspark import SparkContext

    others = SparkContext._active_spark_context is not None
    found = session(CORES, spark_python)
    yield found
    # One that other tests of this process have made is theirs to stop.
    if not others:
        found.stop()


def run(spark: Any, folder: Path, *cells: Cell, options: list[str] | None = None) -> list[str | None]:
    async def all_of_them() -> list[str | None]:
        async with bench(spark, folder, options) as shared:
            return [await shared.run(cell) for cell in cells]

    return asyncio.run(all_of_them())


def test_a_query_goes_on_whole_when_the_broker_is_killed_amid_a_read_after_a_commit_and_amid_a_stage(
    spark: Any, tmp_path: Path
) -> None:
    cells = (
        Cell(READ_AMID, 2, "commit", BROKER),
        Cell(ACKNOWLEDGEMENT_AFTER, 0, "poll", BROKER),
        Cell(STAGE_AMID, 2, "commit", BROKER),
    )
    assert run(spark, tmp_path, *cells) == [None, None, None]


@pytest.mark.soak  # as all other cells: python -m tests.fault.spark_kills
def test_a_worker_that_outlives_its_jvm_changes_nothing_when_the_query_has_been_resumed(
    spark: Any, tmp_path: Path
) -> None:
    assert run(spark, tmp_path, Cell(RESERVATION_AFTER, 2, "poll", LATE)) == [None]


@pytest.mark.soak
def test_a_sink_writes_a_batch_once_that_is_committed_and_not_in_sparks_log_when_the_jvm_and_the_broker_are_killed(
    spark: Any, tmp_path: Path
) -> None:
    assert run(spark, tmp_path, Cell(PUBLISH_AFTER, 2, "commit", BOTH)) == [None]


def test_what_a_broker_loses_that_keeps_nothing_is_found_out(spark: Any, tmp_path: Path) -> None:
    (found,) = run(spark, tmp_path, Cell(LOG_AFTER, 2, "commit", BROKER), options=["--memory"])
    assert found is not None
    assert "is no longer what the query's checkpoint refers to" in found
    assert "there is no queue" in found


def test_a_point_that_a_query_does_not_come_to_is_found_out(spark: Any, tmp_path: Path) -> None:
    (found,) = run(spark, tmp_path, Cell(LOG_AFTER, 9, "commit", BROKER))
    assert found is not None
    assert "never came to the point" in found


# The parts, without Spark


def test_the_matrix_has_every_point_with_every_victim() -> None:
    for cells, points in ((source_cells(), SOURCE_POINTS), (sink_cells(), SINK_POINTS)):
        for victims in (JVM, BROKER, BOTH):
            assert [point for point in points if Cell(point, 0, "commit", victims) not in cells] == []
        assert len(set(cells)) == len({cell.name for cell in cells}) == len(cells)
    assert set(source_cells()) < set(source_cells(every=True))
    assert len(source_cells(every=True)) == len(SOURCE_POINTS) * 2 * 2 * 4


@pytest.mark.parametrize(
    ("point", "ack_on", "planned", "completed"),
    [
        (RESERVATION_AFTER, "commit", {0, 1}, {0, 1}),
        (LOG_BEFORE, "commit", {0, 1}, {0, 1}),
        (LOG_AFTER, "commit", {0, 1, 2}, {0, 1}),
        (STAGE_AFTER, "commit", {0, 1, 2}, {0, 1}),
        (ACKNOWLEDGEMENT_AFTER, "commit", {0, 1, 2, 3}, {0, 1, 2}),
        (ACKNOWLEDGEMENT_AFTER, "poll", {0, 1, 2}, {0, 1, 2}),
    ],
)
def test_each_point_is_on_one_side_of_sparks_logs(
    point: str, ack_on: str, planned: set[int], completed: set[int]
) -> None:
    assert Cell(point, 2, ack_on, JVM).logs_expected() == (planned, completed)


def test_a_sink_shows_whole_batches() -> None:
    assert Cell(STAGE_AFTER, 2, "commit", JVM).published_expected() == 2 * ROWS_PER_BATCH
    assert Cell(PUBLISH_AFTER, 2, "commit", JVM).published_expected() == 3 * ROWS_PER_BATCH


def test_a_position_tells_its_batch() -> None:
    assert [batch_at(position) for position in (0, 1000, 3000)] == [0, 1, 3]
    assert [batch_before(position) for position in (1000, 3000, 3500)] == [0, 2, 3]
    assert ROWS_PER_BATCH > SENT_ROWS


@pytest.mark.parametrize(
    ("found", "text"),
    [
        (ROWS[1:], "1 missing ('a')"),
        ([*ROWS, b"b"], "1 too often ('b')"),
        ([*ROWS, b"x"], "1 never sent ('x')"),
        ([b"b", b"a", b"b", b"c"], "the rows are in another order"),
        ([b"a", b"b", b"c", b"c"], "1 missing ('b'); 1 too often ('c')"),
        ([], "4 missing ('a', 'b', 'c')"),
    ],
)
def test_rows_that_are_not_as_sent_are_found(found: list[bytes], text: str) -> None:
    assert difference(ROWS, found) == text


def test_rows_that_are_as_sent_do_not_differ() -> None:
    assert difference(ROWS, list(ROWS)) is None


def test_a_repeated_log_has_no_two_equal_rows() -> None:
    assert numbered([b"x", b"y"], 1, 4) == [b"00000001 y", b"00000002 x", b"00000003 y"]


def outputs(lake: list[bytes], alarm: list[bytes], binding: str = EVERYTHING) -> dict[str, tuple[str, list[bytes]]]:
    return {"lake": (EVERYTHING, lake), "alarm": (binding, alarm)}


def test_a_row_that_one_of_two_queries_of_an_exchange_lacks_or_has_twice_is_found() -> None:
    rows = numbered([b"x"], 0, 4 * KEY_RUN)
    part = [row for number, row in enumerate(rows) if key_of(number) in ("a.tea", "a.soup")]
    assert 0 < len(part) < len(rows)
    assert judged(rows, outputs(rows, rows)) is None
    assert judged(rows, outputs(rows, part, "a.#")) is None
    for alarm, binding, text in (
        (rows[1:], EVERYTHING, "alarm (#): 1 missing ('00000000 x')"),
        ([*rows, rows[7]], EVERYTHING, "alarm (#): 1 too often ('00000007 x')"),
        (rows[::-1], EVERYTHING, "alarm (#): the rows are in another order"),
        (part[:-1], "a.#", "alarm (a.#): 1 missing"),
        ([*part, rows[-1]], "a.#", "alarm (a.#): 1 never sent"),
        (part, EVERYTHING, "alarm (#): 200 missing"),
    ):
        found = judged(rows, outputs(rows, alarm, binding))
        assert found is not None
        assert found.startswith(text)
    both = judged(rows, outputs(rows[:-1], [*rows, rows[0]]))
    assert both == "lake (#): 1 missing ('00000399 x'); alarm (#): 1 too often ('00000000 x')"


def test_ten_kills_are_of_both_kinds_at_every_point_of_either_query() -> None:
    for seed in range(20):
        kills = planned(5, 5, Random(seed))
        assert sorted(kill.victim for kill in kills) == [A_BROKER] * 5 + [A_JVM] * 5
        assert [kill.query for kill in kills] == [number % len(NAMES) for number in range(10)]
        assert {kill.point for kill in kills} == set(SOURCE_POINTS)


def test_a_gate_that_is_armed_for_a_point_lets_all_pass_that_come_elsewhere() -> None:
    async def hold_one() -> tuple[str, int]:
        async with Gate() as gate:
            hold = Hold(ANYWHERE, 0, gate.address)
            reached = gate.arm("there")
            await asyncio.to_thread(hold.reach, "here", 3)
            assert not reached.done()
            held_up = asyncio.create_task(asyncio.to_thread(hold.reach, "there", 3))
            held = await reached
            held.release()
            await held_up
            return held.point, held.batch

    assert asyncio.run(hold_one()) == ("there", 3)


def test_a_gate_holds_one_worker_and_lets_others_pass() -> None:
    async def hold_two() -> tuple[str, int, bool]:
        async with Gate() as gate:
            hold = Hold("here", 1, gate.address)
            reached = gate.arm()
            await asyncio.to_thread(hold.reach, "here", 2)
            await asyncio.to_thread(hold.reach, "there", 1)
            assert not reached.done()
            first = asyncio.create_task(asyncio.to_thread(hold.reach, "here", 1))
            held = await reached
            await asyncio.to_thread(hold.reach, "here", 1)
            passed_before = first.done()
            held.release()
            await first
            return held.point, held.batch, passed_before

    assert asyncio.run(hold_two()) == ("here", 1, False)


def test_processes_that_a_driver_leaves_are_found_and_waited_for() -> None:
    """A shell whose child lives on until its standard input is closed."""
    shell = [
        sys.executable,
        "-c",
        "import os, sys\nif os.fork() == 0:\n    print('up', flush=True)\n    sys.stdin.read()\n",
    ]
    with subprocess.Popen(shell, stdin=subprocess.PIPE, stdout=subprocess.PIPE, start_new_session=True) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        assert process.stdout.readline() == b"up\n"
        process.wait(30)
        (child,) = processes_of(process.pid)
        assert child != process.pid
        process.stdin.close()
        assert asyncio.run(gone(process.pid)) == []
        assert processes_of(process.pid) == []
