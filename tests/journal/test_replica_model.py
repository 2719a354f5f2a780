"""Any sequence of appends, commits, checkpoints, deaths, losses of power, take-overs and transfers leaves replicas with one log."""

from __future__ import annotations

from random import Random

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from journal import JournalOptions
from tests.examples_tried import tried
from tests.journal.cluster import EVENT, ITEMS, NODES, SEVERAL, STREAMS, Cluster

NODE = st.integers(0, NODES - 1)


class ReplicasMachine(RuleBasedStateMachine):
    """The cluster's plain list is the model."""

    @initialize(
        segment_bytes=st.sampled_from([300, 1024]),
        spares=st.integers(0, 1),
        tail=st.sampled_from([1, 1500, 1 << 20]),
        log=st.sampled_from([1, 2000, 1 << 20]),
    )
    def begin(self, segment_bytes: int, spares: int, tail: int, log: int) -> None:
        self.cluster = Cluster(
            JournalOptions(
                segment_bytes=segment_bytes, spare_segments=spares, log_tail_bytes=tail, cluster_log_bytes=log
            )
        )

    @rule(
        kind=st.sampled_from([EVENT, ITEMS, ITEMS, SEVERAL]),
        stream=st.integers(0, STREAMS - 1),
        count=st.integers(1, 3),
        size=st.integers(0, 200),
        times=st.integers(1, 4),
    )
    def append(self, kind: int, stream: int, count: int, size: int, times: int) -> None:
        for _ in range(times):
            self.cluster.append(kind, stream, count, size)

    @rule(stream=st.integers(0, STREAMS - 1), first=st.integers(0, 20), count=st.integers(1, 8))
    def acknowledge(self, stream: int, first: int, count: int) -> None:
        for item in range(first, first + count):
            self.cluster.acknowledge((stream, item))

    @rule(number=NODE, most=st.sampled_from([1, 5, 1000]))
    def ship(self, number: int, most: int) -> None:
        self.cluster.ship(number, most)

    @rule(numbers=st.sets(NODE, min_size=1))
    def store(self, numbers: set[int]) -> None:
        for number in numbers:
            self.cluster.run(number)
        self.cluster.count()

    @rule()
    def all_in_step(self) -> None:
        for number in range(NODES):
            self.cluster.ship(number, 1000)
            if self.cluster.nodes[number].started:
                self.cluster.run(number)
        self.cluster.count()

    @rule(number=NODE)
    def checkpoint(self, number: int) -> None:
        self.cluster.checkpoint(number)

    @rule(back=st.none() | st.integers(0, 30))
    def keep(self, back: int | None) -> None:
        self.cluster.keep(None if back is None else max(1, len(self.cluster.log) - back))

    @rule(number=NODE, seed=st.none() | st.integers(0, 1000))
    def die(self, number: int, seed: int | None) -> None:
        self.cluster.die(number, None if seed is None else Random(seed))

    @rule(number=NODE)
    def stop(self, number: int) -> None:
        self.cluster.stop(number)

    @rule(candidate=NODE, other=NODE)
    def take_over(self, candidate: int, other: int) -> None:
        if candidate != other:
            self.cluster.take_over(candidate, (candidate, other))

    @invariant()
    def the_logs_are_one(self) -> None:
        if hasattr(self, "cluster"):
            self.cluster.judge()


ReplicasMachine.TestCase.settings = settings(max_examples=tried(60), stateful_step_count=30, deadline=None)
test_the_replicas_agree_with_a_plain_list = ReplicasMachine.TestCase


def test_runs_drawn_by_a_generator_see_truncations_and_checkpoints() -> None:
    seen: set[str] = set()
    for seed in range(12):
        random = Random(seed)
        cluster = Cluster(JournalOptions(segment_bytes=300, log_tail_bytes=500, cluster_log_bytes=1))
        for _ in range(60):
            step(cluster, random)
            cluster.judge()
        seen |= cluster.seen
    assert seen >= {"truncated", "checkpoint"}


def test_a_replica_that_lags_behind_the_log_is_filled_and_may_lead() -> None:
    cluster = Cluster(JournalOptions(segment_bytes=300, log_tail_bytes=500))
    leader, other = cluster.leader, 1 - cluster.leader
    for turn in range(25):
        for kind in (ITEMS, SEVERAL):
            cluster.append(kind, turn % STREAMS, 2, 50)
        for item in sorted(cluster.items.keys() - cluster.acknowledged.keys())[3:]:
            cluster.acknowledge(item)
        cluster.ship(other, 1000)
        cluster.run(leader)
        cluster.run(other)
        cluster.count()
        cluster.checkpoint(leader)
        cluster.run(leader)
    assert cluster.nodes[leader].journal.log_start > 50
    cluster.ship(2, 1000)
    assert "filled" in cluster.seen
    cluster.judge()
    cluster.ship(2, 1000)
    cluster.run(2)
    cluster.die(leader, None)
    for number in range(NODES):
        cluster.ship(number, 1000)
        cluster.run(number)
    cluster.judge()
    cluster.take_over(2, (2, other))
    assert cluster.leader == 2
    for number in range(NODES):
        cluster.ship(number, 1000)
    cluster.judge()


def step(cluster: Cluster, random: Random) -> None:
    """One thing that may happen."""
    number, draw = random.randrange(NODES), random.random()
    if draw < 0.35:
        cluster.append(
            random.choice((EVENT, ITEMS, SEVERAL)),
            random.randrange(STREAMS),
            random.randint(1, 3),
            random.randrange(100),
        )
    elif draw < 0.45:
        for item in sorted(cluster.items.keys() - cluster.acknowledged.keys(), key=lambda item: cluster.items[item])[
            :20
        ]:
            cluster.acknowledge(item)
    elif draw < 0.65:
        # The last one lags.
        cluster.ship(number, random.choice((1, 5, 100)) if number < 2 or random.random() < 0.2 else 0)
    elif draw < 0.85:
        if cluster.nodes[number].started:
            cluster.run(number)
        cluster.count()
    elif draw < 0.93:
        cluster.checkpoint(number)
    elif draw < 0.98:
        cluster.die(number, random if random.random() < 0.5 else None)
    else:
        cluster.stop(number)
