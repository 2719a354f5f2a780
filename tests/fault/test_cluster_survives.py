"""What clients of a cluster's leader were told is there with each leader that follows, whoever died when, and all nodes have one state."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

import pytest

from actors.storage.leader_storage import LeaderStorage
from actors.storage.node_storage import NodeStorage
from actors.storage.replica_checkpoints import ReplicaCheckpoints
from tests.fault import cluster_features
from tests.fault.cluster_program import verify_cluster
from tests.fault.history import HistoryError

SEEDS = 4
"""Of the program's own; `make soak` runs three hundred."""


def test_what_was_told_survives_leaders_and_each_follower_has_what_the_whole_log_makes() -> None:
    seen: Counter[str] = Counter()
    for seed in range(SEEDS):
        seen += verify_cluster(seed)
    wanted = {"taken over", "stepped down", "died", "died at a call", "led in vain", "truncated", "compared"}
    assert wanted | {"follower's checkpoint", "purged", "moved", "failed"} <= seen.keys()


@pytest.mark.soak
@pytest.mark.timeout(7200)
def test_three_hundred_seeds_survive(capsys: pytest.CaptureFixture[str]) -> None:
    assert cluster_features.main(["--seeds", "1000:1300"]) == 0, capsys.readouterr().err


def _finds(seeds: range) -> None:
    for seed in seeds:
        verify_cluster(seed)


def test_it_is_found_where_a_follower_folds_what_is_not_committed(monkeypatch: pytest.MonkeyPatch) -> None:
    commit = NodeStorage.commit

    def of_all(self: NodeStorage, lsn: int) -> None:
        commit(self, lsn)
        if not self._leading:
            self._followed.want(self.journal.next_lsn)
            self._fold_soon()

    monkeypatch.setattr(NodeStorage, "commit", of_all)
    with pytest.raises(HistoryError, match="differ"):
        _finds(range(4))


def test_it_is_found_where_a_leader_confirms_what_is_on_its_own_disk(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(LeaderStorage, "committed", lambda self: self.confirm(self._journal.durable_lsn))
    with pytest.raises(HistoryError, match="lost"):
        _finds(range(40))


def test_it_is_found_where_a_leaders_checkpoint_has_what_no_record_says(monkeypatch: pytest.MonkeyPatch) -> None:
    def nothing(_: ReplicaCheckpoints) -> Iterator[None]:
        return iter(())

    monkeypatch.setattr(ReplicaCheckpoints, "_before_storing", nothing)
    with pytest.raises(HistoryError, match="differ"):
        _finds(range(40))
