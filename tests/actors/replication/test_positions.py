"""Where two logs part, compared with the records themselves."""

from __future__ import annotations

from random import Random

from actors.replication.limits import MAX_EPOCH_STARTS
from actors.replication.positions import NOTHING, Position, parting, position, summary
from tests.actors.replication.machines import log
from tests.simulation.replication.disk import Disk, Record


def grown(random: Random) -> tuple[Disk, Disk]:
    """Two logs of one cluster: whoever leads an epoch goes on from one of them, and the other takes a part of that."""
    logs = [log(), log()]
    epoch = 0
    for _ in range(random.randint(1, 6)):
        epoch += random.randint(1, 3)
        leader = random.choice(logs)
        other = logs[leader is logs[0]]
        for _ in range(random.randint(1, 4)):
            leader.append([Record(leader.end, epoch, ("p", random.random()))])
        if random.random() < 0.5:
            shared = next(
                (i for i, (a, b) in enumerate(zip(leader.records, other.records, strict=False)) if a != b), None
            )
            if shared is not None:
                other.cut(shared + 1)
            elif other.end > leader.end:
                other.cut(leader.end)
            other.append(leader.records[other.end - 1 : random.randint(other.end - 1, leader.end - 1)])
    return logs[0], logs[1]


def truly(one: Disk, other: Disk) -> int:
    pairs = zip(one.records, other.records, strict=False)
    return next((i for i, (a, b) in enumerate(pairs) if a != b), min(len(one.records), len(other.records))) + 1


def test_two_logs_part_where_their_records_do() -> None:
    random = Random(1)
    for _ in range(2_000):
        one, other = grown(random)
        assert parting(summary(one), summary(other)) == truly(one, other) == parting(summary(other), summary(one))


def test_what_only_one_of_them_knows_as_committed_says_nothing_of_the_other() -> None:
    """The leader knows more as committed than the other has: the other's tail may still be another one."""
    leader, former = log(1, 1, 3, 3, 3, committed=6), log(1, 1, 2, 2, 2, committed=2)
    assert parting(summary(leader), summary(former)) == 3


def test_a_log_that_begins_at_its_checkpoint_parts_from_none_below_what_both_know_as_committed() -> None:
    leader, other = log(1, 1, 1, 2, 2, committed=6), log(1, 1, 1, committed=4)
    other.take_checkpoint(4, 4)
    assert other.epoch_starts() == []
    assert parting(summary(leader), summary(other)) == 4


def test_the_position_that_knows_more_is_the_greater_one() -> None:
    assert position(log()) == NOTHING
    assert NOTHING < position(log(1, 1, 1)) == Position(1, 3) < position(log(1, 2)) == Position(2, 2)


def test_a_log_that_begins_where_another_ends_goes_on_with_it() -> None:
    longer, other = log(1, 1, 1, 2, 2, committed=4), log(1, 1, 1, committed=2)
    longer.take_checkpoint(4, 4)
    assert parting(summary(longer), summary(other)) == 4
    other = log(1, 1, 3, committed=2)
    assert parting(summary(longer), summary(other)) == 2, "its third record is another one"


def test_checkpoints_hide_only_what_both_have_given_back() -> None:
    random = Random(2)
    compared = 0
    for _ in range(2_000):
        one, other = grown(random)
        same = truly(one, other)
        for disk in (one, other):
            disk.committed = random.randint(1, same)
            disk.take_checkpoint(disk.committed, disk.committed)
        found = parting(summary(one), summary(other))
        assert found <= same
        if same >= max(one.start, other.start):
            compared += 1
            assert found == same
    assert compared > 1_000


def test_who_compares_its_own_log_knows_all_epochs_of_it() -> None:
    leader = log(*range(1, 2 * MAX_EPOCH_STARTS))
    other = log(1, 2, 3)
    assert len(summary(leader).starts) == MAX_EPOCH_STARTS
    assert parting(summary(leader, None), summary(other)) == 4


def test_a_summary_names_the_epoch_of_each_record() -> None:
    disk = log(1, 1, 2, 4, 4, committed=3)
    assert [summary(disk).epoch_at(lsn) for lsn in range(1, 6)] == [1, 1, 2, 4, 4]
    assert summary(disk, 1).epoch_at(3) is None
    disk.take_checkpoint(3, 3)
    assert [summary(disk).epoch_at(lsn) for lsn in range(1, 6)] == [None, 1, 2, 4, 4]
