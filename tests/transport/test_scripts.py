"""`send` and `receive`, as scripts use them: without an event loop."""

from __future__ import annotations

import asyncio
import functools
import threading
from collections.abc import Iterator
from typing import Any, Self

import pytest

from transport import Administration, Backoff, Broker, BrokerConfig, ConnectionLostError, Message, receive, send
from transport.errors import LocalProtocolError, TransportError

SECONDS = 20.0
QUIET = 0.2
"""Long enough for what is on its way to come."""


class ServedBroker:
    """A broker in a thread of its own."""

    def __init__(self, **options: Any) -> None:
        self._options = options
        self._ready = threading.Event()
        self._thread = threading.Thread(target=lambda: asyncio.run(self._serve()))

    async def _serve(self) -> None:
        self._loop, self._over = asyncio.get_running_loop(), asyncio.Event()
        async with Broker(BrokerConfig("127.0.0.1:0", "127.0.0.1:0", **self._options)) as broker:
            self.send_address, self.receive_address = broker.send_address, broker.receive_address
            self._ready.set()
            await self._over.wait()

    def __enter__(self) -> Self:
        self._thread.start()
        assert self._ready.wait(SECONDS)
        return self

    def __exit__(self, *_: object) -> None:
        self._loop.call_soon_threadsafe(self._over.set)
        self._thread.join(SECONDS)


@pytest.fixture
def broker() -> Iterator[ServedBroker]:
    with ServedBroker(max_receives=5) as served:
        yield served


def left(broker: ServedBroker) -> dict[str, Any]:
    async def queues() -> list[dict[str, Any]]:
        async with Administration(broker.send_address) as administration:
            return await administration.queues()

    rows = asyncio.run(queues())
    found: dict[str, Any] = next((row for row in rows if row["name"] == "orders"), {"ready": 0})
    return found


def payloads(broker: ServedBroker) -> list[bytes]:
    """What is there, however long that takes, and what comes behind it."""
    ready = left(broker)["ready"]
    there = [delivery.payload for delivery in receive(broker.receive_address, "orders", limit=ready)] if ready else []
    return there + [delivery.payload for delivery in receive(broker.receive_address, "orders", idle_exit=QUIET)]


def test_what_is_sent_is_confirmed_and_comes_in_order_and_once(broker: ServedBroker) -> None:
    sent = [b"message %d" % number for number in range(1000)]
    assert send(broker.send_address, "orders", sent).messages == 1000
    assert payloads(broker) == sent
    assert payloads(broker) == []
    assert (left(broker)["ready"], left(broker)["in_flight"]) == (0, 0)


def test_messages_with_keys_and_headers_of_an_iterator_that_blocks(broker: ServedBroker) -> None:
    def written() -> Iterator[Message]:
        yield Message(b"a", key=b"k", headers={"h": "v"})
        assert threading.current_thread() is not threading.main_thread()
        yield Message(b"b")

    assert send(broker.send_address, "orders", written()).messages == 2
    first, second = receive(broker.receive_address, "orders", limit=2)
    assert (first.payload, first.key, first.headers) == (b"a", b"k", {"h": "v"})
    assert (second.payload, second.key, second.headers) == (b"b", None, {})


def test_the_end_of_an_iterator_is_seen_where_it_took_the_last_place_of_its_queue() -> None:
    with ServedBroker(max_queue_messages=1) as broker:
        assert send(broker.send_address, "orders", iter([b"a"]), timeout=SECONDS).messages == 1


def test_a_loop_that_is_left_gives_back_the_message_at_hand_as_failed_and_the_others_as_unseen(
    broker: ServedBroker,
) -> None:
    send(broker.send_address, "orders", [b"a", b"b", b"c"])

    def work() -> None:
        for delivery in receive(broker.receive_address, "orders"):
            assert delivery.payload != b"b"

    with pytest.raises(AssertionError):
        work()
    left_over = receive(broker.receive_address, "orders", limit=2)
    # The one at hand, and what was behind it: each was delivered to that loop, and once only.
    assert [(delivery.payload, delivery.delivery_count) for delivery in left_over] == [(b"b", 2), (b"c", 2)]
    assert payloads(broker) == []


def test_what_is_acknowledged_before_a_break_is_done(broker: ServedBroker) -> None:
    send(broker.send_address, "orders", [b"a", b"b"])
    for delivery in receive(broker.receive_address, "orders"):
        delivery.acknowledge()
        break
    assert payloads(broker) == [b"b"]


