"""What ``penstock bench`` says: figures, and a picture of them that needs nothing but a terminal."""

from __future__ import annotations

import math
import shutil
import sys
import textwrap
from typing import Any, Final

from transport.cli._bench_run import Latencies, Measured, Plan

MIB: Final = 1 << 20
BLOCKS: Final = " ▁▂▃▄▅▆▇█"
PLAIN_BLOCKS: Final = " .:-=+*#@"
"""For a terminal without the others."""
PICTURE: Final = 28
"""Columns of a picture."""
BUSY: Final = 0.85
"""Who is at work for so much of the time holds up the rest."""


def facts_of(plan: Plan, measured: Measured) -> dict[str, Any]:
    """All of it, for programs: times in milliseconds, rates a second."""
    return {
        "address": plan.send_address,
        "queue": measured.queue,
        "seconds": plan.seconds,
        "size": plan.size,
        "batch": plan.batch,
        "senders": plan.senders,
        "receivers": plan.receivers,
        "stopped": measured.stopped,
        "overdue": measured.overdue,
        "sent": _direction(measured.sent, measured.send_seconds, plan.size),
        "received": _direction(measured.received, measured.receive_seconds, plan.size),
        "round_trip_alone_ms": _quantiles(measured.alone),
        "round_trip_loaded_ms": _quantiles(measured.loaded),
        "client_cpu": round(measured.client_cpu, 3),
        "broker_cpu": None if measured.broker_cpu is None else round(measured.broker_cpu, 3),
        "sync_share": None if measured.sync_share is None else round(measured.sync_share, 3),
        "most_under_way": measured.backlog,
        "limited_by": limit_of(measured),
        "rates": [{"sent": round(sent), "received": round(received)} for sent, received in measured.points],
    }


def report(plan: Plan, measured: Measured) -> str:
    """The same, for people."""
    blocks = BLOCKS if _takes(BLOCKS) else PLAIN_BLOCKS
    sent, received = zip(*measured.points, strict=True) if measured.points else ((), ())
    who = f"{_count(plan.senders, 'sender')}, {_count(plan.receivers, 'receiver')}"
    lines = [
        f"{who}, messages of {plan.size:,} bytes in batches of {plan.batch:,}, {plan.seconds:g} s",
        "",
        f"           {'messages':>13} {'a second':>11} {'MiB/s':>8}",
        _line("confirmed", measured.sent, measured.send_seconds, plan.size, sparkline(sent, blocks)),
        _line("received", measured.received, measured.receive_seconds, plan.size, sparkline(received, blocks)),
        "",
        f"           {'p50':>10} {'p95':>10} {'p99':>10}   round trip, sender to receiver",
        _trips("alone", measured.alone, "one message at a time"),
        _trips("loaded", measured.loaded, f"with up to {measured.backlog:,} under way"),
    ]
    if picture := histogram(measured.alone, blocks[-1]):
        lines += ["", "round trips of one message at a time:", *picture]
    lines += ["", *textwrap.wrap(f"limited by: {limit_of(measured)}", shutil.get_terminal_size().columns)]
    if missing := measured.sent - measured.received:
        lines.append(
            f"{missing:,} messages were confirmed and not received any more, when it was over"
            if missing > 0
            else f"{-missing:,} messages came twice, or their confirmation was not waited for"
        )
    return "\n".join(lines)


def limit_of(measured: Measured) -> str:
    """What held it up, where that can be said."""
    if not measured.sent:
        return "it was over before anything was measured under load"
    found = []
    if measured.client_cpu >= BUSY:
        found.append(f"this program, which used {measured.client_cpu:.0%} of one processor; the broker may do more")
    if measured.broker_cpu is not None and measured.broker_cpu >= BUSY:
        found.append(f"the broker, which used {measured.broker_cpu:.0%} of one processor")
    if measured.sync_share is not None and measured.sync_share >= BUSY:
        found.append(f"the broker's disk, which was synced for {measured.sync_share:.0%} of the time")
    if found:
        return "; ".join(found)
    if measured.broker_cpu is not None:
        used = f"this program used {measured.client_cpu:.0%} of one processor, the broker {measured.broker_cpu:.0%}"
        if measured.sync_share is not None:
            used += f", and its disk was synced for {measured.sync_share:.0%} of the time"
        return f"nothing alone: {used}; others may use this machine, or batches are small"
    return (
        f"nothing that can be seen from here: this program used {measured.client_cpu:.0%} of one processor; "
        "it may be the broker's processor, the network, or the size of batches"
    )


def _count(number: int, what: str) -> str:
    return f"{number} {what}{'' if number == 1 else 's'}"


def sparkline(values: tuple[float, ...], blocks: str) -> str:
    """``values`` as a line of blocks, the highest as high as there is."""
    if not values or max(values) <= 0:
        return ""
    step = math.ceil(len(values) / PICTURE)
    means = [sum(values[at : at + step]) / len(values[at : at + step]) for at in range(0, len(values), step)]
    highest = max(means)
    return "".join(blocks[round(value / highest * (len(blocks) - 1))] for value in means)


def histogram(latencies: Latencies, block: str) -> list[str]:
    """Lines with the number of round trips by their time, in steps that double."""
    if not latencies.values:
        return []
    steps: dict[int, int] = {}
    for value in latencies.values:
        step = math.ceil(math.log2(max(value * 1e6, 1.0)))
        steps[step] = steps.get(step, 0) + 1
    most = max(steps.values())
    return [
        f"  up to {_time(2.0**step / 1e6):>9}  {block * round(steps.get(step, 0) / most * PICTURE):<{PICTURE}}  {steps.get(step, 0):>7,}"
        for step in range(min(steps), max(steps) + 1)
    ]


def _line(what: str, messages: int, seconds: float, size: int, picture: str) -> str:
    facts = _direction(messages, seconds, size)
    return f"{what:<10} {messages:>13,} {facts['per_second']:>11,} {facts['mib_per_second']:>8,.1f}  {picture}".rstrip()


def _trips(what: str, latencies: Latencies, text: str) -> str:
    shown = [_time(value) if (value := latencies.quantile(share)) is not None else "-" for share in (0.5, 0.95, 0.99)]
    return f"{what:<10} {shown[0]:>10} {shown[1]:>10} {shown[2]:>10}   {text}"


def _direction(messages: int, seconds: float, size: int) -> dict[str, Any]:
    rate = messages / seconds if seconds > 0 else 0.0
    return {"messages": messages, "per_second": round(rate), "mib_per_second": round(rate * size / MIB, 3)}


def _quantiles(latencies: Latencies) -> dict[str, float | int | None]:
    values = {name: latencies.quantile(share) for name, share in (("p50", 0.5), ("p95", 0.95), ("p99", 0.99))}
    shown = {name: None if value is None else round(value * 1000, 3) for name, value in values.items()}
    return {**shown, "count": len(latencies.values)}


def _time(seconds: float) -> str:
    if seconds >= 1:
        return f"{seconds:.2f} s"
    return f"{seconds * 1000:.2f} ms" if seconds >= 1e-3 else f"{seconds * 1e6:.0f} us"


def _takes(text: str) -> bool:
    try:
        text.encode(sys.stdout.encoding or "ascii")
    except (UnicodeEncodeError, LookupError):
        return False
    return True
