"""A Structured Streaming query over two brokers, one of which goes away and comes back."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.spark_bridge.queries import MARKS, Batches, finish, numbers, start
from tests.spark_bridge.restartable import Restartable

pytestmark = MARKS


@pytest.mark.parametrize("broker_down", ["wait", "continue"])
def test_a_query_over_two_brokers_gets_each_row_once_though_one_goes_away(
    spark: Any, make_broker: Callable[..., Any], tmp_path: Path, broker_down: str
) -> None:
    up, down = (Restartable(make_broker, tmp_path / name) for name in ("up", "down"))
    options = {"queue": "q", "subscription": "s", "brokerDown": broker_down, "maxRowsPerBatch": 60}
    frame = spark.readStream.format("penstock").options(brokers=f"{up.address},{down.address}", **options).load()
    batches = Batches()
    up.send(0, 100)
    down.send(100, 200)
    query = start(frame, tmp_path, batches, processingTime="0 seconds")
    batches.wait_for(200)
    down.stop()
    up.send(200, 300)
    if broker_down == "continue":
        batches.wait_for(300)
    down.start()
    down.send(300, 400)
    batches.wait_for(400)
    query.stop()
    assert sorted(batches.values, key=int) == numbers(0, 400)
    assert max(batches.sizes) == 60

    reports = [json.loads(progress["sources"][0]["latestOffset"] or "{}") for progress in query.recentProgress]
    downs = [report["down"] for report in reports if "down" in report]
    assert ([down.address] in downs) == (broker_down == "continue")
    assert [] in downs

    # The batch that was being written when the query was stopped may be repeated, under its number.
    up.send(400, 450)
    finish(start(frame, tmp_path, batches))
    assert sorted(batches.values, key=int) == numbers(0, 450)
