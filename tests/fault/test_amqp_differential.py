"""The differential test of AMQP, short: RabbitMQ and a broker of ours agree; two that differ are told apart."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from benchmarks._rabbitmq_server import RabbitServer, missing
from tests.fault.amqp_differential import DifferenceError, Episode, differences
from tests.fault.amqp_sides import Side
from tests.fault.amqp_view import Operation
from tests.transport.gateways.amqp.conftest import AmqpBroker
from tests.transport.gateways.amqp.raw_amqp import RawClient, published
from transport.gateways.amqp import basic_methods as basic
from transport.gateways.amqp import entity_methods as entity

pytestmark = pytest.mark.timeout(300)
SEED = 17


@contextmanager
def sides(theirs: int, ours: int) -> Iterator[tuple[Side, Side]]:
    found = Side("theirs", theirs), Side("ours", ours)
    yield found
    for side in found:
        side.clear((), ())


@contextmanager
def two_of_ours() -> Iterator[tuple[int, int]]:
    with AmqpBroker("--http", "none") as one, one.drained(), AmqpBroker("--http", "none") as other, other.drained():
        yield one.port, other.port


def test_a_broker_agrees_with_another_of_its_kind() -> None:
    with two_of_ours() as (one, other):
        (episode,) = differences(one, other, SEED, iter([0]), 100)
    assert isinstance(episode, Episode), episode
    assert sum(episode.done.values()) > 100


def test_what_one_broker_does_otherwise_is_found_and_nothing_is_left_of_it() -> None:
    with two_of_ours() as (one, other), RawClient(other) as beforehand:
        # What nobody else knows of: a queue that is not what the first episode declares.
        beforehand.declare("d0-q0", durable=True, auto_delete=True)
        beforehand.declare("d0-q1", durable=True)
        beforehand.write(published("d0-q1") * 3)
        differs, agrees = differences(one, other, SEED, iter([0, 0]), 100)
    assert isinstance(differs, str)
    assert differs.startswith(f"--seed {SEED} --episode 0: the two differ")
    assert isinstance(agrees, Episode), agrees


@pytest.mark.parametrize(
    "operations",
    [
        [entity.QueueDeclare(queue="x-q", durable=True), basic.BasicGet(queue="x-q", no_ack=True)],
        [entity.QueueDeclare(queue="x-q", passive=True)],
        [entity.QueueDeclare(queue="x-q", durable=True), basic.BasicConsume(queue="x-q", consumer_tag="t")],
        [entity.QueuePurge(queue="x-q")],
    ],
    ids=["a message that is there", "a queue that is not there", "a delivery", "a count"],
)
def test_a_difference_is_found_where_it_is_seen_first(operations: list[entity.QueueDeclare]) -> None:
    with two_of_ours() as (one, other), RawClient(other) as beforehand, sides(one, other) as pair:
        beforehand.declare("x-q", durable=True)
        beforehand.write(published("x-q"))
        assert beforehand.ready("x-q") == 1
        episode = Episode(*pair, "0", "x-")
        with pytest.raises(DifferenceError, match="ours: "):
            episode.do_all(Operation(0, 1, method) for method in operations)


def test_rabbitmq_and_ours_give_the_same_for_random_operations(tmp_path: Path) -> None:
    if (lacking := missing()) is not None:
        pytest.skip(lacking)
    with (
        RabbitServer(tmp_path / "rabbitmq") as rabbit,
        AmqpBroker("--http", "none", "--data", str(tmp_path / "ours")) as broker,
        broker.drained(),
    ):
        found = list(differences(rabbit.port, broker.port, SEED, iter(range(2)), 100))
    assert [each for each in found if isinstance(each, str)] == []
