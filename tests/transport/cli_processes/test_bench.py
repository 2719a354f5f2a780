"""``penstock bench`` at a real broker: what it says is what went through, and its queue is gone whatever its end."""

from __future__ import annotations

import asyncio
import json
import signal
import subprocess

from tests.transport.programs import BrokerProcess, Program
from transport import Administration
from transport.cli._bench_run import QUEUE_PREFIX
from transport.cli._completion_names import queue_names


async def bench_queues(broker: BrokerProcess) -> list[str]:
    async with Administration(broker.sending) as administration:
        return [row["name"] for row in await administration.queues() if row["name"].startswith(QUEUE_PREFIX)]


async def until_there_is_one(broker: BrokerProcess) -> None:
    async with asyncio.timeout(60):
        while not await bench_queues(broker):
            pass


def bench(broker: BrokerProcess, *options: str) -> Program:
    return broker.start(
        "bench", "--receive-address", broker.receiving, *options, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )


def test_what_is_measured_is_confirmed_received_and_gone(broker: BrokerProcess) -> None:
    with bench(broker, "--seconds", "0.5", "--senders", "2", "--receivers", "2", "--json") as program:
        code, said, errors = program.finish()
    assert (code, errors) == (0, "")
    facts = json.loads(said)
    assert facts["sent"]["messages"] == facts["received"]["messages"] > 0
    assert facts["round_trip_alone_ms"]["count"] > 0
    assert facts["round_trip_alone_ms"]["p50"] <= facts["round_trip_alone_ms"]["p99"]
    assert 0 < facts["client_cpu"] < 4
    assert asyncio.run(bench_queues(broker)) == []


def test_ctrl_c_ends_it_with_what_it_has_and_deletes_the_queue(broker: BrokerProcess) -> None:
    with bench(broker, "--seconds", "600") as program:
        asyncio.run(until_there_is_one(broker))
        program.process.send_signal(signal.SIGINT)
        code, said, errors = program.finish()
    assert code == 128 + signal.SIGINT
    assert b"limited by: " in said
    assert "stopped by SIGINT; the queue penstock-bench-" in errors
    assert asyncio.run(bench_queues(broker)) == []


def test_a_shell_is_told_the_queues_of_a_broker_that_answers(broker: BrokerProcess) -> None:
    async def declare() -> None:
        async with Administration(broker.sending) as administration:
            await administration.create_queue("orders:eu")
            await administration.create_queue("$(touch)")

    asyncio.run(declare())
    names = queue_names({"address": broker.sending})
    assert "orders:eu" in names
    assert "$(touch)" not in names
