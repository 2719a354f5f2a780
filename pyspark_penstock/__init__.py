"""Makes Spark know ``format("penstock")`` without a ``register()`` call, wherever this package can be imported.

Spark's lookup imports every top-level module whose name begins with ``pyspark_`` and takes its ``DefaultSource``.
"""

from __future__ import annotations

from pyspark_penstock.default_source import DefaultSource

__all__ = ["DefaultSource"]
