"""Any sequence of appends, commits, checkpoints, crashes and restarts gives what a plain list of records would."""

from __future__ import annotations

from typing import Any

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from journal import JournalOptions, UnknownItemError
from journal.catalog import LOADED_INDEXES
from journal.format import CLOSED
from journal.items import Held, pack_several
from tests.examples_tried import tried
from tests.journal.harness import Opened, SimulatedDisk

STREAMS = 3


class JournalMachine(RuleBasedStateMachine):
    """``records`` is the plain list; ``acked`` are the items that nobody wants any more."""

    @initialize(segment_bytes=st.sampled_from([300, 1024, 4096]), spares=st.integers(0, 2))
    def begin(self, segment_bytes: int, spares: int) -> None:
        self.options = JournalOptions(segment_bytes=segment_bytes, spare_segments=spares)
        self.opened = Opened(SimulatedDisk(), self.options)
        self.records: list[tuple[int, int, bytes]] = []
        self.items: dict[tuple[int, int], tuple[int, int, int, bytes]] = {}
        self.next_item = [0] * STREAMS
        self.acked: set[tuple[int, int]] = set()
        self.durable = 1
        self.checkpoint_lsn = 1
        self.checkpoint_acked: set[tuple[int, int]] = set()
        self.epoch = 1
        self.unique = 0

    def _payload(self, size: int) -> bytes:
        self.unique += 1
        return b"%d." % self.unique + bytes(size)

    @rule(size=st.integers(0, 700), lazy=st.booleans())
    def append(self, size: int, lazy: bool) -> None:
        payload = self._payload(size)
        lsn = self.opened.event(payload, lazy)
        assert lsn == 1 + len(self.records)
        self.records.append((lsn, 1, payload))

    @rule(stream=st.integers(0, STREAMS - 1), gap=st.integers(0, 2), count=st.integers(1, 9), size=st.integers(0, 700))
    def append_items(self, stream: int, gap: int, count: int, size: int) -> None:
        payload = self._payload(size)
        first = self.next_item[stream] + gap
        lsn = self.opened.items(stream, first, count, payload)
        assert lsn == 1 + len(self.records)
        prefix = stream.to_bytes(4, "little") + first.to_bytes(8, "little") + count.to_bytes(4, "little")
        self.records.append((lsn, 2, prefix + payload))
        for item in range(first, first + count):
            self.items[stream, item] = (first, first + count, lsn, payload)
        self.next_item[stream] = first + count

    @rule(
        gaps=st.dictionaries(st.integers(0, STREAMS - 1), st.integers(0, 2), min_size=1),
        count=st.integers(1, 9),
        size=st.integers(0, 300),
        alike=st.booleans(),
        other=st.integers(0, 100),
    )
    def append_several(self, gaps: dict[int, int], count: int, size: int, alike: bool, other: int) -> None:
        shared = self._payload(size)
        held = {
            stream: (self.next_item[stream] + gap, count, shared if alike else self._payload(size))
            for stream, gap in gaps.items()
        }
        lsn = self.opened.several(held, bytes(other))
        assert lsn == 1 + len(self.records)
        parts = [[payload] for payload in dict.fromkeys(payload for _, _, payload in held.values())]
        rows = [
            Held(stream, first, count, parts.index([payload])) for stream, (first, _, payload) in sorted(held.items())
        ]
        self.records.append((lsn, 3, b"".join(pack_several(rows, parts, bytes(other)).buffers)))
        for stream, (first, _, payload) in held.items():
            for item in range(first, first + count):
                self.items[stream, item] = (first, first + count, lsn, payload)
            self.next_item[stream] = first + count

    @rule()
    def commit(self) -> None:
        self.opened.run()
        self.durable = 1 + len(self.records)
        assert self.opened.journal.durable_lsn == self.durable

    @precondition(lambda self: self.items)
    @rule(data=st.data(), upto=st.booleans())
    def acknowledge(self, data: Any, upto: bool) -> None:
        stream, item = data.draw(st.sampled_from(sorted(self.items)))
        if upto:
            self.acked |= {(of, number) for of, number in self.items if of == stream and number <= item}
        else:
            self.acked.add((stream, item))

    def _live(self, stream: int, first: int, stop: int) -> int:
        return sum(
            1 for item in range(first, stop) if (stream, item) in self.items and (stream, item) not in self.acked
        )

    @rule()
    def checkpoint(self) -> None:
        self.opened.checkpoint(b"%d" % len(self.records), live=self._live)
        self.durable = self.checkpoint_lsn = 1 + len(self.records)
        self.checkpoint_acked = set(self.acked)

    def _restarted(self, opened: Opened) -> None:
        self.opened = opened
        assert opened.journal.epoch == self.epoch + 1
        self.epoch += 1
        assert opened.replayed == [
            record for record in self.records if record[0] >= self.checkpoint_lsn and record[1] != CLOSED
        ]
        assert opened.journal.next_lsn == 1 + len(self.records)
        assert opened.reports == []

    @rule()
    def crash(self) -> None:
        """The process dies: what was not run is lost, and acknowledgements since the checkpoint are forgotten."""
        del self.records[self.durable - 1 :]
        self.items = {key: value for key, value in self.items.items() if value[2] < self.durable}
        self.acked = set(self.checkpoint_acked)
        for stream in range(STREAMS):
            self.next_item[stream] = max((item + 1 for of, item in self.items if of == stream), default=0)
        self._restarted(self.opened.killed(self.options))

    @rule()
    def close(self) -> None:
        opened = self.opened.closed(self.options)
        self.records.append((1 + len(self.records), CLOSED, b""))
        self.durable = 1 + len(self.records)
        self._restarted(opened)

    @invariant()
    def every_wanted_item_is_read_back(self) -> None:
        if not hasattr(self, "opened"):
            return
        journal = self.opened.journal
        for (stream, item), (first, stop, lsn, payload) in self.items.items():
            if (stream, item) in self.acked:
                continue
            stored = journal.read(stream, item)
            assert (stored.first, stored.stop, stored.lsn, bytes(stored.payload)) == (first, stop, lsn, payload)
        for stream in range(STREAMS):
            assert journal.locate(stream, self.next_item[stream] + 5) is None
            try:
                journal.read(stream, self.next_item[stream] + 5)
            except UnknownItemError:
                continue
            raise AssertionError("an item that was never appended was read")

    @invariant()
    def memory_is_flat(self) -> None:
        if hasattr(self, "opened") and not self.opened.committer.pending:
            for stream, item in self.items:
                self.opened.journal.locate(stream, item)
            held = [segment for segment in self.opened.journal._catalog.segments if segment.rows]
            assert len(held) <= LOADED_INDEXES + 2


JournalMachine.TestCase.settings = settings(max_examples=tried(60), stateful_step_count=40, deadline=None)
test_the_journal_agrees_with_a_plain_list = JournalMachine.TestCase
