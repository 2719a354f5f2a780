"""What a sink's options and columns may be, and that a wrong one says so."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyspark.sql.types import ArrayType, BinaryType, IntegerType, MapType, StringType, StructField, StructType

from spark_bridge import OptionError, SchemaError
from spark_bridge.access_options import ACCESS_OPTIONS
from spark_bridge.sink_options import ASYNCHRONOUS, DEFAULT_DEMAND_TIMEOUT_MS, MAX_VERSION, SPARKS_OWN, SinkOptions
from spark_bridge.sink_schema import check_sink_schema
from transport import DEFAULT_SEND_ADDRESS
from transport.security.access_sources import GivenAccess
from transport.security.proofs import make_token

TOKEN = make_token()


def test_nothing_is_needed_where_the_rows_name_their_queue() -> None:
    options = SinkOptions.parse({})
    assert options == SinkOptions()
    assert options.brokers == (DEFAULT_SEND_ADDRESS,)
    assert options.demand_timeout_ms == DEFAULT_DEMAND_TIMEOUT_MS == 300_000
    assert options.for_streaming() is options


def test_every_option_is_understood_in_lower_case_as_spark_hands_it_over() -> None:
    given = {"queue": "orders", "brokers": "a:1, [::1]:2", "demandtimeout": "90s", "token": TOKEN}
    options = SinkOptions.parse(given | {"writer": "totals", "version": "7"})
    assert options == SinkOptions(
        queue="orders",
        brokers=("a:1", "[::1]:2"),
        demand_timeout_ms=90_000,
        writer="totals",
        version=7,
        access=GivenAccess(token=TOKEN),
    )
    assert "secret" not in repr(options)


def test_what_spark_adds_to_a_streaming_query_is_passed_over() -> None:
    added = {"checkpointLocation": "/c", "queryname": "n", "asyncProgressTrackingEnabled": "false"}
    assert SinkOptions.parse({"queue": "q"} | added) == SinkOptions(queue="q")


@pytest.mark.parametrize(
    ("given", "said"),
    [
        (
            {"topic": "q"},
            "option topic is an option of Kafka's: say queue, as in",
        ),
        (
            {"tpoci": "q"},
            "unknown option 'tpoci'; known are queue, exchange, routingKey, brokers, demandTimeout, writer, version, user, password, ",
        ),
        (
            {"Subscription": "s"},
            "option subscription is one of a source (readStream, spark.read), and means nothing here: leave it out",
        ),
        ({"queue": "a b"}, "option queue has 'a b': a name is printable and without white space"),
        ({"queue": "ü" * 128}, "a name has at most 255 bytes"),
        ({"brokers": "nowhere"}, "option brokers has 'nowhere': the address 'nowhere' is not host:port"),
        ({"brokers": ","}, "expected host:port"),
        ({"demandTimeout": "never"}, "option demandTimeout has 'never': expected a duration: 90s, 30m, 12h or 2d"),
        ({"demandTimeout": "0"}, "expected a duration"),
        ({"writer": "w", "version": "-1"}, "option version has '-1': expected a whole number of at least 0"),
        ({"writer": "w", "version": str(MAX_VERSION + 1)}, f"it is too large: at most {2**63 - 1}"),
        ({"writer": "w"}, "options writer and version go together"),
        ({"version": "1"}, "options writer and version go together"),
        ({"asyncProgressTrackingEnabled": "True"}, "asyncProgressTrackingEnabled cannot be used with this sink"),
        ({"token": "canary"}, "option token has a value: this is no token of a broker's"),
    ],
)
def test_a_wrong_option_is_named_with_what_was_expected(given: dict[str, str], said: str) -> None:
    with pytest.raises(OptionError) as caught:
        SinkOptions.parse(given)
    assert said in str(caught.value)


def test_a_streaming_query_has_no_writer_of_the_users() -> None:
    with pytest.raises(OptionError, match=r"options writer and version are for df\.write"):
        SinkOptions.parse({"queue": "q", "writer": "w", "version": "0"}).for_streaming()


OURS = {"queue", "brokers", "demandtimeout", "writer", "version"} | {
    name.lower() for option in ACCESS_OPTIONS for name in option.names
}
NOT_OURS = st.text(max_size=10).filter(lambda name: name.lower() not in OURS) | st.sampled_from(sorted(SPARKS_OWN))


@given(st.dictionaries(NOT_OURS, st.text(max_size=10), max_size=4))
def test_any_name_that_is_neither_ours_nor_sparks_is_an_error(given: dict[str, str]) -> None:
    if any(name.lower() == ASYNCHRONOUS and value.lower() == "true" for name, value in given.items()):
        with pytest.raises(OptionError, match="cannot be used with this sink"):
            SinkOptions.parse(given)
    elif {name.lower() for name in given} - SPARKS_OWN:
        with pytest.raises(OptionError, match="unknown option"):
            SinkOptions.parse(given)
    else:
        assert SinkOptions.parse(given) == SinkOptions()


BYTES, TEXT, NUMBER = BinaryType(), StringType(), IntegerType()


def struct(*columns: tuple[str, Any]) -> StructType:
    return StructType([StructField(name, kind) for name, kind in columns])


def headers(key: str, value: str, kind: Any = BYTES) -> tuple[str, Any]:
    return "headers", ArrayType(struct((key, TEXT), (value, kind)))


@pytest.mark.parametrize(
    "columns",
    [
        [("value", BYTES)],
        [("value", TEXT), ("key", TEXT)],
        [("key", BYTES), ("value", BYTES), headers("key", "value")],
        [("value", TEXT), headers("key", "value", TEXT)],
        [("value", TEXT), ("headers", MapType(TEXT, BYTES))],
        [("value", TEXT), ("headers", MapType(TEXT, TEXT)), ("queue", TEXT)],
    ],
)
def test_columns_that_a_message_has_can_be_written(columns: list[tuple[str, Any]]) -> None:
    check_sink_schema(struct(*columns), "q")
    # Which columns there are is what decides: each of these is refused with one that a message has not.
    with pytest.raises(SchemaError, match="a sink has no column 'id'"):
        check_sink_schema(struct(*columns, ("id", NUMBER)), "q")


@pytest.mark.parametrize(
    ("columns", "said"),
    [
        ([("value", TEXT), ("id", NUMBER)], "a sink has no column 'id'; it takes value (string or binary), key"),
        ([("key", TEXT)], "there is no column value; a sink takes value (string or binary)"),
        (
            [("value", NUMBER)],
            "column value is int; a sink takes string or binary: cast it, CAST(value AS STRING) for example",
        ),
        ([("value", TEXT), ("value", TEXT)], "column value appears twice"),
        ([("value", TEXT), ("key", NUMBER)], "column key is int; a sink takes string or binary"),
        ([("value", TEXT), ("queue", BYTES)], "column queue is binary; a sink takes string"),
        (
            [("value", TEXT), ("headers", ArrayType(TEXT))],
            "column headers is array<string>; a sink takes array<struct<",
        ),
        ([("value", TEXT), headers("k", "v")], "column headers is array<struct<k:string,v:binary>>; a sink takes"),
        ([("value", TEXT), headers("key", "value", NUMBER)], "column headers is array<struct<key:string,value:int>>"),
        ([("value", TEXT), ("headers", MapType(TEXT, NUMBER))], "column headers is map<string,int>"),
        ([("value", TEXT), ("headers", MapType(BYTES, TEXT))], "column headers is map<binary,string>"),
    ],
)
def test_other_columns_are_refused_with_what_a_sink_takes(columns: list[tuple[str, Any]], said: str) -> None:
    with pytest.raises(SchemaError) as caught:
        check_sink_schema(struct(*columns), "q")
    assert str(caught.value).startswith(said)


def test_rows_must_have_a_queue_to_go_to() -> None:
    with pytest.raises(OptionError, match="option queue is missing, and no column queue is there"):
        check_sink_schema(struct(("value", TEXT)), None)
