"""``arrow``: what Arrow both ways saves, against payload objects both ways and against the bytes alone."""

from __future__ import annotations

from pathlib import Path
from statistics import median
from typing import Any

from benchmarks._disk import data_folder
from benchmarks._report import Figure, Report, medians
from benchmarks._transfer import Roles, Transfer, through_broker, through_relay

OBJECTS_TARGET = 2.0
"""Times the rate of batches built from payload objects."""
RAW_TARGET = 0.5
"""Of the raw relay."""
ARROW = Roles("_arrow_clients:send_arrow", "_arrow_clients:receive_arrow")
OBJECTS = Roles("_arrow_clients:send_objects", "_arrow_clients:receive_objects")
RAW = "loop relay, bytes"


def run(transfer: Transfer, rounds: int, data: Path | None) -> Report:
    """Rounds of everything in turn; each form of the clients goes first in every other round."""
    results: list[dict[str, Any]] = []
    with data_folder(data) as folder:
        for number in range(rounds):
            forms = [("Arrow", ARROW), ("objects", OBJECTS)]
            for name, roles in forms if number % 2 == 0 else reversed(forms):
                directory = {"directory": str(folder / f"{number}-{name}")}
                results.append(through_broker(transfer, directory, f"durable, {name}", roles))
                results.append(through_broker(transfer, {}, f"in memory, {name}", roles))
            results.append(through_relay(transfer, "loop", "bytes"))
    by_kind = {
        kind: [one for one in results if one["kind"] == kind] for kind in dict.fromkeys(one["kind"] for one in results)
    }

    def share(kind: str, of: str) -> float:
        """The median of the rounds' own ratios: what the machine did besides met both."""
        pairs = zip(by_kind[kind], by_kind[of], strict=True)
        return float(median(one["messages_per_s"] / other["messages_per_s"] for one, other in pairs))

    figures = [
        Figure(f"{kind}", medians(found, "messages_per_s"), "msg/s") for kind, found in by_kind.items() if kind != RAW
    ]
    figures += [
        Figure("ceiling: raw bytes, relay on the same loop", medians(by_kind[RAW], "messages_per_s"), "msg/s"),
        Figure("durable: Arrow / objects", share("durable, Arrow", "durable, objects"), "", OBJECTS_TARGET),
        Figure("in memory: Arrow / objects", share("in memory, Arrow", "in memory, objects"), ""),
        Figure("durable: Arrow / raw bytes", share("durable, Arrow", RAW), "", RAW_TARGET),
        Figure("in memory: Arrow / raw bytes", share("in memory, Arrow", RAW), ""),
    ]
    for kind in ("durable, Arrow", "durable, objects"):
        figures += [
            Figure(
                f"{kind}: {role}'s CPU per million messages",
                medians(by_kind[kind], f"{role}_cpu_s") * 1e6 / transfer.messages,
                "s",
            )
            for role in ("sender", "broker", "receiver")
        ]
    return Report(
        "arrow",
        "sender, broker and receiver as three processes over loopback TCP. Arrow: the sender has record batches, the receiver gets "
        "record batches of all columns. Objects: the sender builds each batch from payload objects, the receiver makes each a list of "
        "them. The clock stops when everything is confirmed and acknowledged; durable is after the fdatasync that holds it.",
        "the same bytes in frames made beforehand, from a writer through a relay that does nothing else to a reader that counts them, "
        "as in throughput. Ratios are the medians of the rounds' own.",
        {
            "messages": transfer.messages,
            "size": transfer.size,
            "batch": transfer.batch,
            "max_in_flight": transfer.max_in_flight,
            "rounds": rounds,
            "uvloop": transfer.uvloop,
            "profiled": transfer.profile is not None,
        },
        figures,
        results,
    )
