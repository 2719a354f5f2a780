"""Deliberate defects of a replica: the model that replicas are checked by finds each, or it checks nothing."""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import Any

import pytest

from journal import Journal, JournalError, JournalOptions, ReplicatedJournal
from journal.epochs import NONE_YET, Epochs
from journal.replica_file import ReplicaFile
from tests.journal.cluster import Cluster
from tests.journal.test_replica_model import step

TRIED = range(40)
"""Seeds within which a defect must show."""
STEPS = 60


def stores_what_is_not_committed(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(ReplicatedJournal, "_hand_over", Journal._hand_over)


def gives_back_what_is_not_committed(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(ReplicatedJournal, "_prepare", lambda self, live, _: self._housekeeping.prepare(live))


def closes_with_a_record(patch: pytest.MonkeyPatch) -> None:
    def mark(self: ReplicatedJournal, writer: Any) -> None:
        self._appending = self._epochs.last or 1
        Journal._mark_end(self, writer)

    patch.setattr(ReplicatedJournal, "_mark_end", mark)


def forgets_the_epochs_before_a_checkpoint(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Epochs, "before", lambda *_: NONE_YET)


def writes_one_epoch_for_all(patch: pytest.MonkeyPatch) -> None:
    patch.setattr("journal.writer.Writer.write_epoch", lambda self, _: setattr(self, "_epoch", 1))


def promises_in_memory_only(patch: pytest.MonkeyPatch) -> None:
    def promise(self: ReplicaFile, epoch: int, _: int) -> None:
        self.now = self.now._replace(promised=epoch)

    patch.setattr(ReplicaFile, "promise", promise)


@pytest.mark.parametrize(
    "defect",
    [
        stores_what_is_not_committed,
        gives_back_what_is_not_committed,
        closes_with_a_record,
        forgets_the_epochs_before_a_checkpoint,
        writes_one_epoch_for_all,
        promises_in_memory_only,
    ],
)
def test_a_defect_is_found_within_a_few_seeds(
    defect: Callable[[pytest.MonkeyPatch], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    defect(monkeypatch)
    for seed in TRIED:
        random = Random(seed)
        try:
            cluster = Cluster(JournalOptions(segment_bytes=300, log_tail_bytes=500, cluster_log_bytes=1))
            for _ in range(STEPS):
                step(cluster, random)
                cluster.judge()
        except (AssertionError, JournalError):
            return
    pytest.fail(f"none of {len(TRIED)} seeds found it")
