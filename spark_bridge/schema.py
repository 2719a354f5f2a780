"""The source's columns: their Spark types, and the Arrow types that Spark's readers want to the letter.

Only a task's first batch is checked by Spark; a later one of another layout would be misread, so every batch is built from the
one Arrow schema made here.
"""

from __future__ import annotations

from typing import Any

import pyarrow as pa
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    BooleanType,
    IntegerType,
    LongType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

from spark_bridge.errors import SchemaError

VALUE = "value"
KEY = "key"
QUEUE = "queue"
ROUTING_KEY = "routingKey"
POSITION = "position"
ENQUEUED_AT = "enqueued_at"
MESSAGE_ID = "message_id"
DELIVERY_COUNT = "delivery_count"
POSSIBLY_REPLAYED = "possibly_replayed"
HEADERS = "headers"

_COLUMNS: dict[str, tuple[Any, Any]] = {
    VALUE: (BinaryType(), pa.binary()),
    KEY: (BinaryType(), pa.binary()),
    QUEUE: (StringType(), pa.string()),
    POSITION: (LongType(), pa.int64()),
    ENQUEUED_AT: (TimestampType(), pa.timestamp("us", tz="UTC")),
    MESSAGE_ID: (BinaryType(), pa.binary()),
    DELIVERY_COUNT: (IntegerType(), pa.int32()),
    POSSIBLY_REPLAYED: (BooleanType(), pa.bool_()),
    HEADERS: (
        ArrayType(StructType([StructField("key", StringType()), StructField("value", BinaryType())])),
        pa.list_(pa.field("element", pa.struct([pa.field("key", pa.string()), pa.field("value", pa.binary())]))),
    ),
}
"""Column -> (Spark type, Arrow type), in the order in which they appear."""
_MAY_BE_NULL = frozenset({KEY, HEADERS})


def source_schema(include_headers: bool) -> Any:
    """The StructType of a source to which the user gave no schema."""
    names = [name for name in _COLUMNS if include_headers or name != HEADERS]
    return StructType([StructField(name, _COLUMNS[name][0]) for name in names])


def arrow_schema(schema: Any) -> pa.Schema:
    """The Arrow schema for a source's or a user's StructType; a subset of the columns reads only those.

    Raises:
        SchemaError: a column that does not exist, has another type, appears twice, or is declared never null but may be.
    """
    fields = []
    seen: set[str] = set()
    for column in schema.fields:
        if column.name not in _COLUMNS:
            raise SchemaError(f"there is no column {column.name!r}; the columns are {_described()}")
        spark_type, arrow_type = _COLUMNS[column.name]
        if column.dataType != spark_type:
            raise SchemaError(
                f"column {column.name} is {spark_type.simpleString()}, not {column.dataType.simpleString()}; "
                "read it as it is and cast afterwards"
            )
        if column.name in seen:
            raise SchemaError(f"column {column.name} appears twice")
        if not column.nullable and column.name in _MAY_BE_NULL:
            raise SchemaError(f"column {column.name} may be null; declare it so")
        seen.add(column.name)
        fields.append(pa.field(column.name, arrow_type, nullable=column.nullable))
    if not fields:
        raise SchemaError(f"the schema has no column; the columns are {_described()}")
    return pa.schema(fields)


def _described() -> str:
    return ", ".join(f"{name} {spark_type.simpleString()}" for name, (spark_type, _) in _COLUMNS.items())