def test_a_message_that_the_body_rejects_comes_again_and_one_made_a_dead_letter_does_not(broker: ServedBroker) -> None:
    send(broker.send_address, "orders", [b"a", b"b", b"c"])
    seen: list[tuple[bytes, int]] = []
    for delivery in receive(broker.receive_address, "orders", idle_exit=QUIET):
        seen.append((delivery.payload, delivery.delivery_count))
        if delivery.payload == b"a" and delivery.delivery_count == 1:
            delivery.extend(30)
            delivery.reject()
        elif delivery.payload == b"b":
            delivery.dead_letter("not wanted")
    assert sorted(seen) == [(b"a", 1), (b"a", 2), (b"b", 1), (b"c", 1)]
    (letter,) = receive(broker.receive_address, "orders.dead", limit=1)
    assert letter.headers["penstock-dead-error"] == "not wanted"


def test_the_connection_lives_while_the_body_works_for_longer_than_a_silence_may_last() -> None:
    worked: list[bytes] = []
    with ServedBroker(heartbeat=0.05) as broker:
        send(broker.send_address, "orders", [b"a", b"b"])
        for delivery in receive(broker.receive_address, "orders", limit=2):
            threading.Event().wait(0.5)  # ten heartbeats
            worked.append(delivery.payload)
            assert not delivery.possibly_replayed
        assert worked == [b"a", b"b"]


def test_a_failure_of_the_connection_is_raised_from_the_loop(monkeypatch: Any) -> None:
    monkeypatch.setattr("transport.clients.backoff.Backoff.delay", lambda *_: 100.0)
    with pytest.raises(ConnectionLostError, match="no connection to the broker"):
        list(receive("127.0.0.1:1", "orders"))
    with pytest.raises(ConnectionLostError, match="no connection to the broker"):
        send("127.0.0.1:1", "orders", [b"a"])


def test_a_queue_that_stays_full_is_a_timeout_where_one_is_given() -> None:
    with ServedBroker(max_queue_messages=1) as broker:
        stored: list[bytes] = []
        for seconds in (0.3, 1.0, 3.0, 10.0):  # the first message may need more of it on a busy machine
            with pytest.raises(TimeoutError, match=rf"not all is confirmed by queue orders after {seconds:g} s"):
                send(broker.send_address, "orders", [b"a", b"b", b"c"], timeout=seconds)
            if stored := payloads(broker)[:1]:
                break
        assert stored == [b"a"]


def test_where_an_event_loop_runs_both_say_what_to_use_there() -> None:
    async def main() -> None:
        with pytest.raises(RuntimeError, match=r"send\(\) would block.*await Source"):
            send("127.0.0.1:1", "orders", [b"a"])
        with pytest.raises(RuntimeError, match=r"receive\(\) would block.*async for"):
            receive("127.0.0.1:1", "orders")

    asyncio.run(main())


def test_a_broker_that_is_not_there_is_an_error_and_not_an_idle_queue(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("transport.clients.receiver.Backoff", functools.partial(Backoff, give_up_after=0.5))
    with pytest.raises(ConnectionLostError, match="no connection to the broker"):
        list(receive("127.0.0.1:1", "orders", idle_exit=0.05))


@pytest.mark.parametrize("wrong", [{"idle_exit": 0}, {"prefetch": 0}])
def test_what_cannot_be_is_refused_at_the_call(wrong: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match="receive: prefetch="):
        receive("127.0.0.1:1", "orders", **wrong)


def test_one_message_in_the_place_of_a_list_is_refused() -> None:
    with pytest.raises(LocalProtocolError, match="messages is one bytes; give a list"):
        send("127.0.0.1:1", "orders", b"abc")  # type: ignore[arg-type]
    with pytest.raises(TransportError):
        receive("127.0.0.1:1", "no\nname")


def test_a_delivery_that_outlives_its_loop_cannot_be_answered_and_nothing_breaks(broker: ServedBroker) -> None:
    send(broker.send_address, "orders", [b"a"])
    (delivery,) = receive(broker.receive_address, "orders", limit=1)
    delivery.acknowledge()
    delivery.reject()
    assert payloads(broker) == []


def test_no_thread_is_left_behind(broker: ServedBroker) -> None:
    # Threads of other tests may live on: one that writes into a pipe nobody reads ends with the process alone.
    before = set(threading.enumerate())
    send(broker.send_address, "orders", [b"a", b"b"])
    deliveries = receive(broker.receive_address, "orders")
    assert next(deliveries).payload == b"a"
    deliveries.close()
    assert [thread.name for thread in threading.enumerate() if thread not in before] == []
