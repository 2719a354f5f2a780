"""One transfer from a sender through a broker, or a relay, to a receiver: what throughput and single have in common."""

from __future__ import annotations

from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from benchmarks._broker import BrokerProcess
from benchmarks._processes import MIB, BenchmarkError, Worker, await_receivers, cpu_seconds, queue_facts, statistics
from benchmarks._relay import RelayProcess

QUEUE = "benchmark"
TRANSFER_TIMEOUT = 300.0
"""Seconds for one round."""


@dataclass(frozen=True, slots=True)
class Transfer:
    """What one round carries.

    Attributes:
        messages: how many.
        size: bytes of a payload.
        batch: messages of a batch.
        batched: whether the application deals in batches, or in single messages.
        max_in_flight: messages that the receiver holds unacknowledged, at most.
        uvloop: whether the loops are uvloop's.
        profile: where the broker's profile goes; its round is slower for it.
    """

    messages: int
    size: int
    batch: int
    batched: bool
    max_in_flight: int
    uvloop: bool
    profile: Path | None = None


@dataclass(frozen=True, slots=True)
class Roles:
    """Who sends and who receives, as `Worker` names a role."""

    sender: str = "_clients:send"
    receiver: str = "_clients:receive"


PLAIN = Roles()


def through_broker(
    transfer: Transfer, options: dict[str, Any] | None = None, kind: str = "broker", roles: Roles = PLAIN
) -> dict[str, Any]:
    """Sender, broker and receiver, each a process; over when everything is confirmed and acknowledged.

    Args:
        transfer: what is carried.
        options: of the broker, beside its addresses; one that keeps everything in memory by default.
        kind: what the result calls itself. It has ``syncs``, too, where the broker keeps a journal.
        roles: who sends and who receives.

    Raises:
        BenchmarkError: the broker's books, the sender's and the receiver's do not agree.
    """
    with BrokerProcess(uvloop=transfer.uvloop, profile=transfer.profile, options=options) as broker:
        return {"kind": kind} | move(broker, transfer, roles=roles)


class Served(Protocol):
    """A broker in a process of its own.

    Attributes:
        send_address: where senders connect.
        receive_address: where receivers connect.
    """

    send_address: str
    receive_address: str

    @property
    def pid(self) -> int:
        """The process's number."""


def move(
    broker: Served, transfer: Transfer, *, backlog: bool = False, roles: Roles = PLAIN, queue: str = QUEUE
) -> dict[str, Any]:
    """One transfer through a broker that runs.

    Args:
        broker: where.
        transfer: what. The receiver takes as many messages as the sender sends, though not the same where there is a backlog.
        backlog: whether there is; then both begin at one time, for a receiver that came first would find work before the sender does.
        roles: who sends and who receives.
        queue: through which.

    Raises:
        BenchmarkError: the broker's books, the sender's and the receiver's do not agree.
    """
    common = {"queue": queue, "messages": transfer.messages, "batched": transfer.batched, "uvloop": transfer.uvloop}
    with ExitStack() as stack:
        receiver = stack.enter_context(
            Worker(roles.receiver, address=broker.receive_address, max_in_flight=transfer.max_in_flight, **common)
        )
        sender = stack.enter_context(
            Worker(roles.sender, address=broker.send_address, size=transfer.size, batch=transfer.batch, **common)
        )
        receiver.hear()
        sender.hear()
        before = queue_facts(statistics(broker.send_address), queue) if backlog else {}
        if not backlog:
            receiver.go()
            await_receivers(broker.send_address, queue, 1)
        cpu = cpu_seconds(broker.pid)
        sender.go()
        if backlog:
            receiver.go()
        sent = sender.hear(TRANSFER_TIMEOUT)
        received = receiver.hear(TRANSFER_TIMEOUT)
        cpu = cpu_seconds(broker.pid) - cpu
        figures = statistics(broker.send_address)
    _check_books(transfer.messages, sent, received, queue_facts(figures, queue), before)
    seconds = max(sent["ended"], received["ended"]) - sent["started"]
    storage = figures.get("storage") or {}
    return {
        "seconds": seconds,
        "messages_per_s": transfer.messages / seconds,
        "sender_cpu_s": sent["cpu_s"],
        "broker_cpu_s": cpu,
        "receiver_cpu_s": received["cpu_s"],
        "delivered_batches": received["elements"],
        **{name: storage[name] for name in ("syncs", "groups") if name in storage},
    }


def through_relay(transfer: Transfer, kind: str, work: str) -> dict[str, Any]:
    """Writer, relay and reader, each a process; ``kind`` of relay is ``loop`` or ``blocking``, ``work`` as `write_frames` has it."""
    with ExitStack() as stack:
        relay = stack.enter_context(RelayProcess(kind, uvloop=transfer.uvloop))
        reader = stack.enter_context(Worker("_relay:read_frames", address=relay.receive_address, work=work))
        reader.hear()
        relay.hear()
        writer = stack.enter_context(
            Worker(
                "_relay:write_frames",
                address=relay.send_address,
                messages=transfer.messages,
                size=transfer.size,
                batch=transfer.batch,
                work=work,
            )
        )
        writer.hear()
        cpu = cpu_seconds(relay.pid)
        writer.go()
        written = writer.hear(TRANSFER_TIMEOUT)
        read = reader.hear(TRANSFER_TIMEOUT)
        cpu = cpu_seconds(relay.pid) - cpu
    if read["bytes"] != written["bytes"] or (work != "bytes" and read["messages"] != transfer.messages):
        raise BenchmarkError(f"the {kind} relay lost something: {written} was written, {read} was read")
    seconds = read["ended"] - written["started"]
    return {
        "kind": f"{kind} relay, {work}",
        "seconds": seconds,
        "messages_per_s": transfer.messages / seconds,
        "mib_per_s": written["bytes"] / seconds / MIB,
        "writer_cpu_s": written["cpu_s"],
        "relay_cpu_s": cpu,
        "reader_cpu_s": read["cpu_s"],
    }


def _check_books(
    messages: int, sent: dict[str, Any], received: dict[str, Any], facts: dict[str, Any], before: dict[str, Any]
) -> None:
    """Whether all three agree.

    ``before`` has the queue's figures from before the transfer, where there is a backlog: of that some may have been delivered before.
    """
    redelivered = 0 if before else facts["total_redelivered"]
    counts = {
        "confirmed to the sender": sent["messages"],
        "counted by the receiver": received["messages"],
        "acknowledged in the broker": facts["total_acknowledged"] - before.get("total_acknowledged", 0),
    }
    if any(count != messages for count in counts.values()) or redelivered:
        raise BenchmarkError(f"{messages} were sent, but {counts}, {redelivered} redelivered")
