"""The table of arguments, each said alone to RabbitMQ and to a broker of ours; and the generators say all that stands in it."""

from __future__ import annotations

from collections.abc import Iterator
from random import Random
from typing import Any

import pytest

from benchmarks._rabbitmq_server import missing
from tests.fault.amqp_arguments import BINDINGS, CONSUMERS, EXCHANGES, HEADERS, PROPERTIES, QUEUES, QUORUM, Argument
from tests.fault.amqp_coverage import Coverage, in_the_table
from tests.fault.amqp_differential import KINDS
from tests.fault.amqp_guest import beside_rabbitmq
from tests.fault.amqp_operations import beginnings
from tests.fault.amqp_peer import Heard
from tests.fault.amqp_sides import Side
from tests.fault.amqp_view import DEAD, Operation, View
from transport.gateways.amqp import basic_methods as basic
from transport.gateways.amqp import entity_methods as entity
from transport.gateways.amqp.method import Method
from transport.gateways.amqp.properties import Properties
from transport.gateways.amqp.tables import Table

pytestmark = pytest.mark.timeout(300)
VIEW = View("args-")
"""Nothing but names."""
EPISODES, OPERATIONS_OF_ONE = 240, 200


@pytest.fixture(scope="module")
def both(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Side, Side]]:
    if (lacking := missing()) is not None:
        pytest.skip(lacking)
    with beside_rabbitmq(tmp_path_factory.mktemp("arguments")) as (rabbit, broker):
        sides = Side("theirs", rabbit.port), Side("ours", broker.port)
        for side in sides:
            for operation in beginnings(VIEW):
                answer(side, operation.method)
        yield sides
        for side in sides:
            side.clear((), ())


def answer(side: Side, method: Method, properties: bytes = b"", *bodies: bytes) -> list[tuple[str, Any]]:
    """What a broker says to one method on the first channel: names, and of what it closes the code and the text."""
    operation = Operation(0, 1, method, properties, bodies)
    side.begin(operation)
    side.finish(operation)
    told = [_told(heard) for heard in side.events(0)]
    confirms = side.outcome().get("0.1 confirmed")
    side.forget_outcome()
    return told + ([("confirmed", confirms)] if confirms else [])


def _told(heard: Heard) -> tuple[str, Any]:
    if heard.name in ("channel.close", "connection.close"):
        return heard.name, (heard.facts["reply_code"], heard.facts["reply_text"])
    return heard.name, heard.facts


def is_refused(answers: list[tuple[str, Any]]) -> bool:
    return any(name == "channel.close" for name, _ in answers)


class Differing:
    """What two brokers have answered otherwise, or not as the table has it."""

    def __init__(self, sides: tuple[Side, Side]) -> None:
        self.found: list[str] = []
        self.asked = 0
        self._sides = sides

    def ask(self, what: str, right: bool, method: Method, properties: bytes = b"", *bodies: bytes) -> None:
        self.asked += 1
        theirs, ours = (answer(side, method, properties, *bodies) for side in self._sides)
        if theirs != ours or is_refused(theirs) == right:
            self.found.append(f"{what} ({'right' if right else 'wrong'}):\n  theirs {theirs}\n  ours   {ours}")

    def do(self, *methods: Method) -> None:
        for method in methods:
            for side in self._sides:
                answer(side, method)


def alone(rows: tuple[Argument, ...]) -> Iterator[tuple[str, Any, bool]]:
    """Each value of these by itself, and whether it is right."""
    for row in rows:
        for values, right in ((row.right, True), (row.wrong, False)):
            for value in values:
                yield row.name, VIEW.named(DEAD) if value == DEAD else value, right


def test_a_queue_is_declared_with_each_argument_alone(both: tuple[Side, Side]) -> None:
    differing = Differing(both)
    queue = VIEW.named("q0")
    for row in QUEUES:
        for name, value, right in alone((row,)):
            for kind in row.kinds:
                arguments = ({"x-queue-type": QUORUM} if kind == QUORUM else {}) | {name: value}
                method = entity.QueueDeclare(queue=queue, durable=True, arguments=Table.of(arguments))
                differing.ask(f"{kind} {arguments}", right, method)
                # What it was declared with it is declared with again; and it is another without that.
                differing.do(entity.QueueDelete(queue=queue))
    assert differing.asked > 300
    assert not differing.found, "\n".join(differing.found)


def test_a_queue_is_another_where_one_argument_is(both: tuple[Side, Side]) -> None:
    differing = Differing(both)
    for number, row in enumerate(QUEUES):
        if not row.right:
            continue
        queue = VIEW.named(f"again-{number}")
        kind = {"x-queue-type": QUORUM} if row.kinds == (QUORUM,) else {}
        _, value, _ = next(alone((row,)))
        said = kind | {row.name: value}
        others = [kind, *(kind | {row.name: said} for _, said, _ in alone((row,)))]
        differing.do(entity.QueueDeclare(queue=queue, durable=True, arguments=Table.of(said)))
        for other in others:
            method = entity.QueueDeclare(queue=queue, durable=True, arguments=Table.of(other))
            theirs, ours = (answer(side, method) for side in both)
            if theirs != ours:
                differing.found.append(f"{said} as {other}:\n  theirs {theirs}\n  ours   {ours}")
        differing.do(entity.QueueDelete(queue=queue))
    assert not differing.found, "\n".join(differing.found)


