"""The data source that Spark registers."""

from __future__ import annotations

from typing import Any

from pyspark.sql.datasource import DataSource

from spark_bridge.options import SourceOptions
from spark_bridge.reader import PenstockStreamReader
from spark_bridge.schema import arrow_schema, source_schema


class PenstockDataSource(DataSource):  # type: ignore[misc]  # PySpark has no type information
    """Format ``penstock``: a queue as a Structured Streaming source.

    ``spark.dataSource.register(PenstockDataSource)``, then
    ``spark.readStream.format("penstock").option("queue", "orders").option("subscription", "orders-to-lake").load()``.
    docs/spark.md lists options, columns and guarantees.
    """

    @classmethod
    def name(cls) -> str:
        """The format's name."""
        return "penstock"

    def schema(self) -> Any:
        """The columns of a source to which the user gave no schema; raises OptionError."""
        return source_schema(SourceOptions.parse(self.options).include_headers)

    def streamReader(self, schema: Any) -> PenstockStreamReader:  # noqa: N802 - Spark's name
        """The reader of a streaming query.

        Raises:
            OptionError: an option is unknown, missing or wrong.
            SchemaError: a column is unknown or of another type.
        """
        return PenstockStreamReader(SourceOptions.parse(self.options).for_streaming(), arrow_schema(schema))
