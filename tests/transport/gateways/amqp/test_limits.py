"""Limits that drop, and such as refuse to dead letters, as clients of RabbitMQ know them: ``x-overflow`` (docs/amqp.md)."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pika
import pytest
from pika.adapters.blocking_connection import BlockingChannel

from tests.transport.gateways.amqp.conftest import AmqpBroker

Named = Callable[[str], str]
SECONDS = 30


def connected(broker: AmqpBroker) -> pika.BlockingConnection:
    return pika.BlockingConnection(
        pika.ConnectionParameters("127.0.0.1", broker.port, blocked_connection_timeout=SECONDS)
    )


@pytest.fixture
def channel(broker: AmqpBroker) -> Iterator[BlockingChannel]:
    with connected(broker) as connection:
        yield connection.channel()


def bodies(channel: BlockingChannel, queue: str) -> list[bytes]:
    """What is ready in a queue, taken out."""
    found = []
    while (got := channel.basic_get(queue, auto_ack=True))[0] is not None:
        found.append(got[2])
    return found


def death_of(channel: BlockingChannel, queue: str) -> tuple[bytes, dict[str, Any]]:
    """The next message of a queue, taken out, and the last of its deaths without when it was."""
    for _, properties, body in channel.consume(queue, auto_ack=True, inactivity_timeout=SECONDS):
        assert properties is not None, f"nothing has come to {queue}"
        channel.cancel()
        death = dict(properties.headers["x-death"][0])
        del death["time"]
        return body, death
    raise AssertionError


@pytest.mark.parametrize("said", [{}, {"x-overflow": "drop-head"}], ids=["by default", "as is said"])
def test_a_queue_at_its_limit_drops_its_oldest_message(
    channel: BlockingChannel, named: Named, said: dict[str, Any]
) -> None:
    queue = named("newest")
    channel.queue_declare(queue, durable=True, arguments={"x-max-length": 3, **said})
    channel.confirm_delivery()
    for number in range(8):
        channel.basic_publish("", queue, b"%d" % number)
    assert channel.queue_declare(queue, passive=True).method.message_count == 3
    assert bodies(channel, queue) == [b"5", b"6", b"7"]


def test_what_a_consumer_holds_does_not_count_and_is_not_dropped(channel: BlockingChannel, named: Named) -> None:
    queue = named("held")
    channel.queue_declare(queue, arguments={"x-max-length": 2})
    channel.confirm_delivery()
    channel.basic_publish("", queue, b"held")
    method, _, body = channel.basic_get(queue)
    for number in range(4):
        channel.basic_publish("", queue, b"%d" % number)
    assert body == b"held"
    # It comes back to the head, which is over the limit.
    channel.basic_nack(method.delivery_tag, requeue=True)
    assert bodies(channel, queue) == [b"2", b"3"]


def test_a_limit_of_bytes_drops_as_many_as_make_room(channel: BlockingChannel, named: Named) -> None:
    queue = named("bytes")
    channel.queue_declare(queue, arguments={"x-max-length-bytes": 11_000})
    channel.confirm_delivery()
    # A batch counts for some hundred bytes more in memory, and for less on the disk.
    for letter in (b"a", b"b", b"c", b"d"):
        channel.basic_publish("", queue, letter * 1_000)
    channel.basic_publish("", queue, b"e" * 7_500)
    assert [body[:1] for body in bodies(channel, queue)] == [b"d", b"e"]
    # What is larger than the limit is dropped as it comes.
    channel.basic_publish("", queue, b"f" * 20_000)
    assert bodies(channel, queue) == []


def test_what_is_dropped_goes_to_the_dead_letter_exchange_and_says_so(channel: BlockingChannel, named: Named) -> None:
    queue, late, exchange = named("dropping"), named("late"), named("dlx")
    channel.exchange_declare(exchange, "fanout")
    channel.queue_declare(late)
    channel.queue_bind(late, exchange)
    channel.queue_declare(queue, arguments={"x-max-length": 1, "x-dead-letter-exchange": exchange})
    channel.confirm_delivery()
    for body in (b"old", b"new"):
        channel.basic_publish("", queue, body)
    expected = {"count": 1, "reason": "maxlen", "queue": queue, "exchange": "", "routing-keys": [queue]}
    assert death_of(channel, late) == (b"old", expected)
    assert bodies(channel, queue) == [b"new"]


def test_what_a_queue_refuses_to_dead_letters_is_nacked_and_a_dead_letter(
    channel: BlockingChannel, named: Named
) -> None:
    queue, late, exchange = named("refusing"), named("late"), named("dlx")
    arguments = {"x-max-length": 1, "x-overflow": "reject-publish-dlx", "x-dead-letter-exchange": exchange}
    channel.exchange_declare(exchange, "direct")
    channel.queue_declare(late)
    channel.queue_bind(late, exchange, "gone")
    channel.queue_declare(queue, arguments={**arguments, "x-dead-letter-routing-key": "gone"})
    channel.confirm_delivery()
    channel.basic_publish("", queue, b"first")
    with pytest.raises(pika.exceptions.NackError):
        channel.basic_publish("", queue, b"second")
    expected = {"count": 1, "reason": "maxlen", "queue": queue, "exchange": "", "routing-keys": [queue]}
    assert death_of(channel, late) == (b"second", expected)
    assert bodies(channel, queue) == [b"first"]


def test_many_that_are_refused_at_once_are_all_dead_letters_in_their_order(
    channel: BlockingChannel, named: Named
) -> None:
    queue, late = named("refusing"), named("late")
    arguments = {"x-max-length": 2, "x-overflow": "reject-publish-dlx", "x-dead-letter-exchange": ""}
    channel.queue_declare(late)
    channel.queue_declare(queue, arguments={**arguments, "x-dead-letter-routing-key": late})
    sent = [b"%d" % number for number in range(3_000)]
    for body in sent:
        channel.basic_publish("", queue, body)
    came: list[bytes] = []
    for method, _, body in channel.consume(late, auto_ack=True, inactivity_timeout=SECONDS):
        assert method is not None, f"{len(came)} have come"
        came.append(body)
        if len(came) == len(sent) - 2:
            break
    channel.cancel()
    assert came == sent[2:]
    assert bodies(channel, queue) == sent[:2]


def test_a_queue_that_refuses_to_dead_letters_and_has_no_place_for_them_only_refuses(
    channel: BlockingChannel, named: Named
) -> None:
    queue = named("refusing")
    channel.queue_declare(queue, arguments={"x-max-length": 1, "x-overflow": "reject-publish-dlx"})
    channel.confirm_delivery()
    channel.basic_publish("", queue, b"first")
    with pytest.raises(pika.exceptions.NackError):
        channel.basic_publish("", queue, b"second")
    assert bodies(channel, queue) == [b"first"]


def test_a_fanout_to_a_queue_that_drops_and_one_that_does_not_gives_each_its_own(
    channel: BlockingChannel, named: Named
) -> None:
    exchange, newest, everything = named("fanout"), named("newest"), named("all")
    channel.exchange_declare(exchange, "fanout")
    channel.queue_declare(newest, arguments={"x-max-length": 2})
    channel.queue_declare(everything)
    for queue in (newest, everything):
        channel.queue_bind(queue, exchange)
    sent = [b"%d" % number for number in range(50)]
    for body in sent:
        channel.basic_publish(exchange, "", body)
    assert bodies(channel, newest) == sent[-2:]
    assert bodies(channel, everything) == sent


@pytest.mark.parametrize("there", [None, "drop-head", "reject-publish", "reject-publish-dlx"])
@pytest.mark.parametrize("declared", [None, "drop-head", "reject-publish-dlx"])
def test_another_overflow_is_another_queue(
    channel: BlockingChannel, named: Named, there: str | None, declared: str | None
) -> None:
    queue = named("declared")

    def arguments(overflow: str | None) -> dict[str, Any]:
        return {"x-max-length": 5} | ({} if overflow is None else {"x-overflow": overflow})

    channel.queue_declare(queue, arguments=arguments(there))
    if there == declared:
        channel.queue_declare(queue, arguments=arguments(declared))
        return
    with pytest.raises(pika.exceptions.ChannelClosedByBroker) as caught:
        channel.queue_declare(queue, arguments=arguments(declared))

    def told(overflow: str | None) -> str:
        return "none" if overflow is None else f"the value '{overflow}' of type 'longstr'"

    present, said = told(there), told(declared)
    if there is not None and declared is not None:
        present, said = f"'{there}'", f"'{declared}'"
    text = f"PRECONDITION_FAILED - inequivalent arg 'x-overflow' for queue '{queue}' in vhost '/'"
    assert (caught.value.reply_code, caught.value.reply_text) == (
        406,
        f"{text}: received {said} but current is {present}",
    )


def test_a_queue_declared_natively_to_drop_is_found_by_a_limit_alone(
    channel: BlockingChannel, broker: AmqpBroker, named: Named
) -> None:
    queue = named("native")
    code, _, said = broker.run(
        "queue", "create", queue, "--max-messages", "2", "--max-bytes", "none", "--overflow", "drop-head"
    )
    assert code == 0, said
    channel.queue_declare(queue, durable=True, arguments={"x-max-length": 2})
    for number in range(3):
        channel.basic_publish("", queue, b"%d" % number)
    assert bodies(channel, queue) == [b"1", b"2"]


def test_what_was_dropped_stays_gone_behind_a_start(tmp_path: Path, named: Named) -> None:
    queue = named("newest")
    for first in (0, 10):
        with (
            AmqpBroker("--http", "none", "--data", str(tmp_path)) as broker,
            broker.drained(),
            connected(broker) as link,
        ):
            channel = link.channel()
            channel.queue_declare(queue, durable=True, arguments={"x-max-length": 4})
            channel.confirm_delivery()
            if first:
                assert channel.queue_declare(queue, passive=True).method.message_count == 4
            for number in range(first, first + 7):
                channel.basic_publish("", queue, b"%d" % number)
            if first:
                assert bodies(channel, queue) == [b"13", b"14", b"15", b"16"]
