"""Spark reads a cluster and writes to it through its leader's death; ``python -m tests.fault.machines.spark_kills`` kills twenty."""

from __future__ import annotations

import pytest

from tests.fault.machines.querying import READS, ROW, WRITES, Batch, Ended, line_of, told_in
from tests.fault.machines.records import payload_of
from tests.fault.machines.spark_kills import BESIDE, CLUSTER, SIZE, run, wrong_offsets, wrong_rows

KILLS = 1
SENT = {0: 3, 2: 2}
ROWS = [payload_of(producer, number, SIZE) for producer, count in SENT.items() for number in range(count)]
OFFSET = {"s": "in", "q": "in", "id": {BESIDE: "b" * 16, CLUSTER: "c" * 16}, "pos": {BESIDE: 2, CLUSTER: 3}}
PARTS = {CLUSTER: 3, BESIDE: 2}
ADDRESSES = ["10.77.0.1", "10.77.0.2"]


@pytest.mark.spark
@pytest.mark.timeout(300)  # a JVM starts in it, on a machine that may be busy with others
@pytest.mark.usefixtures("namespaces_here", "etcd_here")
def test_a_query_reads_and_another_writes_each_row_once_when_the_leaders_machine_is_killed() -> None:
    found = run(KILLS, seed=1, rate=100.0)
    assert not found.wrong, found.summary()
    assert found.facts["kills"] == KILLS
    assert found.facts["rows read"] == found.facts["sent"] > 100
    assert found.facts["deliveries"] >= found.facts["rows written"] > 100
    assert all(len(times) >= KILLS for times in found.seconds.values())


@pytest.mark.parametrize(
    ("rows", "text"),
    [
        (ROWS[1:], "producer 0: 1 missing ('0:0:1:')"),
        ([*ROWS, ROWS[-1]], "producer 2: 1 too often ('2:1:1:')"),
        ([ROWS[1], ROWS[0], *ROWS[2:]], "producer 0: the rows are in another order"),
        ([*ROWS, payload_of(2, 2, SIZE)], "producer 2: 1 never sent ('2:2:1:')"),
        ([*ROWS, payload_of(1, 0, SIZE)], "1 rows that nobody sent"),
        ([*ROWS, b"0:1:1"], "1 rows that nobody sent"),
    ],
)
def test_rows_that_are_not_what_each_producer_sent_are_found(rows: list[bytes], text: str) -> None:
    (found,) = wrong_rows(rows, SENT)
    assert found.startswith(text)


def test_rows_are_right_however_those_of_several_producers_are_mixed() -> None:
    assert wrong_rows([ROWS[3], ROWS[0], ROWS[1], ROWS[4], ROWS[2]], SENT) == []


@pytest.mark.parametrize(
    ("offset", "text"),
    [
        ({"pos": {BESIDE: 2, "10.77.0.1:9183": 3}}, "an offset is not of orders and beside"),
        ({"id": {BESIDE: "b" * 16, CLUSTER: "d" * 16}}, "an offset is not of orders and beside"),
        ({"q": "10.77.0.2:9183"}, "an offset has the address 10.77.0.2"),
        ({"pos": {BESIDE: 2, CLUSTER: 2}}, "the last offset is"),
    ],
)
def test_an_offset_that_names_a_node_or_another_queue_or_ends_too_soon_is_found(
    offset: dict[str, object], text: str
) -> None:
    assert wrong_offsets([OFFSET, OFFSET], PARTS, ADDRESSES) == []
    assert wrong_offsets([OFFSET, OFFSET | offset], PARTS, ADDRESSES)[0].startswith(text)


def test_that_no_offset_was_told_is_found() -> None:
    assert wrong_offsets([], PARTS, ADDRESSES) == ["no offset was told"]


@pytest.mark.parametrize("told", [Batch(READS, 3, 17, OFFSET), Ended(WRITES, 'no broker answers at "a"')])
def test_what_a_driver_prints_is_told_from_what_spark_prints(told: Batch | Ended) -> None:
    line = line_of(told)
    assert told_in(line) == told
    assert type(told_in(line)) is type(told)
    assert told_in(f"WARN {line}") is None


def test_a_row_of_spark_is_what_a_sender_would_send() -> None:
    assert [ROW.format(number).encode() for number in (0, 12_345)] == [
        payload_of(0, number, SIZE) for number in (0, 12_345)
    ]