def test_an_exchange_is_declared_with_each_argument_alone(both: tuple[Side, Side]) -> None:
    differing = Differing(both)
    exchange = VIEW.named("e0")
    for name, value, right in alone(EXCHANGES):
        method = entity.ExchangeDeclare(exchange=exchange, type="direct", arguments=Table.of({name: value}))
        differing.ask(f"{name} {value}", right, method)
        differing.do(entity.ExchangeDelete(exchange=exchange))
    assert not differing.found, "\n".join(differing.found)


def test_a_queue_is_bound_with_each_argument_alone(both: tuple[Side, Side]) -> None:
    differing = Differing(both)
    for exchange in ("amq.headers", "amq.direct"):
        for name, value, right in alone(BINDINGS):
            if right or exchange == "amq.headers":
                said = {
                    "queue": VIEW.named(DEAD),
                    "exchange": exchange,
                    "arguments": Table.of({name: value, "size": 1}),
                }
                differing.ask(f"{exchange} {name} {value}", right, entity.QueueBind(**said))
                differing.do(entity.QueueUnbind(**said))
    assert not differing.found, "\n".join(differing.found)


def test_a_consumer_comes_with_each_argument_alone(both: tuple[Side, Side]) -> None:
    differing = Differing(both)
    for name, value, right in alone(CONSUMERS):
        method = basic.BasicConsume(queue=VIEW.named(DEAD), consumer_tag="t", arguments=Table.of({name: value}))
        differing.ask(f"{name} {value}", right, method)
        differing.do(basic.BasicCancel(consumer_tag="t"))
    assert not differing.found, "\n".join(differing.found)


def test_a_message_is_published_with_each_header_and_property_alone(both: tuple[Side, Side]) -> None:
    differing = Differing(both)
    queue = VIEW.named("q1")
    differing.do(entity.QueueDeclare(queue=queue, durable=True))
    headers = [(name, {"headers": Table.of({name: value})}, right) for name, value, right in alone(HEADERS)]
    properties = [(name, {name: value}, right) for name, value, right in alone(PROPERTIES)]
    for name, said, right in headers + properties:
        raw = Properties.of(**said).raw
        differing.do(basic.ConfirmSelect())
        for side in both:
            side.confirms((0, 1))
        differing.ask(f"{name} {said}", right, basic.BasicPublish(routing_key=queue), raw, b"m")
        for _ in range(2):
            # There is none where it was refused, and not two.
            differing.ask(f"{name} {said}, got", True, basic.BasicGet(queue=queue, no_ack=True))
    assert not differing.found, "\n".join(differing.found)


def generated() -> Coverage:
    """What so many episodes say, where every declaration is taken and nothing else comes."""
    seen = Coverage()
    for number in range(EPISODES):
        view = View(f"dry{number}-")
        coverage = Coverage()
        operations = KINDS[number % len(KINDS)](Random(number), view)
        for _ in range(OPERATIONS_OF_ONE):
            operation = operations.next()
            coverage.saw(operation, view)
            view.expect(operation)
            gone = isinstance(operation.method, entity.QueueDelete)
            probed = {f"queue {operation.method.queue}": "NOT_FOUND"} if gone else {}
            view.follow(operation, {operation.session: _answered(operation)}, probed)
        seen.update(coverage)
    return seen


def _answered(operation: Operation) -> list[Heard]:
    method = operation.method
    if isinstance(method, entity.QueueDeclare) and not method.passive:
        return [Heard(operation.channel, "queue.declare-ok", {"queue": method.queue or "gen-1"})]
    if isinstance(method, basic.BasicConsume):
        return [Heard(operation.channel, "basic.consume-ok", {"consumer_tag": method.consumer_tag or "ctag-1"})]
    return []


def test_each_line_of_the_table_is_generated_alone_and_together() -> None:
    seen = generated()
    assert seen.missing() == []
    assert seen.missing_together() == []
    assert len(set(in_the_table())) > 400


def test_what_is_not_generated_is_missed() -> None:
    seen = Coverage()
    assert set(seen.missing()) == set(in_the_table())
    view = View("x-")
    arguments = Table.of({"x-max-length": 3, "x-message-ttl": 3_600_000, "x-max-length-bytes": 14_000})
    seen.saw(Operation(0, 1, entity.QueueDeclare(queue="x-q", arguments=arguments)), view)
    lacked = len(seen.missing_together())
    assert len(set(in_the_table())) - len(set(seen.missing())) == 3
    seen.saw(Operation(0, 1, basic.BasicPublish(routing_key="x-q"), b"\0\0", (b"m",)), view)
    assert len(seen.missing_together()) == lacked - 1
