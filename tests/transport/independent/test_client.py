"""docs/protocol.md by a client written from it alone: welcome, messages, answers, queues, the end of a broker."""

from __future__ import annotations

import threading
import time
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from tests.transport.independent.conftest import SECONDS, Bench, BrokerThread, payloads
from tests.transport.programs import BrokerProcess


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


@pytest.mark.parametrize(
    "properties", [{"ttl": 1}, {"rank": 3}, {"priority": 256}, {"delay_ms": 31_622_400_001}, {"ttl_ms": -1}]
)
def test_a_property_that_the_page_does_not_have_is_refused(bench: Bench, properties: dict[str, int]) -> None:
    sender = bench.sender()
    sender.send([bench.client.Outgoing(b"a")], **properties)
    with pytest.raises(bench.client.Refused, match=next(iter(properties))) as refused:
        sender.confirm()
    assert (refused.value.code, refused.value.close) == ("protocol-error", True)
    assert bench.admin().queue("orders")["total_in"] == 0


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
