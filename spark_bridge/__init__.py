"""Penstock queues as sources and sinks of Spark: ``spark.dataSource.register(PenstockDataSource)``."""

from __future__ import annotations

# First of all, while what is wrong can still be said.
from spark_bridge import _ours as _ours

# isort: split

from lazy_loader import attach_stub

# What is given here is in __init__.pyi, and is loaded when it is asked for.
__getattr__, __dir__, __all__ = attach_stub(__name__, __file__)
