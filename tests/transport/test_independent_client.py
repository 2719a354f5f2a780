"""A broker as a client sees it that knows docs/protocol.md and nothing of our code."""

from __future__ import annotations

import asyncio
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from tests.transport.programs import BrokerProcess

SECONDS = 10.0
Address = tuple[str, str]


class BrokerThread:
    """A broker on a loop of its own: the client blocks."""

    def __init__(self, broker: Any) -> None:
        self._broker = broker
        self._started = threading.Event()
        self._stop: asyncio.Event
        self._loop: asyncio.AbstractEventLoop
        self.send_address = ""
        self.receive_address = ""
        self._thread = threading.Thread(target=lambda: asyncio.run(self._main()), name="broker")
        self._thread.start()
        assert self._started.wait(SECONDS)

    async def _main(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._stop = asyncio.Event()
        async with self._broker as broker:
            self.send_address, self.receive_address = broker.send_address, broker.receive_address
            self._started.set()
            await self._stop.wait()

    def jump(self, jump: Callable[[float], None], seconds: float) -> None:
        """Have the broker's clock go on by so much."""

        async def there() -> None:
            jump(seconds)

        asyncio.run_coroutine_threadsafe(there(), self._loop).result(SECONDS)

    def stop(self) -> None:
        self._loop.call_soon_threadsafe(self._stop.set)
        self._thread.join(SECONDS)
        assert not self._thread.is_alive()


class Bench:
    """Opens the client's connections to one broker and closes them."""

    def __init__(self, client: Any, broker: BrokerThread) -> None:
        self.client = client
        self.broker = broker
        self._open: list[Any] = []

    def _opened(self, connection: Any) -> Any:
        self._open.append(connection)
        return connection

    def sender(self, queue: str = "orders", client_id: str = "producer", **options: Any) -> Any:
        return self._opened(self.client.Sender(self.broker.send_address, queue, client_id, **options))

    def stage(self, name: str, version: int = 1, queue: str = "orders") -> Any:
        return self.sender(queue, "stager", writer="w", version=version, stage=name)

    def transaction(self, version: int = 1) -> Any:
        return self._opened(self.client.Transaction(self.broker.send_address, "w", version))

    def receiver(self, queue: str = "orders") -> Any:
        return self._opened(self.client.Receiver(self.broker.receive_address, queue))

    def subscription(self, name: str = "query", queue: str = "orders", **options: Any) -> Any:
        return self._opened(self.client.Subscription(self.broker.receive_address, queue, name, **options))

    def admin(self) -> Any:
        return self._opened(self.client.Admin(self.broker.send_address))

    def close(self) -> None:
        for connection in self._open:
            connection.close()


@pytest.fixture
def on_broker(serve: Callable[..., Any], independent_client: ModuleType) -> Callable[..., Any]:
    @contextmanager
    def opened(**options: Any) -> Iterator[Bench]:
        broker = BrokerThread(serve(**options))
        bench = Bench(independent_client, broker)
        try:
            yield bench
        finally:
            bench.close()
            broker.stop()

    return opened


@pytest.fixture
def bench(on_broker: Any) -> Iterator[Bench]:
    with on_broker() as opened:
        yield opened


def payloads(messages: list[Any]) -> list[bytes]:
    return [message.payload for message in messages]


def test_welcome_carries_what_the_page_says(bench: Bench) -> None:
    sender, receiver = bench.sender(), bench.receiver()
    assert sender.version == 1
    assert sender.epoch == receiver.epoch > 0
    assert sender.options["max_frame"] == 16 * 1024 * 1024
    assert sender.options["heartbeat_ms"] == 5000
    assert sender.options["last_sequence"] is None
    assert receiver.options["visibility_timeout_ms"] == 10_000
    assert len(receiver.options["id_prefix"]) == 8
    assert receiver.options["id_prefix"][:4] == receiver.epoch.to_bytes(4, "big")


def test_ping_is_answered_with_its_token(bench: Bench) -> None:
    assert bench.sender().ping(12345) == 12345
    assert bench.receiver().ping(0) == 0


def test_what_is_sent_is_confirmed_received_and_acknowledged(bench: Bench) -> None:
    sender, receiver, admin = bench.sender(), bench.receiver(), bench.admin()
    sender.send_payloads(b"a", b"bb", b"")
    sender.send_payloads(b"d")
    sender.confirm()
    assert sender.firsts == [0, 3]
    receiver.request(10)
    messages = receiver.receive(4)
    assert payloads(messages) == [b"a", b"bb", b"", b"d"]
    assert [message.sequence for message in messages] == [0, 1, 2, 3]
    assert {(message.delivery_count, message.possibly_replayed) for message in messages} == {(1, False)}
    assert abs(messages[0].enqueued_us / 1e6 - time.time()) < 60
    receiver.acknowledge(*messages)
    assert receiver.cancel() == []
    row = admin.queue("orders")
    assert (row["ready"], row["in_flight"], row["total_in"], row["total_acknowledged"]) == (0, 0, 4, 4)


def test_ids_keys_and_headers_arrive_as_they_were_sent(bench: Bench) -> None:
    outgoing = bench.client.Outgoing
    sender, receiver = bench.sender(), bench.receiver()
    sender.send([outgoing(b"a", bytes(range(16)), b"k", {"h": "v", "b": b"\x00"}), outgoing(b"b", b"i" * 16)])
    sender.send([outgoing(b"c")])
    receiver.request(3)
    first, second, third = receiver.receive(3)
    assert (first.id, first.key, first.headers) == (bytes(range(16)), b"k", {"h": "v", "b": b"\x00"})
    assert (second.id, second.key, second.headers) == (b"i" * 16, None, {})
    assert third.id == receiver.options["id_prefix"] + (2).to_bytes(8, "big")


def test_no_more_than_the_demand_is_delivered_and_the_rest_follows_it(bench: Bench) -> None:
    sender, receiver = bench.sender(), bench.receiver()
    sender.send_payloads(*[b"%d" % number for number in range(10)])
    receiver.request(4)
    assert payloads(receiver.receive(4)) == [b"0", b"1", b"2", b"3"]
    # PONG comes after whatever the broker had still to say.
    assert receiver.ping(1) == 1
    receiver.request(6)
    assert payloads(receiver.receive(6)) == [b"%d" % number for number in range(4, 10)]


def test_byte_demand_lets_one_message_lead_beyond_it(bench: Bench) -> None:
    sender, receiver = bench.sender(), bench.receiver()
    sender.send_payloads(b"x" * 100, b"y" * 100, b"z" * 100)
    receiver.request(3, 150)
    assert payloads(receiver.receive(2)) == [b"x" * 100, b"y" * 100]
    assert receiver.ping(1) == 1
    receiver.request(0, 100)
    assert payloads(receiver.receive(1)) == [b"z" * 100]


def test_a_rejected_message_comes_again_in_its_old_place_marked_so(bench: Bench) -> None:
    sender, receiver = bench.sender(), bench.receiver()
    sender.send_payloads(b"a", b"b", b"c", b"d")
    receiver.request(3)
    first, second, third = receiver.receive(3)
    receiver.reject(first)
    receiver.acknowledge(second)
    receiver.request(2)
    again, last = receiver.receive(2)
    assert (again.payload, again.sequence, again.delivery_count, again.possibly_replayed) == (b"a", 0, 2, True)
    assert (last.payload, last.delivery_count, last.possibly_replayed) == (b"d", 1, False)
    receiver.acknowledge(again, third, last)
    assert receiver.cancel() == []


def test_a_message_rejected_with_a_delay_comes_after_it(bench: Bench) -> None:
    sender, receiver = bench.sender(), bench.receiver()
    sender.send_payloads(b"a")
    receiver.request(2)
    (message,) = receiver.receive(1)
    began = time.monotonic()
    receiver.reject(message, delay_ms=60)
    (again,) = receiver.receive(1)
    assert time.monotonic() - began >= 0.055
    assert again.sequence == message.sequence


def test_an_extended_message_stays_with_its_receiver_past_the_visibility_timeout(on_broker: Any, jump: Any) -> None:
    with on_broker(visibility_timeout=5.0) as bench:
        sender, holder, other = bench.sender(), bench.receiver(), bench.receiver()
        sender.send_payloads(b"held", b"lost")
        holder.request(2)
        held, lost = holder.receive(2)
        holder.extend(held, ms=60_000)
        assert holder.ping(1) == 1
        bench.broker.jump(jump, 5.0)
        other.request(2)
        (again,) = other.receive(1)
        assert (again.sequence, again.delivery_count, again.possibly_replayed) == (lost.sequence, 2, True)
        # Late, but nobody's fault: it is ignored, for another holds the message now.
        holder.acknowledge(held, lost)
        assert holder.ping(1) == 1
        other.acknowledge(again)
        assert other.cancel() == []
        assert bench.admin().queue("orders")["total_acknowledged"] == 2


@pytest.mark.parametrize("way", ["close", "crash", "cancel"])
def test_a_receiver_that_goes_gives_everything_back_at_once(bench: Bench, way: str) -> None:
    sender, going, other = bench.sender(), bench.receiver(), bench.receiver()
    sender.send_payloads(b"a", b"b", b"c")
    going.request(3)
    messages = going.receive(3)
    going.acknowledge(messages[1])
    assert going.ping(1) == 1
    getattr(going, way)()
    other.request(3)
    again = other.receive(2)
    assert [(message.payload, message.possibly_replayed) for message in again] == [(b"a", True), (b"c", True)]


def test_a_resent_batch_is_confirmed_and_not_stored_again(bench: Bench) -> None:
    first = bench.sender()
    first.send_payloads(b"a", b"b")
    first.confirm()
    first.send_payloads(b"c")
    first.confirm()
    first.close()
    second = bench.sender()
    assert second.last_sequence == 3
    second.sequence = 0
    second.send_payloads(b"a", b"b")
    second.send_payloads(b"c", b"d")
    second.confirm()
    # The batch that was stored in part goes on from there, and its first message has been stored before.
    assert second.firsts == [None, None]
    receiver = bench.receiver()
    receiver.request(10)
    assert payloads(receiver.receive(4)) == [b"a", b"b", b"c", b"d"]
    assert receiver.ping(1) == 1


def test_a_newer_connection_of_a_client_takes_over(bench: Bench) -> None:
    older = bench.sender()
    older.send_payloads(b"a")
    older.confirm()
    newer = bench.sender()
    assert newer.last_sequence == 1
    with pytest.raises(bench.client.Refused, match="taken-over") as refused:
        older.listen_for_ever()
    assert refused.value.close
    newer.send_payloads(b"b")
    newer.confirm()
    assert newer.firsts == [1]


def test_a_full_queue_grants_nothing_until_something_is_acknowledged(on_broker: Any) -> None:
    with on_broker(max_queue_messages=4) as bench:
        sender, receiver = bench.sender(), bench.receiver()
        for number in range(4):
            sender.send_payloads(b"%d" % number)
        sender.confirm()
        assert sender.messages == 4
        receiver.request(10)
        messages = receiver.receive(4)
        receiver.acknowledge(*messages[:2])
        while sender.messages < 6:
            sender.listen()
        assert sender.messages == 6
        sender.send_payloads(b"4", b"5")
        assert payloads(receiver.receive(2)) == [b"4", b"5"]


def test_more_than_the_demand_is_refused_and_closed(on_broker: Any) -> None:
    with on_broker(max_queue_messages=4) as bench:
        sender = bench.sender()
        sender.listen()
        sender.messages = 100
        sender.send_payloads(*[b"x"] * 5)
        with pytest.raises(bench.client.Refused, match="demand-exceeded") as refused:
            sender.confirm()
        assert refused.value.close
        assert sender.next() is None


def test_the_largest_frame_that_a_client_may_send_reaches_a_receiver(bench: Bench) -> None:
    # The page allows frames of 16 MiB; a message that just fits one must not be stored to be undeliverable.
    sender = bench.sender()
    header_bytes = 20
    largest = 16 * 1024 * 1024 - 6 - header_bytes - 8
    refused, text = None, ""
    try:
        sender.send_payloads(b"x" * largest)
        sender.confirm()
    except bench.client.Refused as error:
        refused, text = error.code, error.text
    receiver = bench.receiver()
    if refused is None:
        receiver.request(1, 1 << 26)
        assert len(receiver.receive(1)[0].payload) == largest
    else:
        assert refused == "frame-too-large"
        assert "a SEND body of" in text
        assert bench.admin().queue("orders")["total_in"] == 0


def test_a_subscription_reserves_fetches_and_commits(bench: Bench) -> None:
    sender, subscription = bench.sender(), bench.subscription()
    sender.send_payloads(*[b"%d" % number for number in range(6)])
    sender.confirm()
    assert (subscription.subscription_epoch, subscription.base, subscription.high) == (1, 0, 0)
    end, facts = subscription.reserve(0, 4)
    assert end == 4
    assert facts["backlog"] == 2
    assert facts["high_water"] == 6
    assert set(facts) >= {"backlog", "backlog_bytes", "oldest_ms", "sender_demand", "high_water", "in_flight"}
    assert subscription.reserve(0, 10)[0] == 4, "what is reserved is the answer, nothing more is taken"
    fetched = subscription.fetch(0, 4)
    assert [(message.position, message.payload) for message in fetched] == [(n, b"%d" % n) for n in range(4)]
    assert payloads(subscription.fetch(1, 3)) == [b"1", b"2"]
    assert subscription.commit(3) == 3
    assert subscription.commit(2) == 3
    assert subscription.reserve(4, 10)[0] == 6
    assert payloads(subscription.fetch(3, 6)) == [b"3", b"4", b"5"]
    assert subscription.commit(6) == 6
    row = bench.admin().queue("orders")
    assert (row["ready"], row["reserved"], row["total_acknowledged"]) == (0, 0, 6)


def test_a_reservation_waits_for_the_first_message_and_answers_start_when_none_comes(bench: Bench) -> None:
    subscription = bench.subscription()
    began = time.monotonic()
    assert subscription.reserve(0, 5, wait_ms=50)[0] == 0
    assert time.monotonic() - began >= 0.045
    sender = bench.sender()
    sender.send_payloads(b"a")
    assert subscription.reserve(0, 5, wait_ms=10_000)[0] == 1


def test_reservations_outlive_their_connection_and_the_next_owner_has_a_greater_epoch(bench: Bench) -> None:
    sender, first = bench.sender(), bench.subscription()
    sender.send_payloads(b"a", b"b")
    assert first.reserve(0, 1, wait_ms=10_000)[0] == 1
    with pytest.raises(bench.client.Refused, match="subscription-owned"):
        bench.subscription()
    second = bench.subscription(take_over=True)
    assert (second.subscription_epoch, second.base, second.high) == (2, 0, 1)
    assert payloads(second.fetch(0, 1)) == [b"a"]
    with pytest.raises(bench.client.Refused, match="stale-epoch"):
        first.commit(1)


def test_only_who_begins_to_own_makes_a_queue_and_is_told_so(bench: Bench) -> None:
    for options in ({"must_exist": True}, {"epoch": 1}, {"mode": "read", "epoch": 1}):
        with pytest.raises(bench.client.Refused, match="not-found"):
            bench.subscription(queue="ordres", **options)
    first = bench.subscription(queue="ordres")
    assert first.options["created"] is True
    first.close()
    bench.sender("there")
    assert bench.subscription(queue="there", must_exist=True).options["created"] is False


@pytest.mark.parametrize("option", ["take_over", "must_exist"])
def test_a_flag_that_is_no_boolean_is_refused(bench: Bench, option: str) -> None:
    with pytest.raises(bench.client.Refused, match=f"protocol-error.*{option}"):
        bench.subscription(**{option: 1})


def test_readers_fetch_for_the_owner_and_only_with_its_epoch(bench: Bench) -> None:
    sender, owner = bench.sender(), bench.subscription()
    sender.send_payloads(b"a", b"b")
    sender.confirm()
    owner.reserve(0, 2)
    reader = bench.subscription(mode="read", epoch=owner.subscription_epoch)
    assert payloads(reader.fetch(0, 2)) == [b"a", b"b"]
    with pytest.raises(bench.client.Refused, match="stale-epoch"):
        bench.subscription(mode="read", epoch=owner.subscription_epoch + 1)


@pytest.mark.parametrize("request_of", [lambda s: s.reserve(5, 1), lambda s: s.fetch(0, 9), lambda s: s.commit(9)])
def test_positions_that_are_not_there_are_data_loss_naming_the_request(bench: Bench, request_of: Any) -> None:
    subscription = bench.subscription()
    with pytest.raises(bench.client.Refused, match="data-loss") as refused:
        request_of(subscription)
    # The page: "returned in the answer or in an ERROR's text".
    assert "request 1" in refused.value.text.lower()
    assert not refused.value.close


def test_latest_begins_with_what_comes_and_below_bounds_what_is_taken(bench: Bench) -> None:
    sender = bench.sender()
    sender.send_payloads(b"old")
    sender.confirm()
    subscription = bench.subscription(starting="latest")
    sender.send_payloads(b"new", b"newer")
    sender.confirm()
    assert subscription.reserve(0, 10, below=2)[0] == 1
    assert payloads(subscription.fetch(0, 1)) == [b"new"]


def test_a_released_subscription_gives_its_messages_back(bench: Bench) -> None:
    sender, subscription, admin = bench.sender(), bench.subscription(), bench.admin()
    sender.send_payloads(b"a", b"b")
    sender.confirm()
    assert subscription.reserve(0, 2)[0] == 2
    assert [row["name"] for row in admin.command("subscription.list")] == ["query"]
    assert admin.command("subscription.release", queue="orders", name="query")["released"] == 2
    receiver = bench.receiver()
    receiver.request(2)
    assert [(m.payload, m.possibly_replayed) for m in receiver.receive(2)] == [(b"a", True), (b"b", True)]
    with pytest.raises(bench.client.Refused, match="data-loss"):
        subscription.fetch(0, 2)


def test_what_nobody_owns_for_its_timeout_is_given_back(bench: Bench) -> None:
    sender, subscription = bench.sender(), bench.subscription(owner_timeout_ms=30)
    sender.send_payloads(b"a")
    sender.confirm()
    subscription.reserve(0, 1)
    subscription.close()
    receiver = bench.receiver()
    receiver.request(1)
    assert receiver.receive(1)[0].possibly_replayed


def test_queues_are_administered(bench: Bench) -> None:
    admin = bench.admin()
    created = admin.command("queue.create", name="bounded", max_messages=5, visibility_timeout_ms=1500)
    assert (created["name"], created["max_messages"], created["visibility_timeout"]) == ("bounded", 5, 1.5)
    assert admin.command("queue.create", name="bounded", max_messages=5, visibility_timeout_ms=1500)
    with pytest.raises(bench.client.Refused, match="already-exists") as refused:
        admin.command("queue.create", name="bounded", max_messages=6)
    assert not refused.value.close
    sender = bench.sender("bounded")
    sender.send_payloads(b"a", b"b")
    sender.confirm()
    assert admin.queue("bounded")["ready"] == 2
    assert admin.command("queue.purge", name="bounded")["purged"] == 2
    stats = admin.command("stats")
    assert stats["broker"]["epoch"] == admin.epoch
    assert {row["role"] for row in stats["connections"]} == {"admin", "sender"}
    assert admin.command("queue.delete", name="bounded")["name"] == "bounded"
    with pytest.raises(bench.client.Refused, match="queue-deleted"):
        sender.listen_for_ever()
    assert admin.command("queue.list") == []


def test_a_stopping_broker_says_so(serve: Any, independent_client: ModuleType) -> None:
    broker = BrokerThread(serve())
    bench = Bench(independent_client, broker)
    receiver = bench.receiver()
    stopper = threading.Thread(target=broker.stop)
    stopper.start()
    with pytest.raises(independent_client.Refused, match="shutting-down") as refused:
        receiver.receive(1)
    assert refused.value.close
    assert receiver.next() is None
    bench.close()
    stopper.join(SECONDS)
    assert not stopper.is_alive()


@pytest.mark.parametrize("properties", [{"ttl": 1}, {"priority": 3}, {"delay_ms": 43_200_001}, {"ttl_ms": 0}])
def test_a_property_that_the_page_does_not_have_is_refused(bench: Bench, properties: dict[str, int]) -> None:
    sender = bench.sender()
    sender.send([bench.client.Outgoing(b"a")], **properties)
    with pytest.raises(bench.client.Refused, match=next(iter(properties))) as refused:
        sender.confirm()
    assert (refused.value.code, refused.value.close) == ("protocol-error", True)
    assert bench.admin().queue("orders")["total_in"] == 0


def test_a_delayed_batch_comes_after_its_delay_and_others_pass_it(bench: Bench) -> None:
    sender, receiver = bench.sender(), bench.receiver()
    began = time.monotonic()
    sender.send([bench.client.Outgoing(b"later")], delay_ms=80)
    sender.send([bench.client.Outgoing(b"now")], delay_ms=0)
    sender.confirm()
    receiver.request(2)
    first, second = receiver.receive(2)
    assert time.monotonic() - began >= 0.075
    assert [(message.payload, message.sequence, message.possibly_replayed) for message in (first, second)] == [
        (b"now", 1, False),
        (b"later", 0, False),
    ]


def test_a_batch_past_its_time_to_live_is_not_delivered(bench: Bench) -> None:
    sender, receiver = bench.sender(), bench.receiver()
    # The second is receivable when the first has had its time twice over.
    sender.send([bench.client.Outgoing(b"stale")], ttl_ms=40, delay_ms=60)
    sender.send([bench.client.Outgoing(b"fresh")], ttl_ms=60_000, delay_ms=80)
    sender.confirm()
    receiver.request(2)
    (message,) = receiver.receive(1)
    assert (message.payload, message.sequence) == (b"fresh", 1)
    assert receiver.ping(1) == 1


def test_a_queue_that_rejects_says_so_and_its_sender_uses_the_numbers_again(on_broker: Any) -> None:
    with on_broker(max_queue_messages=3, overflow="reject") as bench:
        sender, receiver = bench.sender(), bench.receiver()
        sender.send_payloads(b"a", b"b")
        sender.send_payloads(b"c")
        sender.confirm()
        sender.send_payloads(b"d", b"e")
        sender.send_payloads(b"f")
        sender.answered()
        assert sender.confirmed == 3
        assert len(sender.rejections) == 2
        assert all(len(text) > 10 for text in sender.rejections)
        assert sender.sequence == 3
        receiver.request(10)
        receiver.acknowledge(*receiver.receive(3))
        assert receiver.ping(1) == 1
        sender.rejections.clear()
        sender.send_payloads(b"g")
        sender.confirm()
        assert (sender.confirmed, sender.firsts[-1]) == (4, 3)
        assert payloads(receiver.receive(1)) == [b"g"]
        sender.close()
        assert bench.sender().last_sequence == 4


def test_what_was_sent_behind_a_rejected_batch_is_not_stored_even_where_there_is_room(on_broker: Any) -> None:
    with on_broker(max_queue_messages=3, overflow="reject") as bench:
        sender = bench.sender()
        sender.send_payloads(b"a", b"b")
        sender.send_payloads(b"c", b"d")
        # There is room for this one, but whoever sent it counts on what was before it.
        sender.send_payloads(b"e")
        sender.answered()
        assert (sender.confirmed, len(sender.rejections)) == (2, 2)
        again = bench.sender()
        assert again.last_sequence == 2


def test_the_second_receiver_of_an_exclusive_queue_is_told_that_it_waits(on_broker: Any) -> None:
    with on_broker(exclusive=True) as bench:
        sender, first, second = bench.sender(), bench.receiver(), bench.receiver()
        assert (first.waits_in_line, second.waits_in_line) == (False, True)
        sender.send_payloads(b"a", b"b")
        second.request(2)
        first.request(1)
        assert payloads(first.receive(1)) == [b"a"]
        first.close()
        assert [(message.payload, message.possibly_replayed) for message in second.receive(2)] == [
            (b"a", True),
            (b"b", False),
        ]


def test_what_is_staged_is_received_after_the_commit_and_what_lost_never(bench: Bench) -> None:
    winner, loser, other = bench.stage("0-0"), bench.stage("0-1"), bench.stage("0-0", queue="returns")
    for sender, payload in ((winner, b"won"), (loser, b"lost"), (other, b"too")):
        assert (sender.last_sequence, sender.options["committed"]) == (None, False)
        sender.send_payloads(payload, payload)
        sender.confirm()
    row = bench.admin().queue("orders")
    assert (row["ready"], row["staged_messages"]) == (0, 4)
    transaction = bench.transaction()
    assert transaction.last_version is None
    transaction.enlist("orders", "0-0", 2)
    transaction.enlist("returns", "0-0", 2)
    assert transaction.commit() == 4
    receiver, returns = bench.receiver(), bench.receiver("returns")
    receiver.request(10)
    returns.request(10)
    assert payloads(receiver.receive(2)) == [b"won", b"won"]
    assert payloads(returns.receive(2)) == [b"too", b"too"]
    row = bench.admin().queue("orders")
    assert (row["ready"], row["staged_messages"]) == (0, 0)


def test_a_commit_may_be_repeated_and_nothing_is_staged_for_a_committed_version(bench: Bench) -> None:
    bench.transaction(4).commit()
    again = bench.transaction(4)
    assert again.last_version == 4
    again.enlist("orders", "none", 7)
    assert again.commit() == 0
    late = bench.stage("0-0", version=3)
    assert late.options["committed"] is True
    # What is sent has to be granted first; if nothing is, nothing can be sent.
    late.messages, late.bytes = 1, 1
    late.send_payloads(b"x")
    with pytest.raises(bench.client.Refused, match="transaction-committed"):
        late.listen_for_ever()


def test_a_stage_goes_on_from_last_sequence_and_its_newest_connection_has_it(bench: Bench) -> None:
    first = bench.stage("0-0")
    first.send_payloads(b"a", b"b")
    first.confirm()
    second = bench.stage("0-0")
    assert second.last_sequence == 2
    with pytest.raises(bench.client.Refused, match="taken-over"):
        first.listen_for_ever()
    second.send_payloads(b"c")
    second.confirm()
    transaction = bench.transaction()
    transaction.enlist("orders", "0-0", 3)
    assert transaction.commit() == 3


def test_a_stage_that_is_not_as_enlisted_is_refused_and_nothing_is_committed(bench: Bench) -> None:
    stage = bench.stage("0-0")
    stage.send_payloads(b"a")
    stage.confirm()
    transaction = bench.transaction()
    transaction.enlist("orders", "0-0", 2)
    with pytest.raises(bench.client.Refused, match="transaction-incomplete") as refused:
        transaction.commit()
    assert not refused.value.close
    # After a refusal nothing is enlisted; the connection goes on.
    assert transaction.abort() == 1
    assert bench.transaction().last_version is None


def test_commands_list_and_abort_transactions(bench: Bench) -> None:
    stage = bench.stage("0-0", version=6)
    stage.send_payloads(b"a", b"b")
    stage.confirm()
    admin = bench.admin()
    (row,) = admin.command("transaction.list")
    assert (row["writer"], row["version"], row["messages"]) == ("w", 6, 2)
    assert admin.command("transaction.abort", writer="w", version=6)["discarded"] == 2
    assert admin.command("transaction.list") == []


# What somebody missed, or found wrong, who wrote a client from the page


def test_numbers_end_at_two_to_the_63_less_one(bench: Bench) -> None:
    admin = bench.admin()
    assert admin.ping(2**63 - 1) == 2**63 - 1
    admin.write([bench.client.PING, 2**63])
    with pytest.raises(bench.client.Refused, match="protocol-error"):
        admin.read(bench.client.RESULT)


def test_generated_ids_begin_with_the_prefix_and_not_with_the_epoch(bench: Bench) -> None:
    sender, receiver = bench.sender(), bench.receiver()
    sender.send_payloads(b"a", b"b")
    receiver.request(2)
    prefix = receiver.options["id_prefix"]
    assert len(prefix) == 8
    assert [message.id for message in receiver.receive(2)] == [prefix + n.to_bytes(8, "big") for n in range(2)]


@pytest.mark.parametrize(("less", "allowed"), [(0, False), (1, True)])
def test_all_but_the_last_message_take_less_than_the_byte_demand(bench: Bench, less: int, allowed: bool) -> None:
    sender = bench.sender()
    sender.listen()
    # Without its last message the batch has two offsets and the first payload.
    first = bench.client.Outgoing(b"x" * (sender.bytes - 8 - less))
    described, body = bench.client.pack_batch([first, bench.client.Outgoing(b"y" * 5000)])
    sender.write([bench.client.SEND, 0, None, *described], body)
    sender.under_way.append(0)
    if allowed:
        sender.confirm()
    else:
        with pytest.raises(bench.client.Refused, match="demand-exceeded"):
            sender.confirm()


def test_a_batch_may_take_the_byte_demand_to_the_last_byte(bench: Bench) -> None:
    sender = bench.sender()
    sender.listen()
    described, body = bench.client.pack_batch(
        [bench.client.Outgoing(b"x" * (sender.bytes - 12 - 7)), bench.client.Outgoing(b"y" * 7)]
    )
    assert len(body) == sender.bytes
    sender.write([bench.client.SEND, 0, None, *described], body)
    sender.under_way.append(0)
    sender.confirm()


def test_the_offsets_of_what_is_delivered_count_as_bytes(bench: Bench) -> None:
    sender, receiver = bench.sender(), bench.receiver()
    sender.send_payloads(*[b"x" * 100] * 3)
    sender.confirm()
    receiver.request(3, 1)
    assert len(receiver.receive(1)) == 1
    # 8 bytes of offsets and 100 of payload: that is used up, not a byte less.
    receiver.request(0, 107)
    receiver.ping(7)
    receiver.request(0, 1)
    assert len(receiver.receive(1)) == 1


def test_what_is_confirmed_begins_again_where_a_client_sends_again(bench: Bench) -> None:
    first = bench.sender()
    for payload in (b"a", b"b", b"c"):
        first.send_payloads(payload)
    first.confirm()
    assert first.confirmed == 3
    first.close()
    again = bench.sender()
    assert again.last_sequence == 3
    # From any stored number on, and cut otherwise than before.
    again.sequence = 1
    again.send_payloads(b"b", b"c", b"d")
    again.confirm()
    again.sequence = 0
    again.send_payloads(b"a")
    again.confirm()
    assert again.confirmed == 1
    again.sequence = 9
    again.send_payloads(b"z")
    with pytest.raises(bench.client.Refused, match="protocol-error") as refused:
        again.confirm()
    assert "message 9 of this producer came where 4 had to" in str(refused.value)
    receiver = bench.receiver()
    receiver.request(9)
    assert payloads(receiver.receive(4)) == [b"a", b"b", b"c", b"d"]


@pytest.mark.parametrize("ranges", [[], [0, 0], [0], [0, 1, 1]])
@pytest.mark.parametrize("kind", ["ACK", "NACK", "EXTEND"])
def test_answers_for_nothing_are_refused(bench: Bench, kind: str, ranges: list[int]) -> None:
    sender, receiver = bench.sender(), bench.receiver()
    sender.send_payloads(b"a", b"b")
    receiver.request(2)
    receiver.receive(2)
    receiver.write([getattr(bench.client, kind), ranges, *([] if kind == "ACK" else [10])])
    with pytest.raises(bench.client.Refused, match="protocol-error"):
        receiver.receive(1)


def test_a_frame_of_a_receiver_is_small_and_one_of_a_sender_may_be_large(bench: Bench) -> None:
    receiver = bench.receiver()
    assert receiver.options["max_frame"] == 16 * 2**20
    receiver.write([bench.client.PING, 1], b"x" * 8 * 1024)
    with pytest.raises(bench.client.Refused, match="frame-too-large"):
        receiver.receive(1)
    sender = bench.sender()
    sender.write([bench.client.PING, 1], b"x" * 100_000)
    with pytest.raises(bench.client.Refused, match="protocol-error"):
        sender.listen_for_ever()


@pytest.mark.parametrize(
    ("said", "what"),
    [(b"GET / HTTP/1.1\r\n\r\n", "an HTTP request"), (b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc", "the hello of TLS")],
)
def test_another_protocol_is_answered_with_what_it_is(bench: Bench, said: bytes, what: str) -> None:
    host, port = bench.broker.send_address.rsplit(":", 1)
    with socket.create_connection((host, int(port)), SECONDS) as stranger:
        stranger.sendall(said)
        answer = b""
        while part := stranger.recv(4096):
            answer += part
    assert what.encode() in answer


def test_lists_come_in_pages(bench: Bench) -> None:
    for number in range(5):
        bench.receiver(f"queue-{number}")
    admin = bench.admin()
    pages = admin.rows("queue.list", 2)
    assert [len(page) for page in pages] == [2, 2, 1]
    names = [row["name"] for page in pages for row in page]
    assert names == [row["name"] for row in admin.command("queue.list")] == [f"queue-{number}" for number in range(5)]
    assert {
        name: sum(map(len, admin.rows(name, 4)))
        for name in ("subscription.list", "transaction.list", "connection.list")
    } == {"subscription.list": 0, "transaction.list": 0, "connection.list": 6}
    assert admin.command("stats", lists=False).keys() == {"broker", "storage"}


def test_after_a_kill_what_nobody_has_seen_is_marked_too_and_counted_anew(
    independent_client: ModuleType, tmp_path: Path
) -> None:
    with BrokerProcess("--data", str(tmp_path)) as broker:
        sender = independent_client.Sender(broker.sending, "q", "p")
        sender.send_payloads(b"seen", b"unseen")
        sender.confirm()
        receiver = independent_client.Receiver(broker.receiving, "q")
        receiver.request(1)
        (seen,) = receiver.receive(1)
        assert (seen.possibly_replayed, seen.delivery_count) == (False, 1)
        prefix, epoch = receiver.options["id_prefix"], receiver.epoch
        broker.process.kill()
        broker.end()
        sender.close()
        receiver.close()
    with (
        BrokerProcess("--data", str(tmp_path)) as broker,
        independent_client.Receiver(broker.receiving, "q") as receiver,
    ):
        receiver.request(2)
        messages = receiver.receive(2)
        assert [(each.payload, each.possibly_replayed, each.delivery_count) for each in messages] == [
            (b"seen", True, 1),
            (b"unseen", True, 1),
        ]
        assert receiver.options["id_prefix"] == prefix
        assert receiver.epoch > epoch
