"""What the methods of AMQP count as in a connection's share of a turn."""

from __future__ import annotations

import pytest

from tests.transport.gateways.amqp.raw_amqp import HANDSHAKE, methods, published
from transport.gateways.amqp import basic_methods as basic
from transport.gateways.amqp import connection_methods as connection
from transport.gateways.amqp import entity_methods as entity
from transport.gateways.amqp.events import Published
from transport.gateways.amqp.method import Method
from transport.gateways.amqp.protocol import A_METHOD, A_PUBLISH, A_RETURN, MESSAGES_A_UNIT, UNITS, AmqpProtocol
from transport.gateways.amqp.publishing import LEAST_GROUP_MESSAGES, MAX_GROUP_MESSAGES


def protocol_with(data: bytes) -> AmqpProtocol:
    """One that has opened a channel, and received this."""
    protocol = AmqpProtocol()
    protocol.opened(131_072, 0)
    for part in (HANDSHAKE + methods(1, connection.ChannelOpen()), data):
        buffer = protocol.receiver.get_buffer()
        buffer[: len(part)] = part
        protocol.receiver.received(len(part))
        while part is not data and protocol.next_event(1) is not None:
            pass
    return protocol


def taken(protocol: AmqpProtocol) -> int:
    """How many messages the next event has."""
    event = protocol.next_event(1)
    assert isinstance(event, Published)
    return len(event.bodies)


@pytest.mark.parametrize(
    ("method", "units"),
    [
        (entity.QueueDeclare(queue="q"), UNITS[entity.QueueDeclare.INDEX]),
        (basic.BasicConsume(queue="q"), UNITS[basic.BasicConsume.INDEX]),
        (basic.BasicQos(), A_METHOD),
    ],
)
def test_a_method_counts_as_what_it_takes(method: Method, units: int) -> None:
    protocol = protocol_with(methods(1, method))
    assert protocol.next_event(1) is not None
    assert (protocol.work, protocol.due) == (units, units)
    assert units > 1


def test_messages_that_come_together_count_less_than_a_method_each() -> None:
    protocol = protocol_with(published("q", b"x" * 10) * LEAST_GROUP_MESSAGES * 64)
    groups = []
    while not groups or groups[-1] < MAX_GROUP_MESSAGES // 2:
        groups.append(taken(protocol))
        # Until it is known that queues take them, any may have to go back by itself.
        assert protocol.due == A_PUBLISH + A_RETURN * groups[-1]
    assert taken(protocol) == MAX_GROUP_MESSAGES
    assert protocol.due == A_PUBLISH + MAX_GROUP_MESSAGES // MESSAGES_A_UNIT
    assert protocol.due < MAX_GROUP_MESSAGES


def test_of_a_client_whose_messages_go_back_few_are_handled_at_a_time() -> None:
    protocol = protocol_with(published("q", b"x" * 10) * LEAST_GROUP_MESSAGES * 70)
    assert taken(protocol) == LEAST_GROUP_MESSAGES
    assert taken(protocol) == 2 * LEAST_GROUP_MESSAGES
    for _ in range(2):
        protocol.gave_back()
        assert taken(protocol) == LEAST_GROUP_MESSAGES
    assert [taken(protocol), taken(protocol)] == [2 * LEAST_GROUP_MESSAGES, 4 * LEAST_GROUP_MESSAGES]


def test_declarations_that_come_together_are_done_in_several_turns() -> None:
    protocol = protocol_with(methods(1, *(entity.QueueDeclare(queue=f"q{number}") for number in range(10))))
    share, done = 100, 0
    while share > 0 and protocol.next_event(share) is not None:
        share -= protocol.due
        done += 1
    assert done == 2
    assert protocol.receiver.waiting
