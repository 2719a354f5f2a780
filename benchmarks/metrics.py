"""``metrics``: what Prometheus's questions cost a broker with many queues, and how long the loop stands still for them at most."""

from __future__ import annotations

import asyncio
import http.client
import time
from collections.abc import Awaitable, Callable
from typing import Any

from actors.batch import MessageBatch
from actors.queue.structures.histogram import Histogram
from benchmarks._report import Figure, Report, medians
from benchmarks._worker import run_loop
from streams import Source
from transport import Broker, BrokerConfig, Sender
from transport.broker.memory import collect_rarely
from transport.gateways.http.listener import HttpListener
from transport.gateways.listeners import configured_listeners

ANY_PORT = "127.0.0.1:0"
LONGEST_MS = 5.0
PATHS = {"/metrics": "totals", "/metrics/queues?limit=10000": "each queue"}
OBSERVATIONS = 200_000
WITH_MESSAGES = 1_000
"""Queues that have a message: to send one to each of ten thousand would take longer than all else."""


def run(queues: list[int], rounds: int, uvloop: bool) -> Report:
    """Both pages, asked for over HTTP by a thread, of a broker in this process."""
    collect_rarely()
    results = [_measure(number, uvloop) for _ in range(rounds) for number in queues]
    figures = []
    for number in queues:
        found = [one for one in results if one["queues"] == number]
        for path, name in PATHS.items():
            figures += [
                Figure(f"{number:,} queues, {name}: the loop's CPU", medians(found, f"{path} cpu_ms"), "ms"),
                Figure(f"{number:,} queues, {name}: text", medians(found, f"{path} kib"), "KiB"),
                Figure(
                    f"{number:,} queues, {name}: longest turn of the loop",
                    max(one[f"{path} longest_ms"] for one in found),
                    "ms",
                    LONGEST_MS,
                    "less",
                ),
            ]
    figures.append(Figure("one observation of a histogram", _observation_ns(), "ns"))
    return Report(
        "metrics",
        "processor time of the loop's thread, from a question over HTTP to the end of its answer, and the longest of its turns meanwhile.",
        "none: nothing else happens in the broker.",
        {"queues": queues, "rounds": rounds, "uvloop": uvloop},
        figures,
        results,
    )


def _measure(queues: int, uvloop: bool) -> dict[str, Any]:
    return run_loop(_asked(queues), uvloop)


async def _asked(queues: int) -> dict[str, Any]:
    config = BrokerConfig(ANY_PORT, ANY_PORT, http=ANY_PORT, max_queues=max(10_000, queues))
    listeners = configured_listeners(config)
    async with Broker(config, listeners=listeners) as broker:
        for number in range(queues):
            broker.queues.get_or_create(f"orders.of.shop.{number:05}")
        for number in range(min(queues, WITH_MESSAGES)):
            sender = Sender(broker.send_address, queue=f"orders.of.shop.{number:05}")
            await Source.single(MessageBatch.from_payloads([b"x" * 100])).to(sender).run()
        (address,) = (each.addresses[0] for each in listeners if isinstance(each, HttpListener))
        result: dict[str, Any] = {"queues": queues}
        for path in PATHS:
            ask = _asker(address.host, address.port, path)
            # The first makes the thread, and whatever else is made once.
            await asyncio.to_thread(ask)
            began = time.thread_time()
            size = await asyncio.to_thread(ask)
            result[f"{path} cpu_ms"] = (time.thread_time() - began) * 1000
            result[f"{path} kib"] = size / 1024
            result[f"{path} longest_ms"] = await _longest_turn(asyncio.to_thread(ask)) * 1000
        return result


def _asker(host: str, port: int, path: str) -> Callable[[], int]:
    def ask() -> int:
        connection = http.client.HTTPConnection(host, port, timeout=60)
        try:
            connection.request("GET", path)
            answer = connection.getresponse()
            size = 0
            while piece := answer.read(65536):
                size += len(piece)
            return size
        finally:
            connection.close()

    return ask


async def _longest_turn(work: Awaitable[object]) -> float:
    """Processor seconds of the longest turn of the loop, its own clock's reading included, until ``work`` is done."""
    loop = asyncio.get_running_loop()
    longest, before, going = 0.0, time.thread_time(), True

    def tick() -> None:
        nonlocal longest, before
        now = time.thread_time()
        longest, before = max(longest, now - before), now
        if going:
            loop.call_soon(tick)

    loop.call_soon(tick)
    try:
        await work
    finally:
        going = False
    return longest


def _observation_ns() -> float:
    histogram = Histogram(
        (0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)
    )
    began = time.thread_time_ns()
    for _ in range(OBSERVATIONS):
        histogram.observe(0.003, 100)
    return (time.thread_time_ns() - began) / OBSERVATIONS
