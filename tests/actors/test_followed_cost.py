"""What a record costs a follower, counted and not timed: bytecode instructions of appending it, and of folding it once it is committed.

A limit is what was counted when it was set, and a little more; see tests/transport/test_cost_of_a_message.py. Counted on CPython 3.11.
"""

from __future__ import annotations

import sys

import pytest

from actors.batch import MessageBatch
from actors.queue.vocabulary.events import Event, MessagesAcknowledged, MessagesAdded
from actors.storage import codec
from journal import ITEMS_PREFIX_BYTES, ShippedRecord
from journal.format import ITEMS
from journal.items import ITEMS_PREFIX
from streams.testkit import run_in_virtual_time
from tests.actors.counted_work import instructions
from tests.actors.node_cluster import WHOLE, Member

pytestmark = pytest.mark.skipif(sys.version_info[:2] != (3, 11), reason="the limits are instructions of CPython 3.11")

TIMES = 32
BATCH = MessageBatch.from_payloads([bytes(100)] * 100)
LIMITS = {
    "a batch, appended": 600,
    "a batch, folded": 712,
    "a batch that was acknowledged, folded": 347,
}


def stored(lsn: int, first: int) -> ShippedRecord:
    """A batch from a sender that has no name of its own, as it comes over a link: in one piece."""
    event = MessagesAdded(first, BATCH, 1_000_000, temporary=(("a sender", first + len(BATCH)),))
    prefix = ITEMS_PREFIX.pack(0, first, len(BATCH))
    assert len(prefix) == ITEMS_PREFIX_BYTES
    return ShippedRecord(lsn, 1, codec.ADDED, ITEMS, (memoryview(b"".join([prefix, *codec.encode_added(event)])),))


def other(lsn: int, event: Event) -> ShippedRecord:
    kind, payload = codec.encode(0, event)
    return ShippedRecord(lsn, 1, kind, 0, (payload,))


def test_no_record_has_become_dearer_to_a_follower() -> None:
    found: dict[str, float] = {}

    async def measure() -> None:
        member = Member(options=WHOLE)
        node = member.node

        def appended(records: list[ShippedRecord]) -> float:
            count = instructions(lambda: node.append(records))
            member.run()
            node.commit(node.log.end)
            return count / TIMES

        def folded() -> float:
            return instructions(lambda: node._fold(node._followed)) / TIMES

        begun = [
            ShippedRecord(1, 1, codec.EPOCH_BEGAN, 0, (codec.encode_number(1),)),
            ShippedRecord(2, 1, codec.STORE_CREATED, 0, (codec.encode_number(7),)),
            ShippedRecord(3, 1, codec.QUEUE_DECLARED, 0, (codec.encode_declared(0, "q", None),)),
            stored(4, 0),
        ]
        appended(begun)
        folded()
        size = len(BATCH)
        found["a batch, appended"] = appended([stored(5 + n, (1 + n) * size) for n in range(TIMES)])
        found["a batch, folded"] = folded()
        appended([other(5 + TIMES, MessagesAcknowledged(((0, TIMES * size),)))])
        found["a batch that was acknowledged, folded"] = folded()
        assert not node._followed.behind
        log = member.storage.contents.queues[0].log
        assert (log.total_in, log.total_acknowledged) == ((TIMES + 1) * size, TIMES * size)
        member.gone()

    run_in_virtual_time(measure())
    assert found.keys() == LIMITS.keys()
    over = {what: round(cost) for what, cost in found.items() if cost > LIMITS[what]}
    assert not over, f"{over}, of {found}"
