"""What `register` knows of a cluster, and that a query's tasks go by it."""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any

import pytest

from spark_bridge import OptionError, PenstockDataSource, register
from spark_bridge.partitions import PARALLELISM_VARIABLE, ROWS_PER_TASK
from spark_bridge.registering import FOR_ALL, cluster_parallelism
from spark_bridge.schema import source_schema
from tests.spark_bridge.queries import finish, source, start

INSTANCES, CORES, TASK_CPUS = "spark.executor.instances", "spark.executor.cores", "spark.task.cpus"
DYNAMIC, MOST, CORES_MAX = (
    "spark.dynamicAllocation.enabled",
    "spark.dynamicAllocation.maxExecutors",
    "spark.cores.max",
)


class Session:
    """As much of a session as is asked; of Spark Connect where it has no cores."""

    def __init__(self, settings: dict[str, str], cores: int | None) -> None:
        self.conf = settings
        self.dataSource = self
        self.registered: Any = None
        if cores is not None:
            self.sparkContext = self
            self.defaultParallelism = cores

    def register(self, source: Any) -> None:
        self.registered = source


@pytest.mark.parametrize(
    ("settings", "cores", "expected"),
    [
        ({}, 6, 6),
        ({}, None, None),
        ({TASK_CPUS: "2"}, 6, 3),
        ({TASK_CPUS: "8"}, 6, 1),
        # The executors have not come yet: Spark counts 2 cores then.
        ({INSTANCES: "10", CORES: "4"}, 2, 40),
        ({INSTANCES: "10", CORES: "4", TASK_CPUS: "2"}, None, 20),
        ({INSTANCES: "10", CORES: "4", CORES_MAX: "24"}, 2, 24),
        ({INSTANCES: "3"}, 2, 3),
        ({CORES_MAX: "24"}, 2, 24),
        ({DYNAMIC: "true", MOST: "5", INSTANCES: "2", CORES: "4"}, 8, 20),
        ({DYNAMIC: "false", MOST: "5", INSTANCES: "2", CORES: "4"}, 8, 8),
        ({"spark.default.parallelism": "96", INSTANCES: "10", CORES: "4"}, 96, 96),
        ({"spark.default.parallelism": "96"}, None, 96),
        ({FOR_ALL: " 48 ", "spark.default.parallelism": "96"}, 96, 48),
        ({FOR_ALL: ""}, 6, 6),
    ],
)
def test_the_clusters_parallelism_is_what_is_said_or_the_cores_that_there_are_or_will_be(
    settings: dict[str, str], cores: int | None, expected: int | None
) -> None:
    assert cluster_parallelism(Session(settings, cores)) == expected


@pytest.mark.parametrize("wrong", ["0", "many", "-1", "9" * 5000])
def test_a_parallelism_for_all_queries_that_is_no_number_is_refused(wrong: str) -> None:
    with pytest.raises(OptionError, match=r"^spark\.executorEnv\.PENSTOCK_PARALLELISM is .{1,50}: expected a whole"):
        register(Session({FOR_ALL: wrong}, 2))


def test_a_parallelism_of_nothing_is_refused() -> None:
    with pytest.raises(OptionError, match="parallelism is 0: expected a whole number of at least 1"):
        register(Session({}, 2), parallelism=0)


def test_a_reader_goes_by_its_option_before_the_registration_and_by_that_before_the_environment(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    session = Session({}, 2)
    monkeypatch.setenv(PARALLELISM_VARIABLE, "5")

    def asked(**given: str) -> int | None:
        made = session.registered({"queue": "q", "subscription": "s"} | given)
        reader = made.streamReader(source_schema(include_headers=False))
        return reader._options.parallelism  # type: ignore[no-any-return]  # PySpark has no type information

    assert register(session, parallelism=7) == 7
    assert asked() == 7
    assert asked(parallelism="9") == 9
    assert register(session) == 2
    assert asked() == 2
    assert PenstockDataSource.cluster_parallelism is None, "other sessions have other clusters"


def test_the_class_that_is_registered_is_taken_to_workers_with_its_number() -> None:
    cloudpickle = pytest.importorskip("pyspark.cloudpickle")
    session = Session({}, 2)
    register(session, parallelism=7)
    there = pickle.loads(cloudpickle.dumps(session.registered))
    assert (there.cluster_parallelism, there.name()) == (7, "penstock")
    assert issubclass(there, PenstockDataSource)


@pytest.mark.spark
@pytest.mark.timeout(300)
@pytest.mark.filterwarnings("ignore::ResourceWarning")
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_a_batch_of_a_query_is_read_by_as_many_tasks_as_the_registration_says_run_at_a_time(
    spark: Any, make_broker: Any, tmp_path: Path
) -> None:
    """And a frame too; small batches stay one task, and an option of the query's own counts first."""
    broker = make_broker()
    session = spark.newSession()
    assert register(session) == 2, "the cores of the session's master"
    assert register(session, parallelism=5) == 5
    broker.send("q", [b"x"] * (6 * ROWS_PER_TASK))
    counts: list[int] = []

    def count(frame: Any, _number: int) -> None:
        counts.append(frame.rdd.getNumPartitions())

    finish(start(source(session, broker).load(), tmp_path, count))
    assert counts == [5]
    stored = session.read.format("penstock").option("queue", "q").option("brokers", broker.receiving)
    assert stored.load().rdd.getNumPartitions() == 5
    assert stored.option("parallelism", 3).load().rdd.getNumPartitions() == 3
    counts.clear()
    broker.send("few", [b"x"] * 100)
    finish(start(source(session, broker, queue="few").load(), tmp_path / "few", count))
    assert counts == [1]
