"""The columns that a sink takes: ``value``, and where they are wanted ``key`` or ``routingKey``, ``headers`` and ``queue``."""

from __future__ import annotations

from typing import Any

from pyspark.sql.types import ArrayType, BinaryType, MapType, StringType, StructType

from spark_bridge.errors import OptionError, SchemaError
from spark_bridge.schema import HEADERS, KEY, QUEUE, ROUTING_KEY, VALUE

_TYPES = {
    VALUE: "string or binary",
    KEY: "string or binary",
    HEADERS: "array<struct<key:string,value:binary>>, map<string,binary> or map<string,string>",
    QUEUE: "string",
    ROUTING_KEY: "string",
}
"""Column -> what it may be."""


def check_sink_schema(schema: Any, queue: str | None, exchange: str | None = None) -> None:
    """Check the StructType of what is to be written, before any task runs.

    Args:
        schema: the frame's.
        queue: the option ``queue``.
        exchange: the option ``exchange``.

    Raises:
        SchemaError: a column is unknown, missing, there twice, or of a type that it cannot have.
        OptionError: neither a column nor an option says into which queue the rows go.
    """
    seen: set[str] = set()
    for column in schema.fields:
        if column.name not in _TYPES:
            raise SchemaError(
                f"a sink has no column {column.name!r}; it takes {_described()}: select these, and put the rest into "
                "value, as JSON for example: to_json(struct(*)) AS value"
            )
        if column.name in seen:
            raise SchemaError(f"column {column.name} appears twice")
        seen.add(column.name)
        if not _fits(column.name, column.dataType):
            raise SchemaError(
                f"column {column.name} is {column.dataType.simpleString()}; a sink takes {_TYPES[column.name]}: "
                f"cast it, CAST({column.name} AS STRING) for example"
            )
    if VALUE not in seen:
        raise SchemaError(f"there is no column value; a sink takes {_described()}")
    if KEY in seen and ROUTING_KEY in seen:
        raise SchemaError(
            f"columns {KEY} and {ROUTING_KEY} are both there, and a message has one key: select one of them"
        )
    if exchange is not None:
        if QUEUE in seen:
            raise SchemaError(
                f"there is a column {QUEUE}, and option exchange: rows go to the exchange; leave one of the two out"
            )
        return
    if ROUTING_KEY in seen:
        raise SchemaError(
            f"column {ROUTING_KEY} belongs to an exchange: give option exchange, or call the column {KEY}"
        )
    if queue is None and QUEUE not in seen:
        raise OptionError('option queue is missing, and no column queue is there: .option("queue", "orders")')


def _fits(column: str, kind: Any) -> bool:
    if column in (QUEUE, ROUTING_KEY):
        return isinstance(kind, StringType)
    if column == HEADERS:
        return _are_headers(kind)
    return _is_bytes(kind)


def _are_headers(kind: Any) -> bool:
    if isinstance(kind, MapType):
        return isinstance(kind.keyType, StringType) and _is_bytes(kind.valueType)
    if not isinstance(kind, ArrayType) or not isinstance(kind.elementType, StructType):
        return False
    element = kind.elementType
    return (
        element.names == ["key", "value"]
        and isinstance(element["key"].dataType, StringType)
        and _is_bytes(element["value"].dataType)
    )


def _is_bytes(kind: Any) -> bool:
    return isinstance(kind, BinaryType | StringType)


def _described() -> str:
    return ", ".join(f"{name} ({kind})" for name, kind in _TYPES.items())
