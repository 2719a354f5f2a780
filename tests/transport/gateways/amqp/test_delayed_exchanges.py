"""Exchanges of the type x-delayed-message, as pika's users have them with RabbitMQ's plugin (docs/amqp.md)."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from decimal import Decimal
from functools import partial
from pathlib import Path
from typing import Any

import pika
import pytest
from pika.adapters.blocking_connection import BlockingChannel
from pika.exceptions import ChannelClosedByBroker, UnroutableError

from tests.transport.gateways.amqp.conftest import AmqpBroker
from tests.transport.gateways.amqp.peers import SECONDS, lasting
from tests.transport.gateways.amqp.test_pika import Named, bodies, connected, consumed

KIND = "x-delayed-message"
LONG = 3_600_000
"""Milliseconds after which every test is over;"""
SHORT = 150
"""and those that one waits for."""
TOLERANCE = 0.002
"""Seconds that a clock in milliseconds may be off."""


@pytest.fixture
def channel(broker: AmqpBroker) -> Iterator[BlockingChannel]:
    with connected(broker) as connection:
        yield connection.channel()


@pytest.fixture
def exchange(channel: BlockingChannel, named: Named) -> str:
    """A direct one."""
    return declared(channel, named("later"))


def declared(channel: BlockingChannel, name: str, inner: str = "direct", **arguments: Any) -> str:
    channel.exchange_declare(name, KIND, durable=True, arguments={"x-delayed-type": inner, **arguments})
    return name


def bound(channel: BlockingChannel, name: str, exchange: str, key: str = "k", **arguments: Any) -> str:
    channel.queue_declare(name, durable=True)
    channel.queue_bind(name, exchange, key, arguments or None)
    return name


def publish(channel: BlockingChannel, exchange: str, wait: Any, body: bytes, key: str = "k", **properties: Any) -> None:
    """Have a message wait; None for one that says nothing."""
    said = properties.pop("headers", {}) | ({} if wait is None else {"x-delay": wait})
    channel.basic_publish(exchange, key, body, pika.BasicProperties(headers=said or None, **properties))


def shown(broker: AmqpBroker, exchange: str) -> dict[str, Any]:
    code, out, told = broker.run("exchange show", exchange, "--json")
    assert code == 0, told
    found: dict[str, Any] = json.loads(out)["exchange"]
    return found


def refused(does: Callable[[], object]) -> tuple[int, str]:
    with pytest.raises(ChannelClosedByBroker) as caught:
        does()
    return caught.value.reply_code, caught.value.reply_text


def test_messages_come_in_the_order_of_their_waits_each_not_before_and_say_that_they_have_waited(
    channel: BlockingChannel, exchange: str, named: Named
) -> None:
    queue = bound(channel, named("q"), exchange)
    for apart in (100, 1_000, 5_000):  # what is due at once, on a machine that stood still, comes as it was published
        waits = [apart * times for times in (5, 1, 3, 2, 4)]
        began = time.time()
        for wait in waits:
            publish(channel, exchange, wait, str(wait).encode(), headers={"own": "x"}, content_type="a/b")
        came = []
        for _, properties, body in channel.consume(queue, auto_ack=True, inactivity_timeout=SECONDS):
            came.append(int(body))
            assert time.time() - began >= int(body) / 1000 - TOLERANCE
            assert properties.headers == {"own": "x", "x-delay": -int(body)}
            assert properties.content_type == "a/b"
            if len(came) == 5:
                break
        channel.cancel()
        if came == sorted(waits):
            break
    assert came == sorted(waits)


@pytest.mark.parametrize("wait", [None, 0, -7, True, "-3", Decimal("0.5")])
def test_what_says_nothing_of_a_wait_or_none_above_zero_is_routed_at_once_as_it_is(
    channel: BlockingChannel, exchange: str, named: Named, wait: Any
) -> None:
    channel.confirm_delivery()
    queue = bound(channel, named("q"), exchange)
    publish(channel, exchange, wait, b"now")
    method, properties, body = channel.basic_get(queue, auto_ack=True)
    assert (method.exchange, method.routing_key, body) == (exchange, "k", b"now")
    assert (properties.headers or {}).get("x-delay") == wait


@pytest.mark.parametrize("wait", [SHORT, 2**31 // 1000, str(SHORT), Decimal(f"{SHORT}.9")])
def test_integers_texts_and_fractions_are_waits(
    broker: AmqpBroker, channel: BlockingChannel, exchange: str, named: Named, wait: Any
) -> None:
    channel.confirm_delivery()
    queue = bound(channel, named("q"), exchange)
    publish(channel, exchange, wait, b"later")
    if int(wait) > SHORT:
        assert shown(broker, exchange)["waiting"] == 1
        return
    (_, properties, body), *_ = consumed(channel, queue, 1)
    assert (properties.headers["x-delay"], body) == (-SHORT, b"later")


@pytest.mark.parametrize(
    ("wait", "why"),
    [
        ("soon", "the header x-delay is 'soon': it is a whole number of milliseconds"),
        (10**15, f"the header x-delay is {10**15} milliseconds: a message waits for at most"),
    ],
)
def test_a_wait_that_cannot_be_closes_the_channel_and_nothing_is_stored(
    broker: AmqpBroker, channel: BlockingChannel, exchange: str, named: Named, wait: Any, why: str
) -> None:
    queue = bound(channel, named("q"), exchange)
    channel.confirm_delivery()
    code, text = refused(lambda: publish(channel, exchange, wait, b"never"))
    assert code == 406
    assert why in text
    assert shown(broker, exchange)["waiting"] == 0
    assert bodies(channel.connection.channel(), queue) == []


INNER = {
    "direct": (("k",), {}, "k", {}, "other", {}),
    "fanout": (("",), {}, "anything", {}, None, {}),
    "topic": (("a.*", "#.c"), {}, "a.c", {}, "b", {}),
    "headers": (("",), {"x-match": "all", "colour": "red"}, "", {"colour": "red"}, "", {"colour": "blue"}),
}


@pytest.mark.parametrize("inner", INNER)
def test_what_has_waited_is_routed_by_the_inner_type(channel: BlockingChannel, named: Named, inner: str) -> None:
    keys, arguments, key, headers, other, other_headers = INNER[inner]
    exchange, rest = declared(channel, named("later"), inner, **{"alternate-exchange": "amq.fanout"}), named("rest")
    channel.queue_declare(rest, exclusive=True)
    channel.queue_bind(rest, "amq.fanout")
    queue = named("q")
    for each in keys:
        bound(channel, queue, exchange, each, **arguments)
    publish(channel, exchange, SHORT, b"yes", key, headers=dict(headers))
    if other is not None:
        publish(channel, exchange, SHORT, b"no", other, headers=dict(other_headers))
        (_, properties, body), *_ = consumed(channel, rest, 1, auto_ack=True)
        assert (body, properties.headers["x-delay"]) == (b"no", -SHORT), "its alternate has it when it has waited"
        channel.cancel()
    (method, _, body), *_ = consumed(channel, queue, 1, auto_ack=True)
    assert (method.exchange, method.routing_key, body) == (exchange, key, b"yes"), "once, whatever bindings lead to it"
    assert bodies(channel, queue) == []


def test_bindings_count_as_they_are_when_a_message_has_waited(
    broker: AmqpBroker, channel: BlockingChannel, exchange: str, named: Named
) -> None:
    channel.confirm_delivery()
    for wait in (1_000, 4_000, 16_000):
        before, after = bound(channel, named(f"before-{wait}"), exchange), named(f"after-{wait}")
        publish(channel, exchange, wait, b"m")
        channel.queue_unbind(before, exchange, "k")
        bound(channel, after, exchange)
        # On a busy machine its time may be over before all that is done: then it is seen once more, with a longer one.
        if (waiting := shown(broker, exchange)["waiting"]) == 1:
            break
        channel.queue_unbind(after, exchange, "k")
    assert waiting == 1
    assert [body for *_, body in consumed(channel, after, 1)] == [b"m"]
    assert bodies(channel, before) == []
    assert shown(broker, exchange)["waiting"] == 0


def test_messages_wait_where_an_exchange_leads_to_one_that_has_them_wait_and_nowhere_else(
    channel: BlockingChannel, exchange: str, named: Named
) -> None:
    front, at_once, behind = named("front"), named("at-once"), named("behind")
    channel.exchange_declare(front, "fanout")
    channel.exchange_declare(behind, "fanout")
    channel.exchange_bind(exchange, front)
    channel.exchange_bind(behind, exchange, "k")
    bound(channel, at_once, front, "")
    late = bound(channel, named("late"), behind, "")
    channel.confirm_delivery()
    began = time.time()
    publish(channel, front, SHORT, b"m")
    _, properties, _ = channel.basic_get(at_once, auto_ack=True)
    assert properties.headers == {"x-delay": SHORT}, "where it does not wait it is as it was"
    (method, properties, _), *_ = consumed(channel, late, 1)
    assert time.time() - began >= SHORT / 1000 - TOLERANCE
    assert (method.exchange, properties.headers) == (front, {"x-delay": -SHORT}), "where it was published"


def test_behind_one_wait_a_message_waits_at_no_other_exchange(
    channel: BlockingChannel, exchange: str, named: Named
) -> None:
    second = declared(channel, named("second"))
    channel.exchange_bind(second, exchange, "k")
    queue = bound(channel, named("q"), second)
    publish(channel, exchange, SHORT, b"m")
    (_, properties, _), *_ = consumed(channel, queue, 1)
    assert properties.headers == {"x-delay": -SHORT}


def test_mandatory_holds_for_what_does_not_wait_alone(
    broker: AmqpBroker, channel: BlockingChannel, exchange: str
) -> None:
    channel.confirm_delivery()
    waits = pika.BasicProperties(headers={"x-delay": LONG})
    channel.basic_publish(exchange, "nobody", b"later", waits, mandatory=True)
    with pytest.raises(UnroutableError):
        channel.basic_publish(exchange, "nobody", b"now", mandatory=True)
    assert shown(broker, exchange)["waiting"] == 1


def test_what_no_queue_takes_behind_its_wait_is_counted_and_dropped(
    broker: AmqpBroker, channel: BlockingChannel, exchange: str, named: Named
) -> None:
    queue = bound(channel, named("q"), exchange)
    publish(channel, exchange, 1, b"lost", "nobody")
    publish(channel, exchange, SHORT, b"m")
    assert [body for *_, body in consumed(channel, queue, 1)] == [b"m"]
    found = shown(broker, exchange)
    assert (found["waiting"], found["published"], found["unroutable"]) == (0, 2, 1)


def test_an_expiration_counts_from_the_end_of_the_wait(channel: BlockingChannel, exchange: str, named: Named) -> None:
    dead = named("dead")
    channel.queue_declare(dead)
    channel.queue_declare(
        named("q"), arguments={"x-dead-letter-exchange": "", "x-dead-letter-routing-key": dead, "x-max-priority": 5}
    )
    channel.queue_bind(named("q"), exchange, "k")
    publish(channel, exchange, 2 * SHORT, b"m", expiration="50")
    (_, properties, body), *_ = consumed(channel, dead, 1)
    death = properties.headers["x-death"][0]
    assert (body, death["reason"], death["queue"]) == (b"m", "expired", named("q"))
    assert (death["original-expiration"], properties.headers["x-delay"]) == ("50", -2 * SHORT)


def test_priorities_hold_behind_the_wait(
    broker: AmqpBroker, channel: BlockingChannel, exchange: str, named: Named
) -> None:
    queue = named("q")
    channel.queue_declare(queue, arguments={"x-max-priority": 5})
    channel.queue_bind(queue, exchange, "k")
    channel.confirm_delivery()
    for priority in (1, 4, 2):
        publish(channel, exchange, SHORT, str(priority).encode(), priority=priority)
    broker.until(queue, lambda figures: figures["ready"] == 3)
    assert bodies(channel, queue) == [b"4", b"2", b"1"]


def test_further_routing_keys_count_behind_the_wait(channel: BlockingChannel, exchange: str, named: Named) -> None:
    queues = [bound(channel, named(key), exchange, key) for key in ("k", "copy")]
    publish(channel, exchange, SHORT, b"m", headers={"CC": ["copy"]})
    for queue in queues:
        (method, properties, body), *_ = consumed(channel, queue, 1, auto_ack=True)
        channel.cancel()
        assert (body, method.routing_key, properties.headers["CC"]) == (b"m", "k", ["copy"])


def test_a_dead_letter_waits_at_its_exchange_once(channel: BlockingChannel, exchange: str, named: Named) -> None:
    work = named("work")
    channel.queue_declare(work, arguments={"x-dead-letter-exchange": exchange, "x-dead-letter-routing-key": "k"})
    channel.queue_bind(work, exchange, "k")
    channel.basic_publish("", work, b"m", pika.BasicProperties(headers={"x-delay": SHORT}))
    (method, properties, _), *_ = consumed(channel, work, 1)
    assert properties.headers == {"x-delay": SHORT}
    began = time.time()
    channel.basic_nack(method.delivery_tag, requeue=False)
    (method, properties, _), *_ = consumed(channel, work, 1)
    assert time.time() - began >= SHORT / 1000 - TOLERANCE
    assert (properties.headers["x-delay"], properties.headers["x-death"][0]["count"]) == (-SHORT, 1)


def test_what_a_transaction_publishes_waits_when_it_is_committed(
    broker: AmqpBroker, channel: BlockingChannel, exchange: str, named: Named
) -> None:
    queue = bound(channel, named("q"), exchange)
    channel.tx_select()
    began = time.time()
    publish(channel, exchange, SHORT, b"m")
    publish(channel, exchange, LONG, b"long")
    publish(channel, exchange, None, b"now")
    channel.tx_commit()
    assert [body for *_, body in consumed(channel, queue, 2)] == [b"now", b"m"]
    assert time.time() - began >= SHORT / 1000 - TOLERANCE
    assert shown(broker, exchange)["waiting"] == 1


def test_a_full_queue_holds_back_what_is_due_and_loses_none_of_it(
    broker: AmqpBroker, channel: BlockingChannel, exchange: str, named: Named
) -> None:
    queue = named("q")
    channel.queue_declare(queue, arguments={"x-max-length": 1, "x-overflow": "reject-publish"})
    channel.queue_bind(queue, exchange, "k")
    channel.confirm_delivery()
    for number in range(3):
        publish(channel, exchange, 1 + number, b"%d" % number)
    broker.until(queue, lambda figures: figures["ready"] == 1)
    assert shown(broker, exchange)["waiting"] == 2
    assert [body for *_, body in consumed(channel, queue, 3, auto_ack=True)] == [b"0", b"1", b"2"]
    assert shown(broker, exchange)["waiting"] == 0


# Declarations.


@pytest.mark.parametrize(
    ("arguments", "why"),
    [
        ({}, "Invalid argument, 'x-delayed-type' must be an existing exchange type"),
        ({"x-delayed-type": 5}, "Invalid argument, 'x-delayed-type' must be an existing exchange type"),
        ({"x-delayed-type": KIND}, f"Invalid argument, '{KIND}' can't be used for 'x-delayed-type'"),
        ({"x-delayed-type": "x-odd"}, "unknown exchange type 'x-odd'"),
    ],
)
def test_an_inner_type_that_is_missing_or_none_is_refused_with_the_plugins_words(
    broker: AmqpBroker, channel: BlockingChannel, named: Named, arguments: dict[str, Any], why: str
) -> None:
    said = refused(lambda: channel.exchange_declare(named("bad"), KIND, arguments=arguments))
    assert said == (406, f"PRECONDITION_FAILED - {why}")
    assert refused(lambda: channel.connection.channel().exchange_declare(named("bad"), passive=True))[0] == 404


def test_it_is_declared_again_as_it_is_and_not_with_another_type(
    channel: BlockingChannel, exchange: str, named: Named
) -> None:
    declared(channel, exchange)
    channel.exchange_declare(exchange, passive=True)
    code, text = refused(lambda: declared(channel, exchange, "topic"))
    assert code == 406
    assert text.endswith(
        f"inequivalent arg 'x-delayed-type' for exchange '{exchange}' in vhost '/': received 'topic' but current is 'direct'"
    )
    other = channel.connection.channel()
    assert "inequivalent arg 'type'" in refused(lambda: other.exchange_declare(exchange, "direct", durable=True))[1]


def test_what_waits_goes_with_its_exchange(
    broker: AmqpBroker, channel: BlockingChannel, exchange: str, named: Named
) -> None:
    channel.confirm_delivery()
    publish(channel, exchange, LONG, b"m")
    assert shown(broker, exchange)["waiting"] == 1
    channel.exchange_delete(exchange)
    declared(channel, exchange)
    assert shown(broker, exchange)["waiting"] == 0
    publish(channel, exchange, LONG, b"m")
    assert shown(broker, exchange)["waiting"] == 1


def test_an_exchange_that_goes_with_its_last_binding_takes_what_waits_with_it(
    broker: AmqpBroker, channel: BlockingChannel, named: Named
) -> None:
    exchange, arguments = named("later"), {"x-delayed-type": "fanout"}
    channel.exchange_declare(exchange, KIND, auto_delete=True, arguments=arguments)
    queue = bound(channel, named("q"), exchange)
    channel.confirm_delivery()
    publish(channel, exchange, LONG, b"m")
    channel.queue_delete(queue)
    assert broker.run("exchange show", exchange)[0] != 0
    channel.exchange_declare(exchange, KIND, auto_delete=True, arguments=arguments)
    assert shown(broker, exchange)["waiting"] == 0


def test_nobody_comes_to_what_waits_but_through_its_exchange(
    broker: AmqpBroker, channel: BlockingChannel, exchange: str, named: Named
) -> None:
    channel.confirm_delivery()
    publish(channel, exchange, LONG, b"m")
    place = f"{exchange} delayed"
    letters = {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": place}
    with pytest.raises(UnroutableError):
        channel.basic_publish("", place, b"in", mandatory=True)
    for does in (
        lambda each: each.basic_get(place),
        lambda each: each.queue_declare(place),
        lambda each: each.queue_declare(place, passive=True),
        lambda each: each.queue_purge(place),
        lambda each: each.queue_delete(place),
        lambda each: each.queue_bind(place, "amq.fanout"),
        lambda each: each.queue_declare(named("q"), arguments=letters),
    ):
        with connected(broker) as connection:
            code, _ = refused(partial(does, connection.channel()))
            assert code in (404, 406), does
    _, out, _ = broker.run("queue list", "--json")
    assert place not in out.decode()
    assert shown(broker, exchange)["waiting"] == 1


# Restarts.


def test_what_waits_comes_once_and_not_before_its_time_though_the_broker_is_killed(tmp_path: Path) -> None:
    waits, transacted = [*range(0, 4_000, 50)], [1_001, 4_001]
    with lasting(tmp_path / "data") as broker:
        with connected(broker.running) as connection:
            channel = connection.channel()
            declared(channel, "later", "topic")
            bound(channel, "q", "later", "k.#")
            channel.exchange_declare("passing", KIND, arguments={"x-delayed-type": "fanout"})
            channel.confirm_delivery()
            published = {}
            for wait in waits:
                published[wait] = time.time()
                publish(channel, "later", wait, b"%d" % wait, "k.1", delivery_mode=2)
            transaction = connection.channel()
            transaction.tx_select()
            for wait in transacted:
                published[wait] = time.time()
                publish(transaction, "later", wait, b"%d" % wait, "k.2")
            transaction.tx_commit()
            publish(channel, "passing", LONG, b"gone")
        for _ in range(3):
            broker.restart()
        with connected(broker.running) as connection:
            channel = connection.channel()
            came: dict[int, float] = {}
            for method, properties, body in channel.consume("q", inactivity_timeout=SECONDS):
                assert method is not None, f"only {len(came)} came"
                wait = int(body)
                assert wait not in came, "twice"
                came[wait] = time.time()
                assert came[wait] - published[wait] >= wait / 1000 - TOLERANCE
                assert properties.headers == {"x-delay": -wait if wait else 0}
                channel.basic_ack(method.delivery_tag)
                if len(came) == len(published):
                    break
            assert sorted(came) == sorted(published)
            assert bodies(channel, "q") == []
            assert shown(broker.running, "later")["waiting"] == 0
            assert refused(lambda: channel.exchange_declare("passing", passive=True))[0] == 404


def test_what_is_due_while_the_broker_is_down_comes_when_it_is_back_to_what_is_bound(tmp_path: Path) -> None:
    with lasting(tmp_path / "data") as broker:
        with connected(broker.running) as connection:
            channel = connection.channel()
            declared(channel, "later")
            bound(channel, "q", "later")
            channel.confirm_delivery()
            publish(channel, "later", 2 * SHORT, b"due")
            publish(channel, "later", LONG, b"not yet")
        broker.restart()
        with connected(broker.running) as connection:
            channel = connection.channel()
            assert [body for *_, body in consumed(channel, "q", 1)] == [b"due"]
            assert shown(broker.running, "later")["waiting"] == 1
