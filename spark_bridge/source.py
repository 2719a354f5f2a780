"""The data source that Spark registers."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

# First of all: it says which extra is missing.
from spark_bridge import _extra as _extra  # noqa: PLC0414 - only to be loaded

# isort: split

from pyspark.sql.datasource import DataSource

from spark_bridge.errors import OptionError, SparkBridgeError
from spark_bridge.options import SourceOptions
from spark_bridge.plain import FailedReader, plainly
from spark_bridge.reader import PenstockStreamReader
from spark_bridge.schema import arrow_schema, source_schema
from spark_bridge.sink_options import SinkOptions
from spark_bridge.sink_schema import check_sink_schema

if TYPE_CHECKING:
    from spark_bridge.batch_reader import PenstockBatchReader
    from spark_bridge.writer import PenstockBatchWriter, PenstockStreamWriter


class PenstockDataSource(DataSource):  # type: ignore[misc]  # PySpark has no type information
    """Format ``penstock``: a queue as a source and a sink, of streaming queries and of frames.

    ``spark.dataSource.register(PenstockDataSource)``, then
    ``spark.readStream.format("penstock").option("queue", "orders").option("subscription", "orders-to-lake").load()`` and
    ``frame.writeStream.format("penstock").option("queue", "totals").option("checkpointLocation", "...").start()``.
    docs/spark.md lists options, columns and guarantees.
    """

    cluster_parallelism: int | None = None
    """Tasks that run at a time, where `register` has said so."""

    @classmethod
    def name(cls) -> str:
        """The format's name."""
        return "penstock"

    def _source_options(self) -> SourceOptions:
        options = SourceOptions.parse(self.options)
        return options if options.parallelism else replace(options, parallelism=self.cluster_parallelism)

    @plainly
    def schema(self) -> Any:
        """The columns of a source to which the user gave no schema; raises OptionError."""
        return source_schema(SourceOptions.parse(self.options).include_headers)

    def streamReader(self, schema: Any) -> PenstockStreamReader | FailedReader:  # noqa: N802 - Spark's name
        """The reader of a streaming query; where the options or the schema allow none, one that says so when it is first asked."""
        try:
            return PenstockStreamReader(self._source_options().for_streaming(), arrow_schema(schema))
        except SparkBridgeError as error:
            return FailedReader(error)

    @plainly
    def reader(self, schema: Any) -> PenstockBatchReader:
        """The reader of a frame.

        Raises:
            OptionError: an option is unknown, missing or wrong.
            SchemaError: a column is unknown or of another type.
        """
        # A streaming query needs none of this, and every worker that looks a source up would load it; the same below.
        from spark_bridge.batch_reader import PenstockBatchReader  # noqa: PLC0415

        return PenstockBatchReader(self._source_options().for_batch(), arrow_schema(schema))

    @plainly
    def streamWriter(self, schema: Any, overwrite: bool) -> PenstockStreamWriter:  # noqa: N802 - Spark's name
        """The writer of a batch of a streaming query.

        Raises:
            OptionError: an option is unknown, missing or wrong, or the output mode is ``complete``.
            SchemaError: a column is unknown, missing or of another type.
        """
        from spark_bridge.writer import PenstockStreamWriter  # noqa: PLC0415

        if overwrite:
            raise OptionError(
                "a queue cannot be replaced, and outputMode complete would send the whole result again with every batch; "
                "use append, with a watermark where there is an aggregation, or foreachBatch and df.write with the options "
                "writer and version (the batch id)"
            )
        options = SinkOptions.parse(self.options).for_streaming()
        check_sink_schema(schema, options.queue, options.exchange)
        return PenstockStreamWriter(options)

    @plainly
    def writer(self, schema: Any, overwrite: bool) -> PenstockBatchWriter:
        """The writer of a frame.

        Raises:
            OptionError: an option is unknown, missing or wrong, or the mode is ``overwrite``.
            SchemaError: a column is unknown, missing or of another type.
        """
        from spark_bridge.writer import PenstockBatchWriter  # noqa: PLC0415

        if overwrite:
            raise OptionError(
                'a queue cannot be overwritten: what receivers have taken is theirs. Use mode("append"), '
                "and penstock queue purge before it where the queue is to be empty"
            )
        options = SinkOptions.parse(self.options)
        check_sink_schema(schema, options.queue, options.exchange)
        return PenstockBatchWriter(options)
