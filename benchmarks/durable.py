"""``durable``: what it costs that a confirmation means the disk."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

from benchmarks._disk import append, data_folder
from benchmarks._processes import BenchmarkError
from benchmarks._report import Figure, Report, medians
from benchmarks._transfer import Transfer, through_broker

RATE_TARGET = 1_500_000
SHARE_TARGET = 0.75
"""Of the in-memory broker's rate in the same run."""
DISK_SHARE_TARGET = 0.6
"""Of a plain append and fdatasync of the same blocks."""
MEMORY, DURABLE, INTERVAL, NEVER = "in memory", "durable", "sync=interval", "sync=never"


def run(
    transfer: Transfer, small_batch: int, large_size: int, large_messages: int, rounds: int, data: Path | None
) -> Report:
    """Rounds of everything in turn, so that what else the machine and its disk do meets them alike."""
    small = replace(transfer, batch=small_batch)
    large = replace(transfer, size=large_size, messages=large_messages)
    results = []
    with data_folder(data) as folder:
        for number in range(rounds):
            place = folder / str(number)
            results.append(_memory(transfer, ""))
            results.append(_durable(transfer, place / "a", DURABLE, {}))
            results.append(_memory(small, " small"))
            results.append(_durable(small, place / "b", f"{DURABLE} small", {}))
            results.append(_memory(large, " large"))
            stored = _durable(large, place / "c", f"{DURABLE} large", {})
            results.append(stored)
            results.append(_append(large, folder, 1, "append each"))
            results.append(
                _append(large, folder, max(1, round(results[-1]["blocks"] / stored["syncs"])), "append grouped")
            )
            results.append(_durable(transfer, place / "d", INTERVAL, {"sync": "interval"}))
            results.append(_durable(transfer, place / "e", NEVER, {"sync": "never"}))
    rates = {
        kind: medians([one for one in results if one["kind"] == kind], "messages_per_s")
        for kind in dict.fromkeys(one["kind"] for one in results)
    }
    return Report(
        "durable",
        "sender, broker and receiver as three processes over loopback TCP, as in throughput; the broker keeps a journal, and a batch is "
        "confirmed and delivered after the fdatasync that holds it. The clock stops when everything is confirmed and acknowledged.",
        "the same broker in memory only, in the same rounds. For large messages, a plain loop that appends the same blocks to a file "
        "with an fdatasync after each, and after as many as the broker had in one sync.",
        {
            "messages": transfer.messages,
            "size": transfer.size,
            "batch": transfer.batch,
            "small_batch": small_batch,
            "large_size": large_size,
            "large_messages": large_messages,
            "max_in_flight": transfer.max_in_flight,
            "rounds": rounds,
            "uvloop": transfer.uvloop,
            "profiled": transfer.profile is not None,
        },
        _figures(results, rates, transfer, small_batch, large_size),
        results,
    )


def _figures(
    results: list[dict[str, Any]], rates: dict[str, float], transfer: Transfer, small_batch: int, large_size: int
) -> list[Figure]:
    durable = [one for one in results if one["kind"] == DURABLE]
    large, each, grouped = rates[f"{DURABLE} large"], rates["append each"], rates["append grouped"]
    per_million = 1e6 / transfer.messages
    batches = -(-transfer.messages // transfer.batch)
    return [
        Figure(f"durable, {transfer.batch:,} a batch", rates[DURABLE], "msg/s", RATE_TARGET),
        Figure(f"in memory, {transfer.batch:,} a batch", rates[MEMORY], "msg/s"),
        Figure("share of in memory", rates[DURABLE] / rates[MEMORY], "", SHARE_TARGET),
        Figure("batches of a sync", batches / medians(durable, "syncs"), ""),
        Figure("broker's CPU per million messages, durable", medians(durable, "broker_cpu_s") * per_million, "s"),
        Figure(f"durable, {small_batch:,} a batch", rates[f"{DURABLE} small"], "msg/s"),
        Figure(f"in memory, {small_batch:,} a batch", rates[f"{MEMORY} small"], "msg/s"),
        Figure(
            f"share of in memory, {small_batch:,} a batch", rates[f"{DURABLE} small"] / rates[f"{MEMORY} small"], ""
        ),
        Figure(f"durable, {large_size:,} bytes", large, "msg/s"),
        Figure("the same bytes", large * large_size / 2**20, "MiB/s"),
        Figure(f"in memory, {large_size:,} bytes", rates[f"{MEMORY} large"], "msg/s"),
        Figure(f"share of in memory, {large_size:,} bytes", large / rates[f"{MEMORY} large"], ""),
        Figure("ceiling: append + fdatasync of each block", each, "msg/s"),
        Figure("share of it", large / each, "", DISK_SHARE_TARGET),
        Figure("ceiling: append + fdatasync, as many blocks a sync as the broker", grouped, "msg/s"),
        Figure("share of grouped appends", large / grouped, ""),
        Figure(f"{INTERVAL}, {transfer.batch:,} a batch", rates[INTERVAL], "msg/s"),
        Figure(f"{NEVER}, {transfer.batch:,} a batch", rates[NEVER], "msg/s"),
    ]


def _memory(transfer: Transfer, suffix: str) -> dict[str, Any]:
    return through_broker(replace(transfer, profile=None), kind=f"{MEMORY}{suffix}")


def _durable(transfer: Transfer, directory: Path, kind: str, options: dict[str, Any]) -> dict[str, Any]:
    result = through_broker(transfer, {"directory": str(directory), **options}, kind)
    if "syncs" not in result:
        raise BenchmarkError("the broker was to keep a journal, and says that it keeps none")
    return result


def _append(transfer: Transfer, folder: Path, blocks_per_sync: int, kind: str) -> dict[str, Any]:
    result = append(folder, transfer.messages, transfer.size, transfer.batch, blocks_per_sync)
    return result | {"kind": kind, "blocks_per_sync": blocks_per_sync}
