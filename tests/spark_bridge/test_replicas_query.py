"""A Structured Streaming query that reads a cluster and writes to it, whose leader is killed while it runs."""

from __future__ import annotations

import asyncio
import json
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from tests.spark_bridge.queries import CHECKPOINT, MARKS, QUERY_SECONDS, finish, numbers
from tests.transport.cluster_members import Member
from transport import Administration, receive, send

pytestmark = MARKS


def test_a_query_reads_and_writes_each_row_once_through_the_death_of_its_leader(spark: Any, tmp_path: Path) -> None:
    with ExitStack() as stack:
        first, second, third = (stack.enter_context(Member()) for _ in range(3))
        first.lead(str(tmp_path / "data"))
        third.follow(first)
        # It is told of one that never leads, and of the first.
        options = {
            "queue": "q",
            "subscription": "s",
            "brokers": f"orders={third.receive}|{first.receive}",
            "maxRowsPerBatch": 40,
        }
        frame = spark.readStream.format("penstock").options(**options).load().select("value")
        writer = frame.writeStream.format("penstock").option("queue", "out")
        writer = writer.option("brokers", f"{third.send},{first.send}")
        writer = writer.option("checkpointLocation", str(tmp_path / CHECKPOINT))
        send(third.send, "q", numbers(0, 100))
        query = writer.trigger(processingTime="0 seconds").start()
        until_written(third, 80)
        first.kill()
        third.follow()
        second.lead(str(tmp_path / "data"))
        third.follow(second)
        send(third.send, "q", numbers(100, 200))
        until_written(third, 200)
        query.stop()
        send(third.send, "q", numbers(200, 250))
        finish(writer.trigger(availableNow=True).start())
        written = [bytes(delivery.payload) for delivery in receive(third.receive, "out", idle_exit=1.0)]
        assert sorted(written, key=int) == numbers(0, 250)
        (last, *_) = sorted((tmp_path / CHECKPOINT / "offsets").glob("[0-9]*"), key=lambda each: -int(each.name))
        offset = json.loads(last.read_text().splitlines()[-1])
        assert (offset["pos"], first.receive in str(offset)) == (250, False)


def until_written(member: Member, count: int) -> None:
    """Returns once the query has written so many."""

    async def watch() -> None:
        async with asyncio.timeout(QUERY_SECONDS), Administration(member.send) as administration:
            while True:
                stored = {row["name"]: row["stored_messages"] for row in await administration.queues()}
                if stored.get("out", 0) >= count:
                    return

    asyncio.run(watch())
