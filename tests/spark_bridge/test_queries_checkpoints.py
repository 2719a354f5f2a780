"""A checkpoint and a ledger that no longer agree: rolled back, lost, released, mixed up."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest

from tests.spark_bridge.queries import (
    CHECKPOINT,
    MARKS,
    Batches,
    failure,
    finish,
    numbers,
    recorded,
    release,
    roll_back,
    source,
    start,
)
from tests.spark_bridge.recorded_source import entries, logged

pytestmark = MARKS

LOST = "subscription 's' of queue 'q' no longer holds ledger position "
ALLOW = "find out why, then set failOnDataLoss=false to go on without what is gone: "


@pytest.fixture
def copied(spark: Any, durable_broker: Any, tmp_path: Path) -> Batches:
    """A query that has copied 400 rows in batches 0 to 3; the broker still holds the last, as no batch was planned after it."""
    durable_broker.send("q", numbers(0, 400))
    batches = Batches()
    finish(start(source(spark, durable_broker, maxRowsPerBatch=100).load(), tmp_path, batches))
    assert batches.sizes == [100] * 4
    return batches


def test_a_checkpoint_rolled_back_by_what_is_not_acknowledged_gives_the_same_batch_again(
    spark: Any, durable_broker: Any, tmp_path: Path, copied: Batches
) -> None:
    first = copied.rows[3]
    roll_back(tmp_path, 2)
    durable_broker.send("q", numbers(400, 450))
    again = Batches()
    # Twice the limit, and still the same: what was reserved together stays together.
    finish(start(source(spark, durable_broker, maxRowsPerBatch=100).load(), tmp_path, again))
    assert again.rows[3] == first
    assert again.sizes == [100, 50]
    assert again.values == numbers(300, 450)


def test_a_checkpoint_rolled_back_over_what_is_acknowledged_ends_the_query_with_the_positions(
    spark: Any, durable_broker: Any, tmp_path: Path, copied: Batches
) -> None:
    roll_back(tmp_path, 1)
    again = Batches()
    text = failure(start(source(spark, durable_broker, maxRowsPerBatch=100).load(), tmp_path, again))
    assert LOST in text
    assert "position 200, which" in text
    assert "300 to 400" in text, "it says what is still there"
    assert ALLOW in text
    assert again.rows == {}


def test_a_checkpoint_rolled_back_over_what_is_acknowledged_skips_it_where_that_is_allowed_and_says_so(
    spark: Any, durable_broker: Any, tmp_path: Path, copied: Batches
) -> None:
    roll_back(tmp_path, 1)
    durable_broker.send("q", numbers(400, 450))
    again, diary = Batches(), tmp_path / "diary"
    stream = recorded(spark, durable_broker, diary, maxRowsPerBatch=100, failOnDataLoss=False).load()
    finish(start(stream, tmp_path, again))
    # Batch 2 is where Spark goes on; all that is known of it is that it is gone.
    assert again.rows[2] == []
    assert again.values == numbers(300, 450)
    assert LOST in logged(diary)
    assert "failOnDataLoss" not in logged(diary), "it is set"
    assert "position 200, which" in logged(diary)
    assert "going on at ledger position 300 of subscription s" in logged(diary)


def test_a_lost_checkpoint_reads_again_what_was_not_acknowledged_and_nothing_else(
    spark: Any, durable_broker: Any, tmp_path: Path, copied: Batches
) -> None:
    shutil.rmtree(tmp_path / CHECKPOINT)
    durable_broker.send("q", numbers(400, 450))
    anew = Batches()
    finish(start(source(spark, durable_broker, maxRowsPerBatch=100).load(), tmp_path, anew))
    assert list(anew.rows) == [0, 1]
    assert anew.values == numbers(300, 450)


def test_a_lost_checkpoint_reads_nothing_again_where_every_batch_was_acknowledged(
    spark: Any, durable_broker: Any, tmp_path: Path
) -> None:
    durable_broker.send("q", numbers(0, 200))
    batches = Batches()
    options = {"maxRowsPerBatch": 100, "ackOn": "poll"}
    finish(start(source(spark, durable_broker, **options).load(), tmp_path, batches))
    assert batches.values == numbers(0, 200)
    shutil.rmtree(tmp_path / CHECKPOINT)
    durable_broker.send("q", numbers(200, 250))
    anew = Batches()
    finish(start(source(spark, durable_broker, **options).load(), tmp_path, anew))
    assert anew.values == numbers(200, 250)


def test_the_checkpoint_of_another_subscription_ends_the_query_and_names_both(
    spark: Any, durable_broker: Any, tmp_path: Path, copied: Batches
) -> None:
    text = failure(start(source(spark, durable_broker, subscription="t").load(), tmp_path, Batches()))
    assert "the checkpoint is that of subscription 's', the option says 't'" in text
    assert "needs a new checkpoint location" in text


def stop_in_batch_1(spark: Any, broker: Any, folder: Path) -> Batches:
    """A query that fails amid batch 1 of three: Spark's log has the batch, and on a restart wants exactly its positions."""
    broker.send("q", numbers(0, 300))

    def fail(number: int) -> None:
        if number == 1:
            raise RuntimeError("the sink is full")

    batches = Batches(fail)
    text = failure(start(source(spark, broker, maxRowsPerBatch=100).load(), folder, batches))
    assert "the sink is full" in text
    del batches.rows[1]
    batches.then = None
    return batches


