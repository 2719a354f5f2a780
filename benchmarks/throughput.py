"""``throughput`` and ``single``: how many messages a second go through a broker."""

from __future__ import annotations

from benchmarks._report import Figure, Report, medians
from benchmarks._transfer import Transfer, through_broker, through_relay

BATCHED_TARGET = 2_000_000
SINGLE_TARGET = 300_000
SHARE_TARGET = 0.6
"""Of the raw loopback ceiling: the relay on the broker's kind of loop."""
RAW, BLOCKING = ("loop", "bytes"), ("blocking", "bytes")


def run(transfer: Transfer, rounds: int) -> Report:
    """Rounds of broker and relays in turn, so that what else the machine does meets them alike."""
    working = ("loop", "batches" if transfer.batched else "objects")
    results = []
    for _ in range(rounds):
        results.append(through_broker(transfer))
        results += [through_relay(transfer, *which) for which in (RAW, BLOCKING, working)]
    own = [one for one in results if one["kind"] == "broker"]
    rate = medians(own, "messages_per_s")
    ceilings = {
        which: medians([one for one in results if one["kind"] == "{} relay, {}".format(*which)], "messages_per_s")
        for which in (RAW, BLOCKING, working)
    }
    ends = "ends that build and decode batches" if transfer.batched else "ends that make each message an object"
    figures = [
        Figure("messages through the broker", rate, "msg/s", BATCHED_TARGET if transfer.batched else SINGLE_TARGET),
        Figure("ceiling: raw bytes, relay on the same loop", ceilings[RAW], "msg/s"),
        Figure("ceiling: raw bytes, blocking relay", ceilings[BLOCKING], "msg/s"),
        Figure(f"ceiling: {ends}, relay on the same loop", ceilings[working], "msg/s"),
        Figure("share of raw, same loop", rate / ceilings[RAW], "", SHARE_TARGET if transfer.batched else None),
        Figure("share of raw, blocking", rate / ceilings[BLOCKING], ""),
        Figure(f"share of {ends}", rate / ceilings[working], ""),
    ]
    for role in ("sender", "broker", "receiver"):
        per_million = medians(own, f"{role}_cpu_s") * 1e6 / transfer.messages
        figures.append(Figure(f"{role}'s CPU per million messages", per_million, "s"))
    return Report(
        "throughput" if transfer.batched else "single",
        _BATCHED_MEASURES if transfer.batched else _SINGLE_MEASURES,
        _CEILINGS,
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


_BATCHED_MEASURES = (
    "sender, broker (in memory) and receiver as three processes over loopback TCP. The sender builds every batch from payload objects "
    "while the clock runs; the receiver acknowledges every batch; the clock stops when the sender has every confirmation and the broker "
    "every acknowledgement, and the three counts agree."
)
_SINGLE_MEASURES = (
    "the same three processes as in throughput, one message at a time: each payload is an element of the sender's stream (batched by the "
    "sender itself), each delivery an object that Sink.acknowledge() acknowledges. The clock stops as in throughput."
)
_CEILINGS = (
    "the same bytes from a writer through a relay process to a reader, all in plain blocking loops without demand, confirmation or "
    "acknowledgement. Raw: frames made beforehand, and the reader only counts bytes. The relay only receives and writes, on the broker's "
    "kind of loop with its buffer sizes, or with blocking calls. Once more with ends that do an application's part: the writer builds "
    "the frames of payload objects, the reader decodes them. Rounds of all alternate."
)
