"""What PySpark 4.2 added and 4.1 lacks, so that this package loads on both.

On 4.1 Spark passes no read limit and no start; `PenstockStreamReader` then limits by its own options.
"""

from __future__ import annotations

from typing import Any

try:
    from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadMaxRows, SupportsTriggerAvailableNow
except ImportError:  # PySpark 4.1

    class ReadAllAvailable:  # type: ignore[no-redef]  # stands in for what is missing
        """Read everything there is."""

    class ReadMaxRows:  # type: ignore[no-redef]  # stands in for what is missing
        """Read at most ``max_rows``."""

        def __init__(self, max_rows: int) -> None:
            self.max_rows = max_rows

    class SupportsTriggerAvailableNow:  # type: ignore[no-redef]  # stands in for what is missing
        """Marks a reader that knows the available-now trigger."""


ReadLimit = Any
"""PySpark ships no type information."""

__all__ = ["ReadAllAvailable", "ReadLimit", "ReadMaxRows", "SupportsTriggerAvailableNow"]
