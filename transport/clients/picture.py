"""What a broker answers to ``picture``: who holds back whom. Its fields are those of docs/protocol.md, section "Administration"."""

from __future__ import annotations

from typing import Any, Final, NotRequired, TypedDict, cast

from transport.errors import RemoteProtocolError

LISTS: Final = ("senders", "receivers")


class Totals(TypedDict):
    """Sums over all queues; rates are messages a second."""

    ready: int
    held: int
    stored_messages: int
    stored_bytes: int
    came: float
    went: float
    queues: int
    connections: int


class QueueRow(TypedDict):
    """A queue, and the sentence that says who holds back whom there."""

    name: str
    ready: int
    held: int
    delayed: int
    granted: int
    wanted: int
    stored_messages: int
    stored_bytes: int
    max_messages: int | None
    max_bytes: int | None
    came: float
    went: float
    acknowledged: float
    attached_senders: int
    attached_receivers: int
    waiting_senders: int
    oldest_ms: int | None
    pressure: str
    sentence: str


class PartyRow(TypedDict):
    """One who sends or receives."""

    id: int | None
    role: str
    client: str
    subscription: str | None
    peer: str | None
    demand: int
    held: int
    waits: bool
    messages: int
    rate: float


class Flow(QueueRow):
    """A queue with the busiest of those who send to it and receive from it, and how many there are of each."""

    senders: list[PartyRow]
    receivers: list[PartyRow]
    all_senders: int
    all_receivers: int


class ClusterInBrief(TypedDict):
    """What a broker is in its cluster, and how far behind the one is that is furthest (``worst``; None for nobody)."""

    node: str
    role: str
    epoch: int
    members: int
    in_step: int | None
    worst: str | None
    lag_records: int | None
    lag_bytes: int | None
    lag_s: float | None


class Picture(TypedDict):
    """What goes on in a broker: totals, how many queues match, some of them in order, and the one that was asked for.

    ``cluster`` is None of a broker that is alone; one from before has none.
    """

    round: int
    totals: Totals
    matching: int
    queues: list[QueueRow]
    flow: Flow | None
    cluster: NotRequired[ClusterInBrief | None]


def checked(answer: Any) -> Picture:
    """``answer`` as a picture.

    Raises:
        RemoteProtocolError: it has another shape.
    """
    if not (
        isinstance(answer, dict)
        and isinstance(answer.get("totals"), dict)
        and isinstance(answer.get("matching"), int)
        and _are_rows(answer.get("queues"))
        and all(isinstance(row.get("name"), str) for row in answer["queues"])
        and _is_flow(answer.get("flow"))
        and isinstance(answer.get("cluster"), dict | None)
    ):
        raise RemoteProtocolError(f"the broker answered 'picture' with something else: {answer!r:.80}")
    return cast("Picture", answer)


def _is_flow(value: Any) -> bool:
    return value is None or (isinstance(value, dict) and all(_are_rows(value.get(name)) for name in LISTS))


def _are_rows(value: Any) -> bool:
    return isinstance(value, list) and all(isinstance(row, dict) for row in value)
