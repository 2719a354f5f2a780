"""``http``: what a durable publish over HTTP costs the broker, beside the same request to a handler that only parses it."""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path
from typing import Any

from benchmarks._broker import ANY_PORT, BrokerProcess
from benchmarks._http_clients import PUBLISH, SETTLE
from benchmarks._processes import BenchmarkError, Worker, cpu_seconds, queue_facts, statistics
from benchmarks._report import Figure, Report, medians

MOST_TIMES = 3.0
QUEUE = "orders"
TIMEOUT = 180.0
ONCE = 3_200
"""Requests before the first that count."""


def run(
    requests: int, connections: int, size: int, rounds: int, uvloop: bool, data: Path | None, profile: Path | None
) -> Report:
    """Rounds of each in turn, on one broker and one server that only parses."""
    parameters = {"requests": requests, "connections": connections, "size": size, "rounds": rounds, "uvloop": uvloop}
    folder = Path(tempfile.mkdtemp(prefix=".benchmark-http-", dir=data or Path.cwd()))
    options = {"http": ANY_PORT, "directory": str(folder / "data"), "memory_watermark": 1.0}
    results: list[dict[str, Any]] = []
    try:
        with (
            BrokerProcess(uvloop=uvloop, profile=profile, options=options) as broker,
            Worker("_http_clients:parser", uvloop=uvloop) as parser,
            Worker("_http_clients:clients", uvloop=uvloop, connections=connections, size=size) as clients,
        ):
            assert broker.http is not None
            places = {"broker": (broker.http, broker.pid), "parser": (parser.hear()["address"], parser.pid)}
            clients.hear()
            warm = [_work(clients, place, PUBLISH, ONCE)["requests"] for place in places.values()]
            published = warm[0]
            for _ in range(rounds):
                for name, place in places.items():
                    results.append({"kind": name, **_work(clients, place, PUBLISH, requests)})
                published += results[-2]["requests"]
                results.append({"kind": SETTLE, **_work(clients, places["broker"], SETTLE, requests)})
                published -= results[-1]["requests"]
                results[-3]["times"] = results[-3]["cpu"] / results[-2]["cpu"]
            stored = queue_facts(statistics(broker.send_address), QUEUE)["stored_messages"]
    finally:
        shutil.rmtree(folder)
    if stored != published:
        raise BenchmarkError(f"{published} messages are to be there, and {stored} are")
    return Report(
        "http",
        f"processor time of the broker for a durable publish of {size} bytes, by {connections} connections that each wait for the answer.",
        "the same requests to the same library's server, whose handler reads the body and answers.",
        parameters,
        _figures(results),
        results,
    )


def _figures(results: list[dict[str, Any]]) -> list[Figure]:
    own = {name: [one for one in results if one["kind"] == name] for name in ("broker", "parser", SETTLE)}
    return [
        Figure("a durable publish, the broker's processor time", medians(own["broker"], "cpu"), "us"),
        Figure("a handler that only parses, its processor time", medians(own["parser"], "cpu"), "us"),
        Figure("times a handler that only parses", medians(own["broker"], "times"), "", MOST_TIMES, "less"),
        Figure("durable publishes a second", medians(own["broker"], "rate"), "/s"),
        Figure("messages taken and acknowledged a second", medians(own[SETTLE], "rate"), "/s"),
        Figure("a take and an acknowledgement, the broker's processor time", medians(own[SETTLE], "cpu"), "us"),
    ]


def _work(clients: Worker, place: tuple[str, int], work: str, requests: int) -> dict[str, Any]:
    """Have it done; microseconds of the server's processor time for each, and how many a second."""
    address, pid = place
    before = cpu_seconds(pid)
    clients.go(address=address, work=work, requests=requests)
    said = clients.hear(TIMEOUT)
    used = cpu_seconds(pid) - before
    return {
        "cpu": used / said["requests"] * 1e6,
        "rate": said["requests"] / said["seconds"],
        "requests": said["requests"],
    }
