"""The columns, and that their Arrow types are the ones that Spark asks for."""

from __future__ import annotations

from typing import Any

import pytest
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import BinaryType, IntegerType, StringType, StructField, StructType, TimestampNTZType

from spark_bridge import SchemaError
from spark_bridge.schema import arrow_schema, source_schema


def spark_arrow_schema(schema: Any) -> Any:
    try:
        return to_arrow_schema(schema, timezone="UTC")
    except TypeError:  # PySpark 4.1 knows no other zone
        return to_arrow_schema(schema)


@pytest.mark.parametrize("include_headers", [False, True])
def test_the_arrow_types_are_what_spark_wants_to_the_letter(include_headers: bool) -> None:
    schema = source_schema(include_headers)
    assert ("headers" in schema.fieldNames()) == include_headers
    assert arrow_schema(schema).equals(spark_arrow_schema(schema), check_metadata=True)


def test_a_subset_keeps_the_users_order_and_nullability() -> None:
    schema = StructType([StructField("queue", StringType()), StructField("value", BinaryType(), nullable=False)])
    assert arrow_schema(schema).names == ["queue", "value"]
    assert arrow_schema(schema).equals(spark_arrow_schema(schema), check_metadata=True)


@pytest.mark.parametrize(
    ("field", "complaint"),
    [
        (StructField("payload", BinaryType()), "no column 'payload'; the columns are value binary, key binary"),
        (StructField("value", StringType()), "value is binary, not string"),
        (StructField("delivery_count", StringType()), "delivery_count is int, not string"),
        (StructField("enqueued_at", TimestampNTZType()), "enqueued_at is timestamp, not timestamp_ntz"),
        (StructField("headers", IntegerType()), "headers is array"),
        (StructField("key", BinaryType(), nullable=False), "key may be null"),
    ],
)
def test_a_column_that_cannot_be_is_an_error(field: Any, complaint: str) -> None:
    with pytest.raises(SchemaError, match=complaint):
        arrow_schema(StructType([field]))


def test_a_schema_has_each_column_once_and_at_least_one() -> None:
    value = StructField("value", BinaryType())
    with pytest.raises(SchemaError, match="twice"):
        arrow_schema(StructType([value, value]))
    with pytest.raises(SchemaError, match="no column"):
        arrow_schema(StructType([]))