def test_a_first_batch_that_failed_is_done_again_without_a_word_of_a_missing_checkpoint(
    spark: Any, durable_broker: Any, tmp_path: Path
) -> None:
    """The checkpoint has offsets/0 and no commit: Spark asks where to begin, as of a query that has none."""
    durable_broker.send("q", numbers(0, 50))
    diary = tmp_path / "diary"

    def fail(_number: int) -> None:
        raise RuntimeError("the sink is full")

    assert "the sink is full" in failure(start(source(spark, durable_broker).load(), tmp_path, Batches(fail)))
    batches = Batches()
    finish(start(recorded(spark, durable_broker, diary).load(), tmp_path, batches))
    assert batches.values == numbers(0, 50)
    assert entries(diary, "initial"), "it was asked"
    assert logged(diary) == ""


def test_a_checkpoint_that_is_pointed_at_another_queue_ends_the_query_and_loses_nothing(
    spark: Any, durable_broker: Any, tmp_path: Path, copied: Batches
) -> None:
    """Its positions used to be gone on with: as many messages of the other queue were never read."""
    durable_broker.send("r", numbers(1000, 1500))
    text = failure(start(source(spark, durable_broker, queue="r").load(), tmp_path, Batches()))
    assert "the checkpoint is that of queue 'q' (id " in text
    assert "is of queue 'r' (id " in text
    lenient = Batches()
    finish(start(source(spark, durable_broker, queue="r", failOnDataLoss="false").load(), tmp_path, lenient))
    assert lenient.values == numbers(1000, 1500)


def test_a_restart_after_a_release_ends_the_query_and_says_what_is_gone(
    spark: Any, durable_broker: Any, tmp_path: Path
) -> None:
    batches = stop_in_batch_1(spark, durable_broker, tmp_path)
    assert release(durable_broker) == 100
    text = failure(start(source(spark, durable_broker, maxRowsPerBatch=100).load(), tmp_path, batches))
    assert LOST in text
    assert "position 100, which" in text
    assert ALLOW in text
    assert batches.values == numbers(0, 100)


def test_a_restart_after_a_release_skips_the_positions_where_that_is_allowed_and_reads_the_messages_under_new_ones(
    spark: Any, durable_broker: Any, tmp_path: Path
) -> None:
    batches, diary = stop_in_batch_1(spark, durable_broker, tmp_path), tmp_path / "diary"
    assert release(durable_broker) == 100
    stream = recorded(spark, durable_broker, diary, maxRowsPerBatch=100, failOnDataLoss=False).load()
    finish(start(stream, tmp_path, batches))
    assert batches.rows[1] == []
    assert "ledger positions 100-200 of subscription s" in logged(diary)
    assert "only 200-200 are still there, the rest is skipped" in logged(diary)
    # They were nobody's in between, so they come once, marked as what they are.
    assert batches.values == numbers(0, 300)
    marks = {(row.position < 200, row.delivery_count, row.possibly_replayed) for row in batches.rows[2]}
    assert marks == {(True, 2, True)}


def test_a_release_under_a_running_query_gives_what_it_had_not_acknowledged_out_again_and_marks_it(
    spark: Any, durable_broker: Any, tmp_path: Path
) -> None:
    """Whoever releases says that the query will never return; one that runs all the same may get its own messages again."""
    durable_broker.send("q", numbers(0, 300))

    def release_in_batch_1(number: int) -> None:
        if number == 1:
            assert release(durable_broker) == 100

    batches = Batches(release_in_batch_1)
    finish(start(source(spark, durable_broker, maxRowsPerBatch=100).load(), tmp_path, batches))
    assert batches.values == numbers(0, 200) + numbers(100, 300)
    marks = [{(row.delivery_count, row.possibly_replayed) for row in rows} for rows in batches.rows.values()]
    assert marks == [{(1, False)}, {(1, False)}, {(2, True)}, {(1, False)}]
