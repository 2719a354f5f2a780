"""A cluster as one broker of a source: how it is written, how offsets name it, and a query whose leader is killed."""

from __future__ import annotations

import json
import pickle
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyspark.sql.streaming.datasource import ReadMaxRows

from spark_bridge import CheckpointError, OptionError, PenstockDataSource, acknowledge
from spark_bridge.offsets import OffsetFormat, Positions
from spark_bridge.options import SourceOptions
from spark_bridge.replicas import EXAMPLE, names_of, parse_replicas
from spark_bridge.schema import source_schema
from spark_bridge.sink_options import SinkOptions
from tests.spark_bridge.read_as_tasks import values
from tests.transport.cluster_members import Member
from transport import send

CLUSTER = ("a:9183", "b:9183", "c:9183")


def source(brokers: str) -> SourceOptions:
    return SourceOptions.parse({"queue": "q", "subscription": "s", "brokers": brokers})


@pytest.mark.parametrize(
    ("text", "known_by", "addresses"),
    [
        ("a:9183", ["a:9183"], [("a:9183",)]),
        (EXAMPLE, ["orders"], [CLUSTER]),
        ("A:9183 | b:9183|c:09183", ["a:9183|b:9183|c:9183"], [CLUSTER]),
        ("x:1, orders=a:9183|b:9183|c:9183,[::1]:2", ["x:1", "orders", "[::1]:2"], [("x:1",), CLUSTER, ("[::1]:2",)]),
        ("orders=a:9183", ["orders"], [("a:9183",)]),
        ("eu=a:1|b:1,us=c:1|d:1", ["eu", "us"], [("a:1", "b:1"), ("c:1", "d:1")]),
    ],
)
def test_a_cluster_is_one_broker_of_the_list_with_a_name_and_addresses(
    text: str, known_by: list[str], addresses: list[tuple[str, ...]]
) -> None:
    options = source(text)
    assert list(options.brokers) == known_by
    assert [options.addresses(each) for each in options.brokers] == addresses
    assert pickle.loads(pickle.dumps(options)) == options


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("a:1|b:1,c:1", "a:1|b:1 is one broker with several addresses, and there are others"),
        ("a:1|,b:1", "'a:1|' has an empty place where an address is to be"),
        ("orders=", "'' has an empty place where an address is to be"),
        ("=a:1", "'' is no name of a cluster"),
        ("or ders=a:1|b:1", "'or ders' is no name of a cluster"),
        ("a:1=b:1", "'a:1' is no name of a cluster"),
        (f"{'x' * 64}=b:1", "is no name of a cluster"),
        ("orders=a:1,orders=b:1", "orders is listed twice"),
        ("orders=a:1|b:1,a:1", "a:1 is listed twice; each broker is read once"),
        ("orders=a:1|a:1", "a:1 is listed twice"),
        ("orders=a|b:1", "the address 'a' is not host:port"),
        ("|".join(f"h{number}:1" for number in range(33)), "33 addresses of one broker are more than 32"),
    ],
)
def test_a_cluster_that_is_written_wrong_is_told_with_what_to_write(text: str, told: str) -> None:
    with pytest.raises(OptionError) as failure:
        source(text)
    assert "option brokers has" in str(failure.value)
    assert told in str(failure.value)


@given(st.text(alphabet="ab:19|,=.-[] ", max_size=30))
def test_whatever_is_written_is_brokers_with_addresses_each_once_or_an_error(text: str) -> None:
    parts = [part.strip() for part in text.split(",") if part.strip()]
    try:
        found = parse_replicas(parts)
    except ValueError:
        return
    listed = [address for addresses in found.values() for address in addresses]
    assert len(found) == len(parts)
    assert len(set(listed)) == len(listed)


def test_a_sink_takes_the_addresses_of_one_broker_in_either_way() -> None:
    def brokers(text: str) -> tuple[str, ...]:
        return SinkOptions.parse({"queue": "q", "brokers": text}).brokers

    assert (
        brokers("a:9182, b:9182") == brokers("a:9182|b:9182") == brokers("orders=a:9182|b:9182") == ("a:9182", "b:9182")
    )
    with pytest.raises(OptionError, match="a sink writes to one broker, and these are 2: eu, us"):
        brokers("eu=a:1|b:1,us=c:1")


