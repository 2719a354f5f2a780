"""The class that Spark's lookup finds: it knows the format's name, and loads the rest when a query asks for it.

The lookup runs once a session for every user of this Python, most of whom read no queue. So this module may not import
`spark_bridge`, which brings Arrow and the clients.
"""

from __future__ import annotations

from collections.abc import Mapping
from importlib.util import find_spec
from typing import Any

if find_spec("pyspark") is None:
    raise ModuleNotFoundError(
        "pyspark is not installed, which Spark's source and sink need: pip install 'penstock-mq[spark]'", name="pyspark"
    )

# isort: split

from pyspark.sql.datasource import DataSource


class DefaultSource(DataSource):  # type: ignore[misc]  # PySpark has no type information
    """Stands for `spark_bridge.PenstockDataSource`, which is what its construction gives.

    Spark's workers are handed this class by name, call `name`, and construct it with the options of a read or a write. What they
    get from there on is the real source: nothing has to be forwarded, and a session that registers `PenstockDataSource` itself
    behaves the same.
    """

    def __new__(cls, options: Mapping[str, str]) -> Any:
        """The source for ``options``."""
        from spark_bridge import PenstockDataSource  # noqa: PLC0415 - the lookup must not pay for it

        return PenstockDataSource(options)

    @classmethod
    def name(cls) -> str:
        """The format's name."""
        return "penstock"
