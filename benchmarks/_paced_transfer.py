"""Single messages on a schedule through a broker that keeps a journal, or not: what the benchmarks of its latency have in common."""

from __future__ import annotations

from contextlib import ExitStack
from dataclasses import dataclass
from typing import Any

from benchmarks._processes import BenchmarkError, Worker, await_receivers, queue_facts, statistics
from benchmarks._transfer import QUEUE, Served

GRACE = 60.0
"""Seconds beyond the schedule for the last message to arrive."""
PARTS = ("sender to receiver", "send to confirmation")
POINTS = ("p50", "p99")


@dataclass(frozen=True, slots=True)
class Schedule:
    """What one round carries.

    Attributes:
        rate: messages a second.
        seconds: that count.
        warm_up: seconds before them that do not.
        size: bytes of a payload.
        max_in_flight: the receiver's.
        uvloop: whether the receiver's loop is uvloop's; the sender's is `precise_loop`.
    """

    rate: float
    seconds: float
    warm_up: float
    size: int
    max_in_flight: int
    uvloop: bool

    @property
    def count(self) -> int:
        """Messages in all."""
        return max(1, int(self.rate * (self.seconds + self.warm_up)))

    @property
    def skip(self) -> int:
        """How many of the first ones do not count."""
        return int(self.rate * self.warm_up)

    @property
    def timeout(self) -> float:
        """Seconds for the last of them to be through."""
        return self.seconds + self.warm_up + GRACE

    @property
    def sending(self) -> dict[str, Any]:
        """What a role needs that sends."""
        return {"rate": self.rate, "count": self.count, "size": self.size, "skip": self.skip}

    @property
    def receiving(self) -> dict[str, Any]:
        """What a role needs that receives."""
        return {
            "count": self.count,
            "skip": self.skip,
            "max_in_flight": self.max_in_flight,
            "uvloop": self.uvloop,
        }


def move_paced(broker: Served, schedule: Schedule) -> tuple[dict[str, Any], dict[str, Any]]:
    """One round through a broker that runs: sender and receiver, each a process, each message sent and acknowledged by itself.

    Returns:
        the points of each part, in microseconds, and those of the sender's own lateness; and the broker's figures at the end.

    Raises:
        BenchmarkError: the broker's books, the sender's and the receiver's do not agree.
    """
    count = schedule.count
    with ExitStack() as stack:
        receiver = stack.enter_context(
            Worker("_paced:receive_timed", address=broker.receive_address, queue=QUEUE, **schedule.receiving)
        )
        sender = stack.enter_context(
            Worker("_paced:send_paced_confirmed", address=broker.send_address, queue=QUEUE, **schedule.sending)
        )
        receiver.hear()
        sender.hear()
        await_receivers(broker.send_address, QUEUE, 1)
        sender.go()
        sent, received = sender.hear(schedule.timeout), receiver.hear(schedule.timeout)
        figures = statistics(broker.send_address)
    acknowledged = queue_facts(figures, QUEUE)["total_acknowledged"]
    if not count == sent["messages"] == received["messages"] == acknowledged:
        raise BenchmarkError(f"of {count} messages {received['messages']} arrived, {acknowledged} were acknowledged")
    result: dict[str, Any] = {"unit": "us"}
    result |= {f"sender to receiver {point}": value for point, value in received["latency_us"].items()}
    result |= {f"send to confirmation {point}": value for point, value in sent["latency_us"].items()}
    return result | {f"late {point}": value for point, value in sent["lateness_us"].items()}, figures