def test_offsets_name_the_cluster_and_not_where_it_lives() -> None:
    both, moved = source("x:1,orders=a:1|b:1"), source("orders=far:1|away:1,x:1")
    made = {"orders": bytes(8), "x:1": b"\xff" * 8}
    text = json.dumps(OffsetFormat("s", "q", both.brokers).encode({"orders": 7, "x:1": 9}, made))
    assert text == json.dumps(
        {"s": "s", "q": "q", "id": {"orders": "0" * 16, "x:1": "f" * 16}, "pos": {"orders": 7, "x:1": 9}}
    )
    form = OffsetFormat("s", "q", moved.brokers, names_of(dict(moved.replicas)))
    assert json.dumps(form.encode(form.decode(json.loads(text)).at, made)) == text
    alone = source(EXAMPLE)
    offset = OffsetFormat("s", "q", alone.brokers).encode({"orders": 7}, made)
    assert offset == {"s": "s", "q": "q", "id": "0" * 16, "pos": 7}, "over one broker none is named, as ever"


def test_a_broker_that_becomes_a_cluster_keeps_its_position_and_two_that_cannot_be_one_do_not() -> None:
    before = OffsetFormat("s", "q", ("a:9183", "x:1")).encode({"a:9183": 7, "x:1": 9}, {"a:9183": bytes(8)})

    def read(text: str) -> Positions:
        options = source(text)
        return OffsetFormat("s", "q", options.brokers, names_of(dict(options.replicas))).decode(before)

    assert read(f"x:1,{EXAMPLE}") == Positions({"orders": 7, "x:1": 9}, "q", {"orders": bytes(8)})
    assert read("a:9183|b:9183").at == {"a:9183|b:9183": 7, "x:1": 9}
    # Two brokers of before are no one broker now: the reader refuses those that it does not know.
    assert read("orders=a:9183|x:1").at == {"a:9183": 7, "x:1": 9}


@pytest.fixture
def members(tmp_path: Path) -> Iterator[list[Member]]:
    with ExitStack() as stack:
        made = [stack.enter_context(Member()) for _ in range(3)]
        made[0].lead(str(tmp_path / "data"))
        made[2].follow(made[0])
        yield made


def test_a_query_goes_on_at_the_next_leader_with_the_same_offsets_and_so_do_its_tasks_and_a_frame(
    members: list[Member], tmp_path: Path
) -> None:
    first, second, third = members
    send(third.send, "q", [b"%d" % number for number in range(10)])
    options = {"queue": "q", "subscription": "s", "brokers": f"orders={third.receive}|{first.receive}"}
    reader = PenstockDataSource(options).streamReader(source_schema(include_headers=False))
    # What Spark sends to the executors, before anything is known of a leader.
    elsewhere = pickle.loads(pickle.dumps(reader))
    try:
        start = reader.initialOffset()
        end = reader.latestOffset(start, ReadMaxRows(4))
        planned = reader.partitions(start, end)
        assert [each.broker for each in planned] == ["orders"]
        first.kill()
        third.follow()
        second.lead(str(tmp_path / "data"))
        third.follow(second)
        rows = [row for task in planned for batch in elsewhere.read(task) for row in batch.column("value").to_pylist()]
        assert rows == values(reader, start, end) == [b"%d" % number for number in range(4)]
        reader.commit(end)
        following = reader.latestOffset(end, ReadMaxRows(100))
        assert (following["id"], following["pos"]) == (end["id"], 10)
        assert values(reader, end, following) == [b"%d" % number for number in range(4, 10)]
        reader.commit(following)
    finally:
        reader.stop()
    frame = PenstockDataSource(options | {"subscription": "nightly"}).reader(source_schema(include_headers=False))
    assert frame.partitions() == [], "all is acknowledged"
    assert acknowledge(queue="q", subscription="nightly", brokers=options["brokers"]) == 0


def test_a_name_that_a_checkpoint_has_and_the_option_has_not_ends_the_query(members: list[Member]) -> None:
    first = members[0]
    made = {"queue": "q", "subscription": "s", "brokers": f"orders={first.receive}"}
    reader = PenstockDataSource(made).streamReader(source_schema(include_headers=False))
    try:
        offset: dict[str, Any] = {"s": "s", "q": "q", "id": {}, "pos": {"orders": 0, "gone": 3}}
        with pytest.raises(CheckpointError, match="position 3 of broker gone, which option brokers no longer names"):
            reader.partitions(offset, offset)
    finally:
        reader.stop()
