"""What waits on a channel, in the order in which it came, and what it takes."""

from __future__ import annotations

from transport.gateways.amqp import basic_methods as basic
from transport.gateways.amqp.errors import AmqpError
from transport.gateways.amqp.events import Published
from transport.gateways.amqp.postponed import METHOD_BYTES, Postponed
from transport.gateways.amqp.reply_codes import ReplyCode

METHOD = basic.BasicQos()
PUBLISHED = Published(1, [basic.BasicPublish()], [b"\0\0"], [b"12345"], 7)
ERROR = AmqpError(ReplyCode.NOT_FOUND, "no queue")


def test_what_waits_is_taken_in_order_and_counts_as_long_as_it_waits() -> None:
    later = Postponed()
    assert (later.count, later.bytes, later.fails) == (0, 0, False)
    later.put(METHOD)
    later.put(PUBLISHED)
    assert (later.count, later.bytes) == (2, METHOD_BYTES + 7)
    assert later.first is METHOD
    assert [later.take(), later.take()] == [METHOD, PUBLISHED]
    assert (later.count, later.bytes) == (0, 0)


def test_what_is_put_first_is_before_all_else() -> None:
    later = Postponed()
    later.put_first(PUBLISHED)
    later.put(METHOD)
    later.put_first(later.take())
    assert later.clear() == [PUBLISHED, METHOD]


def test_an_error_that_waits_is_behind_all_else_and_is_known() -> None:
    later = Postponed()
    later.put(METHOD)
    assert not later.fails
    later.put(ERROR)
    assert later.fails
    assert later.clear() == [METHOD, ERROR]
    assert (later.count, later.bytes, later.fails) == (0, 0, False)
    assert later.clear() == []
