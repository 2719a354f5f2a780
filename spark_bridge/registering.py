"""Registration with what only the driver's program knows: how many tasks the session's cluster runs at a time.

Spark plans a query in a process of its own, to which it tells nothing of the cluster: no context, no configuration. What it does take
there is the class that was registered. So the number goes with the class.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

# First of all: it says which extra is missing.
from spark_bridge import _extra as _extra  # noqa: PLC0414 - only to be loaded

# isort: split

from spark_bridge.errors import OptionError
from spark_bridge.partitions import PARALLELISM_VARIABLE, task_slots
from spark_bridge.source import PenstockDataSource

FOR_ALL = f"spark.executorEnv.{PARALLELISM_VARIABLE}"


def register(spark: Any, *, parallelism: int | None = None) -> int | None:
    """Register the source and the sink in a session, together with the cluster's parallelism.

    The number is that of now: call it when the executors are there, or say ``parallelism``. Called again, it holds for the queries
    that are loaded from then on.

    Args:
        spark: the session, of Spark Connect too.
        parallelism: tasks that run at a time; by default what `cluster_parallelism` finds.

    Returns:
        The number; None where the session tells of none, so that the worker that plans takes the cores of its machine.

    Raises:
        OptionError: it is less than 1, or the configuration has one that is no number.
    """
    if parallelism is not None and parallelism < 1:
        raise OptionError(f"parallelism is {parallelism}: expected a whole number of at least 1")
    found = cluster_parallelism(spark) if parallelism is None else parallelism
    # Made here, so that Spark takes the class to its workers as it is, and not by its name.
    source = type(PenstockDataSource.__name__, (PenstockDataSource,), {"cluster_parallelism": found})
    spark.dataSource.register(source)
    return found


def cluster_parallelism(spark: Any) -> int | None:
    """How many tasks the session's cluster runs at a time, as far as the session tells.

    That is what somebody has said, ``spark.executorEnv.PENSTOCK_PARALLELISM`` or ``spark.default.parallelism``. Where nobody has, it is
    the cores of the executors that are there, or that the configuration asks for, whichever is more, by ``spark.task.cpus``.

    Raises:
        OptionError: ``spark.executorEnv.PENSTOCK_PARALLELISM`` is no whole number of at least 1.
    """

    def conf(name: str) -> str | None:
        return spark.conf.get(name, None)  # type: ignore[no-any-return]  # PySpark has no type information

    for_all = (conf(FOR_ALL) or "").strip()
    if for_all:
        return task_slots(FOR_ALL, for_all)
    default = _number(conf, "spark.default.parallelism")
    if default:
        return default
    cores = max(_cores_there(spark), _cores_asked_for(conf))
    return max(1, cores // max(1, _number(conf, "spark.task.cpus"))) if cores else None


def _cores_there(spark: Any) -> int:
    """Of the executors that are registered, or of a local master."""
    try:
        return int(spark.sparkContext.defaultParallelism)
    except AttributeError:  # of Spark Connect, whose client has no context
        return 0


def _cores_asked_for(conf: Callable[[str], str | None]) -> int:
    executors = _number(conf, "spark.executor.instances")
    if conf("spark.dynamicAllocation.enabled") == "true":
        executors = max(executors, _number(conf, "spark.dynamicAllocation.maxExecutors"))
    asked = executors * max(1, _number(conf, "spark.executor.cores"))
    most = _number(conf, "spark.cores.max")
    return min(asked, most) if asked and most else asked or most


def _number(conf: Callable[[str], str | None], name: str) -> int:
    """0 where there is none."""
    text = (conf(name) or "").strip()
    return int(text) if text.isascii() and text.isdigit() else 0
